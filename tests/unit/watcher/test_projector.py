"""A reflector's handler: a resumed watch knows its cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tjworker.api.resources import PODS
from tjworker.base import Transient
from tjworker.kube.reflector import Closed
from watcher.event_queue import EventQueue
from watcher.outage import Outage
from watcher.projector import Projector


def projector(queue: EventQueue, cluster_id: Callable[[], str] = lambda: "red", *, resumes: str = "") -> Projector:
    return Projector(PODS, queue, cluster_id, Outage(lambda: 0.0), resumes=resumes)


@pytest.mark.parametrize(("cluster", "goes_on"), [("red", True), ("blue", False), ("", False)])
def test_a_watch_is_resumed_in_the_cluster_of_the_projection_only(cluster: str, goes_on: bool) -> None:
    handler = projector(EventQueue(10), lambda: cluster, resumes="red")
    if goes_on:
        handler.watch_begins()
    else:
        with pytest.raises(Closed):
            handler.watch_begins()


def test_a_cluster_that_does_not_answer_is_asked_again() -> None:
    answers: Iterator[Transient | str] = iter([Transient("refused"), "red"])

    def cluster_id() -> str:
        answer = next(answers)
        if isinstance(answer, Transient):
            raise answer
        return answer

    handler = projector(EventQueue(10), cluster_id, resumes="red")
    with pytest.raises(Transient):
        handler.watch_begins()
    handler.watch_begins()
