"""A small chart as SVG: numbers that change in steps over time, and what happened when. Text in, text out; nothing to
install.

Made for `docs/elasticity.svg`. Deterministic: the same samples give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 900, 360
LEFT, RIGHT, TOP, BOTTOM = 46, 16, 64, 40
COLOURS = ("#1f6feb", "#d1495b", "#2e8b57", "#8a6d3b")

Samples = Sequence[tuple[float, float]]
"""(seconds, value), in the order of time: the value holds until the next."""


def steps(title: str, series: Mapping[str, Samples], marks: Sequence[tuple[float, str]]) -> str:
    """One stepped line a series, and a vertical line with words for each mark."""
    points = [point for samples in series.values() for point in samples]
    last = max((seconds for seconds, _ in points), default=1.0) or 1.0
    top = max((value for _, value in points), default=1.0) or 1.0

    def x(seconds: float) -> float:
        return round(LEFT + seconds / last * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM), 1)

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
            ' font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for value in range(int(top) + 1):
        out.append(
            f'<path d="M{LEFT} {y(value)}H{WIDTH - RIGHT}" stroke="#e5e5e5"/>'
            f'<text x="{LEFT - 8}" y="{y(value) + 4}" text-anchor="end">{value}</text>'
        )
    for second in range(0, int(last) + 1, _tick(last)):
        out.append(f'<text x="{x(second)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{second} s</text>')
    for number, (seconds, words) in enumerate(marks):
        out.append(
            f'<path d="M{x(seconds)} {TOP - 4}V{HEIGHT - BOTTOM}" stroke="#999" stroke-dasharray="3 3"/>'
            f'<text x="{x(seconds) + 3}" y="{TOP - 6 - 12 * (number % 2)}" font-size="11">{escape(words)}</text>'
        )
    for number, (name, samples) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = "".join(
            f"{'M' if i == 0 else 'H'}{x(seconds)}{' ' if i == 0 else 'V'}{y(value)}"
            for i, (seconds, value) in enumerate(samples)
        )
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        name_x = WIDTH - RIGHT - 150 * (len(series) - number) + 20
        out.append(f'<text x="{name_x}" y="18" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def _tick(last: float) -> int:
    """Between 5 and 10 of them."""
    return next((step for step in (5, 10, 20, 30, 60, 120, 300) if last / step <= 10), 600)
