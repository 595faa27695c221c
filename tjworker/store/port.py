"""The Store: the projection, the work queue and the maintenance of Redis. Code that needs only one of them takes that
one."""

from __future__ import annotations

from typing import Protocol

from tjworker.store.maintenance import Maintenance
from tjworker.store.projection import Projection
from tjworker.store.work_queue import WorkQueue


class Store(Protocol):
    """All of them, over one client."""

    @property
    def projection(self) -> Projection: ...

    @property
    def queue(self) -> WorkQueue: ...

    @property
    def maintenance(self) -> Maintenance: ...
