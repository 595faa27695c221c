"""How fast a simulated job trains with its replicas. Pure.

The unit of work depends on the speed model: seconds of one replica (`Linear`, `Table`), or progress (`pollux`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tjworker.autoscale.step_time import interpolate

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
    """Speeds that were measured with some numbers of replicas."""

    points: Sequence[tuple[int, float]]
    """(replicas, units of work per second), ascending, at least one."""

    def rate(self, layout: Layout, done: float) -> Rate:
        # Below the first point in proportion to it. Beyond the last one measurements say nothing: to go on rising would
        # reward every policy that adds replicas.
        speed = interpolate(self.points, sum(layout)) * min(1.0, sum(layout) / self.points[0][0])
        return Rate(speed, speed)
