"""Clocks of tests."""

from __future__ import annotations

from collections.abc import Callable

from tjworker.clock import ClusterClock


def shared(now: Callable[[], float]) -> ClusterClock:
    """The clock of a process whose own clocks, wall and monotonic, show this time."""
    return ClusterClock(wall=now, monotonic=now)


class Alone(ClusterClock):
    """Time that passes for one process alone, which reads no other clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(wall=now, monotonic=now)

    def see_redis(self, seconds: float) -> None: ...
