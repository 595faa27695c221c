"""Follows one watch from where the last watcher stopped, while the informer proper makes its list: nobody waits for a list.

It only runs ahead. What it shows is true and comes to the store like any news; the informer lists all the same, says what is
gone, counts loads, and is right where this one was wrong. So it needs no memory of what exists, and gives up at the first
doubt: another cluster, history that is gone (410), a server behind its position, a kind that is not there. Then the list is
waited for, as after a start with an empty Redis. The informer stops it once the list is in.
"""

from __future__ import annotations

import structlog

from tjworker.base import OperatorError
from watcher.inbox import Closed
from watcher.informer import Informer
from watcher.resume import Start

log = structlog.get_logger(__name__)


class Forerunner(Informer):
    ahead = True

    def __init__(self, informer: Informer, start: Start) -> None:
        super().__init__(
            informer.resource,
            informer._api,
            informer._inbox,
            now=informer._now,
            namespace=informer.namespace,
            watch_timeout_seconds=informer._watch_timeout_seconds,
            rng=informer._rng,
        )
        self.outage, self.cluster = informer.outage, informer.cluster
        self._loads = None  # sums need to know every pod
        self._tracker.position = start.positions[self.source]
        self._needs_list = False
        self._of_cluster = start.cluster
        self._is_sure = False

    def step(self) -> float:
        """Raises Closed when it has nothing more to give."""
        if not self._is_sure:
            try:
                found = self.cluster.read() if self.cluster is not None else ""
            except OperatorError as error:
                return self._session_failed(error)
            if found != self._of_cluster:
                raise self._given_up("the projection is of another cluster")
            self._is_sure = True
        return super().step()

    def _may_list(self) -> float:
        raise self._given_up("its history is gone")

    def _absent(self, state: str, why: str, poll_seconds: float) -> float:
        raise self._given_up(why)

    def _given_up(self, why: str) -> Closed:
        log.info(
            "cannot go on where the last watcher stopped, the list is waited for",
            resource=self.source,
            position=self._tracker.position,
            reason=why,
        )
        self.vitals.state = "over"
        self.stop()
        return Closed()


def forerunners(informers: list[Informer], start: Start) -> list[Forerunner]:
    """One for each informer that may have one, which will stop it."""
    made = []
    for informer in informers:
        if informer.source in start.positions:
            informer.forerunner = Forerunner(informer, start)
            made.append(informer.forerunner)
    return made
