"""How fast a simulated job trains with its replicas. Pure.

The unit of work depends on the speed model: seconds of one replica (`Linear`, `Table`), or progress (`pollux`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Layout = tuple[int, ...]
"""The number of replicas on each node that has any, ascending."""


@dataclass(frozen=True, slots=True)
class Rate:
    work_per_second: float
    samples_per_second: float
    """The samples per second of the whole job, as it reports them."""
    batch_size: int | None = None
    grad_sqr: float | None = None
    grad_var: float | None = None
    until: float = float("inf")
    """The amount of work up to which this speed is valid."""


NO_SPEED = Rate(0.0, 0.0)


class Speed(Protocol):
    def rate(self, layout: Layout, done: float) -> Rate:
        """The speed on a layout, which has at least one replica. `done`: the work done so far."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Each replica does one unit of work per second, on any node."""

    def rate(self, layout: Layout, done: float) -> Rate:
        return Rate(float(sum(layout)), float(sum(layout)))


LINEAR = Linear()


@dataclass(frozen=True, slots=True)
class Table:
    """Speeds that were measured with some numbers of replicas; see `interpolate`."""

    points: Sequence[tuple[int, float]]
    """(replicas, units of work per second), ascending, at least one."""

    def rate(self, layout: Layout, done: float) -> Rate:
        speed = interpolate(self.points, sum(layout))
        return Rate(speed, speed)


def interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """Linear between the points. Proportional to the first point below it, constant beyond the last."""
    x0, y0 = points[0]
    if at <= x0:
        return y0 * at / x0 if x0 else y0
    # Measurements say nothing about more replicas: to go on rising would reward every policy that adds some.
    if at >= points[-1][0]:
        return points[-1][1]
    high = bisect_left(points, (at, float("-inf")))
    (x0, y0), (x1, y1) = points[high - 1], points[high]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)
