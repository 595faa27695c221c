"""How fast a job trains with the replicas that it has. Pure.

Work is counted in units of the job's own: seconds of one replica (`Linear`, `Table`), or progress (`pollux`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Layout = tuple[int, ...]
"""Replicas on each node that has any, in ascending order."""


@dataclass(frozen=True, slots=True)
class Rate:
    work_per_second: float
    samples_per_second: float
    """Of the whole job: what it reports."""
    batch_size: int | None = None
    grad_sqr: float | None = None
    grad_var: float | None = None
    until: float = float("inf")
    """It holds until so much work is done."""


NO_SPEED = Rate(0.0, 0.0)


class Speed(Protocol):
    def rate(self, layout: Layout, done: float) -> Rate:
        """`done`: work so far. `layout` has at least one replica."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Each replica does one unit of work a second, wherever it is."""

    def rate(self, layout: Layout, done: float) -> Rate:
        return Rate(float(sum(layout)), float(sum(layout)))


LINEAR = Linear()


@dataclass(frozen=True, slots=True)
class Table:
    """Measured speeds by replicas; linear between them, constant beyond the last."""

    points: Sequence[tuple[int, float]]
    """(replicas, units a second), ascending, at least one."""

    def rate(self, layout: Layout, done: float) -> Rate:
        speed = interpolate(self.points, sum(layout))
        return Rate(speed, speed)


def interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """Below the first point in proportion to it, beyond the last as there."""
    x0, y0 = points[0]
    if at <= x0:
        return y0 * at / x0 if x0 else y0
    if at >= points[-1][0]:
        return points[-1][1]
    high = bisect_left(points, (at, float("-inf")))
    (x0, y0), (x1, y1) = points[high - 1], points[high]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
