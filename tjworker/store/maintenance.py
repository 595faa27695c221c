"""What the processes share in Redis besides jobs: a clock, turns of periodic tasks, and the repair of values.

Every method raises Transient if Redis is away, read-only or out of memory, and may then be called again.
`redis_maintenance.py` implements it, and `tests/integration/store/` is the contract.
"""

from __future__ import annotations

from typing import Protocol


class Maintenance(Protocol):
    def once(self, name: str, period_seconds: float) -> bool:
        """True for one caller per period, so that two beats do no harm. The period begins with that call."""
        ...

    def time(self) -> float:
        """Redis' time, in Unix seconds: the clock that all processes share."""
        ...

    def certificate_ends(self) -> float | None:
        """When Redis' certificate expires, in Unix seconds; None without TLS."""
        ...

    def repair(self, *, lease_seconds: float, everything: bool) -> int:
        """Repair values that the operator cannot have written and that would block keys for ever: leases longer than
        `lease_seconds`, facts that never expire, times in the future, keys of another type. Returns how many were
        repaired. Checks the queue; with `everything` also the keys of each job."""
        ...
