"""A chart as SVG, to be looked at in a browser or put into a page. Pure; the same chart gives the same bytes.

What a cluster said is escaped, and there is no script: the file may be opened anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from xml.sax.saxutils import escape

from tjworker.base import printable
from tjworker.cli.chart import Bar, Chart, Lane, Mark
from tjworker.cli.rows import duration

WIDTH = 960
LEFT, RIGHT, TOP, ROW, BAR = 170, 24, 64, 22, 14
COLOURS = {
    "Waiting": "#b8b8b8",
    "Pending": "#b8b8b8",
    "Creating": "#e3c567",
    "Running": "#3a9d5d",
    "Scaling": "#4a90c2",
    "Restarting": "#e08a3c",
    "Terminating": "#8a6fb0",
    "Suspended": "#7d8790",
    "waits": "#d5d5d5",
    "starts": "#e3c567",
    "runs": "#6fbf8b",
    "succeeded": "#1d6b3a",
    "failed": "#c0392b",
    "gone": "#555555",
}
_SIGNS = {"succeeded": "\u2713", "failed": "\u2717", "gone": "\u2298"}
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800)
_MOST_TICKS = 10


def svg(chart: Chart) -> str:
    return "\n".join([*_drawing(chart), ""])


def _drawing(chart: Chart) -> Iterator[str]:
    gap = ROW if chart.pods else 0
    below = TOP + ROW * (len(chart.phases) + len(chart.pods)) + gap
    height = below + ROW + 18 * len(chart.incidents) + 16
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    yield f'<text x="12" y="22" font-size="15" font-weight="bold">{_text(chart.title)}</text>'
    seconds = (chart.end - chart.begin).total_seconds()
    yield f'<text x="12" y="40" fill="#555">{chart.begin:%Y-%m-%d %H:%M:%S} UTC, {duration(seconds)} in all</text>'
    yield from _axis(chart, below - 6)
    top = TOP
    for lanes in (chart.phases, chart.pods):
        for lane in lanes:
            yield from _lane(chart, lane, top)
            top += ROW
        top += gap
    yield from _legend(below + 6)
    for number, mark in enumerate(chart.incidents):
        y = below + ROW + 14 + 18 * number
        after = duration((mark.at - chart.begin).total_seconds())
        fill = COLOURS.get(mark.sign, "#333")
        yield f'<text x="{LEFT - 10}" y="{y}" text-anchor="end" fill="#555">{after}</text>'
        yield f'<text x="{LEFT}" y="{y}" fill="{fill}">{_text(_short(mark.about, 120))}</text>'
    yield "</svg>"


def _axis(chart: Chart, bottom: int) -> Iterator[str]:
    seconds = max(1.0, (chart.end - chart.begin).total_seconds())
    step = next((s for s in _STEPS if seconds / s <= _MOST_TICKS), int(seconds // _MOST_TICKS) or 1)
    for tick in range(int(seconds // step) + 1):
        x = LEFT + (WIDTH - LEFT - RIGHT) * tick * step / seconds
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{bottom}" stroke="#e4e4e4"/>'
        at = f'x="{x:.1f}" y="{TOP - 8}" text-anchor="middle" fill="#777" font-size="11"'
        yield f"<text {at}>{duration(tick * step)}</text>"


def _lane(chart: Chart, lane: Lane, top: int) -> Iterator[str]:
    middle = top + BAR - 2
    yield f'<text x="{LEFT - 10}" y="{middle}" text-anchor="end">{_text(_short(lane.name, 24))}</text>'
    for bar in lane.bars:
        yield _bar(chart, bar, top)
    for mark in lane.marks:
        yield _mark(chart, mark, middle)


def _bar(chart: Chart, bar: Bar, top: int) -> str:
    begin, end = _x(chart, bar.begin), _x(chart, bar.end)
    colour = COLOURS.get(bar.about if bar.state == "phase" else bar.state, "#999")
    title = f"{bar.about}: {duration((bar.end - bar.begin).total_seconds())}"
    return (
        f'<rect x="{begin:.1f}" y="{top}" width="{max(1.0, end - begin):.1f}" height="{BAR}" rx="2" fill="{colour}">'
        f"<title>{_text(title)}</title></rect>"
    )


def _mark(chart: Chart, mark: Mark, y: int) -> str:
    return (
        f'<text x="{_x(chart, mark.at):.1f}" y="{y}" text-anchor="middle" font-size="14" font-weight="bold" '
        # A rim in the background's colour, as the sign overlaps the end of its bar.
        'stroke="white" stroke-width="3" paint-order="stroke" '
        f'fill="{COLOURS[mark.sign]}">{_SIGNS[mark.sign]}<title>{_text(mark.about)}</title></text>'
    )


def _legend(y: int) -> Iterator[str]:
    said = {"waits": "waits for a node", "starts": "is started", "runs": "runs"}
    said |= {sign: f"{_SIGNS[sign]} {word}" for sign, word in (("succeeded", "succeeded"), ("failed", "failed"))}
    said["gone"] = f"{_SIGNS['gone']} deleted"
    x = LEFT
    for state, what in said.items():
        if state in _SIGNS:
            yield f'<text x="{x}" y="{y + 10}" fill="{COLOURS[state]}">{what}</text>'
        else:
            yield f'<rect x="{x}" y="{y}" width="12" height="12" rx="2" fill="{COLOURS[state]}"/>'
            x += 17
            yield f'<text x="{x}" y="{y + 10}" fill="#333">{what}</text>'
        x += 18 + 7 * len(what)


def _x(chart: Chart, at: datetime) -> float:
    seconds = (chart.end - chart.begin).total_seconds() or 1.0
    # Times of nodes can be before the job's creation or after its end. The mark stays within the drawing.
    part = min(1.0, max(0.0, (at - chart.begin).total_seconds() / seconds))
    return LEFT + (WIDTH - LEFT - RIGHT) * part


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _text(words: str) -> str:
    return escape(printable(words), {'"': "&quot;"})
