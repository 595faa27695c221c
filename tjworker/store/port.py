"""The Store: the projection and the work queue. Code that needs only one of them takes that one."""

from __future__ import annotations

from typing import Protocol

from tjworker.store.projection import Projection
from tjworker.store.work_queue import WorkQueue


class Store(Protocol):
    """Both halves, over one client."""

    @property
    def projection(self) -> Projection: ...

    @property
    def queue(self) -> WorkQueue: ...
