"""Draws a chart for a terminal, in the given width; with ASCII characters where a terminal has no blocks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tjworker.base import printable
from tjworker.cli.chart import Chart, Lane
from tjworker.cli.rows import duration
from tjworker.cli.wrapping import wrap

LABEL_WIDTH = 20
MAX_PODS = 40
BLOCKS = {"phase": "█", "waits": "·", "starts": "▒", "runs": "█", "succeeded": "✓", "failed": "✗", "gone": "⊘"}
LETTERS = {"phase": "=", "waits": ".", "starts": "-", "runs": "=", "succeeded": "+", "failed": "!", "gone": "x"}
_TICK_WIDTH = 10


def lines(chart: Chart, width: int = 80, *, letters: bool = False) -> Iterator[str]:
    """No line is wider than `width` (of at least 60)."""
    signs = LETTERS if letters else BLOCKS
    names = [lane.name for lane in (*chart.phases, *chart.pods)]
    label = min(LABEL_WIDTH, max((len(name) for name in names), default=0))
    scale = _Scale(chart, width - label - 2)
    yield printable(chart.title)
    yield f"{chart.begin:%Y-%m-%d %H:%M:%S} UTC, {duration(scale.seconds)} in all"
    yield ""
    yield f"{'':<{label}}  {scale.axis()}".rstrip()
    for group in (chart.phases, chart.pods[:MAX_PODS]):
        for lane in group:
            yield f"{_cut(printable(lane.name), label):<{label}}  {scale.lane(lane, signs)}".rstrip()
        yield ""
    if len(chart.pods) > MAX_PODS:
        yield f"... and {len(chart.pods) - MAX_PODS} more replicas (-o svg draws all)"
        yield ""
    if chart.pods:
        yield from wrap(_legend(signs), width, under=0)
    for mark in chart.incidents:
        at = f"{duration((mark.at - chart.begin).total_seconds()):>7}  "
        yield from wrap(f"{at}{printable(mark.about)}", width, under=len(at))


def _legend(signs: dict[str, str]) -> str:
    said = {
        "waits": "waits for a node",
        "starts": "is started",
        "runs": "runs",
        "succeeded": "succeeded",
        "failed": "failed",
        "gone": "deleted",
    }
    return "  ".join(f"{signs[state]} {what}" for state, what in said.items())


def _cut(text: str, width: int) -> str:
    """The text without its beginning: the end of a pod's name identifies the replica."""
    return text if len(text) <= width else f"..{text[len(text) - width + 2 :]}"


class _Scale:
    def __init__(self, chart: Chart, columns: int) -> None:
        self._begin, self._columns = chart.begin, columns
        self.seconds = (chart.end - chart.begin).total_seconds()

    def column(self, at: datetime) -> int:
        part = (at - self._begin).total_seconds() / (self.seconds or 1.0)
        return min(self._columns - 1, max(0, int(part * self._columns)))

    def lane(self, lane: Lane, signs: dict[str, str]) -> str:
        cells = [" "] * self._columns
        for bar in lane.bars:
            first = self.column(bar.begin)
            # At least a column: in the chart of a day, a pod that ran for a minute must not vanish.
            for column in range(first, max(first + 1, self.column(bar.end))):
                cells[column] = signs[bar.state]
        # After the bars: the end of a pod is worth more than the last column of its bar.
        for mark in lane.marks:
            cells[self.column(mark.at)] = signs[mark.sign]
        return "".join(cells)

    def axis(self) -> str:
        """Times since the beginning, each above its column."""
        text, ticks = "", max(1, self._columns // _TICK_WIDTH)
        for tick in range(ticks):
            text = text.ljust(tick * _TICK_WIDTH) + duration(tick * _TICK_WIDTH / self._columns * self.seconds)
        return text[: self._columns]
