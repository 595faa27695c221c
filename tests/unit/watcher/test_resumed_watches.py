"""A watcher that goes on where the last one stopped: what it sees before any list, when it gives up, and what the list
mends.

On the local cluster's API server, in one process and in virtual time; `lists` holds the reflectors back from their
lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from benchmarks.support.inprocess import InProcessWatcher
from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.test_in_process import JOB, KEY
from tests.unit.watcher.test_in_process import Bench as Local
from tjworker.api.kinds import KINDS
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.base import Fenced, GroupResource, JobKey, JsonDict
from tjworker.kube.resources import watched

NEW = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/new")
FOLLOWED = {AITRAININGJOBS, PODS, SERVICES, REPLICASETS, BATCH_JOBS}
"""What is installed, but for nodes."""


class Bench(Local):
    """A job with two pods that a first watcher has shown; it is gone."""

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed=seed)
        self.job = self.kube.create(AITRAININGJOBS, "default", JOB)
        self.pods = [self.kube.create(PODS, "default", self.pod(f"digits-trainer-{n}", self.job)) for n in range(2)]
        self.settle()

    def successor(self, *, lists: bool = False) -> InProcessWatcher:
        watcher = self.new_watcher()
        watcher.lists = lists
        return watcher

    def delete_pod(self, number: int = 1) -> None:
        meta = self.pods[number]["metadata"]
        self.kube.delete(PODS, "default", meta["name"], uid=meta["uid"], grace_seconds=0)

    def new_job(self) -> JsonDict:
        return self.kube.create(AITRAININGJOBS, "default", {**JOB, "metadata": {"name": "new"}})

    def pod_names(self) -> list[str]:
        return [pod.name for pod in self.observed()[1].pods]

    def listed(self) -> set[str]:
        """What the watcher has listed."""
        return {
            row.name
            for method, path in self.watcher.transport.requests
            for row in watched(KINDS)
            if method == "GET" and path == row.path()
        }

    def following(self) -> set[str]:
        return {one.resource for one in self.watcher.resumed_watches}


def test_what_happened_while_no_watcher_ran_is_seen_without_a_list() -> None:
    bench = Bench()
    bench.delete_pod(1)
    bench.new_job()
    bench.successor().pump()
    assert bench.pod_names() == ["digits-trainer-0"]
    assert bench.store.projection.view(NEW).job is not None
    assert sorted(bench.published) == [KEY, NEW]
    assert bench.listed() & FOLLOWED == set()
    assert bench.following() == FOLLOWED


def test_what_nothing_happened_to_is_neither_written_nor_queued() -> None:
    bench = Bench()
    applied: list[object] = []
    real = bench.store.projection.apply

    def spy(token: int, changes: Any, **more: Any) -> list[JobKey]:
        applied.extend(changes)
        return real(token, changes, **more)

    bench.store.projection.apply = spy  # type: ignore[method-assign]
    bench.successor().pump()
    assert (applied, bench.published) == ([], [])


def test_once_the_lists_are_in_the_resumed_watches_are_over_and_each_event_comes_once() -> None:
    bench = Bench()
    watcher = bench.successor()
    watcher.pump()
    watcher.lists = True
    watcher.pump()
    assert bench.following() == set()
    assert watcher.writer.synced
    before = len(watcher.transport.requests)
    bench.delete_pod(1)
    watcher.pump()
    watches = [path for method, path in watcher.transport.requests[before:] if method == "WATCH"]
    assert len(watches) == len(set(watches))
    assert bench.pod_names() == ["digits-trainer-0"]


def forget_the_history(bench: Bench) -> None:
    bench.cluster.advance(1000)


def empty_redis(bench: Bench) -> None:
    bench.store.flush()


def another_version(bench: Bench) -> None:
    bench.store.projection.mark_synced(bench.token, form="another")


def another_cluster(bench: Bench) -> None:
    """Whose versions are further, so that a watch from there would be taken."""
    other = Bench(seed=2)  # of another name
    for number in range(100):
        other.kube.create(
            SERVICES,
            "default",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": f"s{number}"},
                "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
            },
        )
    bench.cluster, bench.kube, bench.job, bench.pods = other.cluster, other.kube, other.job, other.pods
    bench.new_job()


@dataclass(frozen=True, slots=True)
class Distrust:
    happens: Callable[[Bench], None]
    want: set[GroupResource]
    """What is listed at once, of what could have been followed."""


DISTRUST = {
    "History that the API server has forgotten is listed, and what went away meanwhile is swept.": Distrust(
        forget_the_history, FOLLOWED
    ),
    "An empty Redis is filled by lists.": Distrust(empty_redis, FOLLOWED),
    "A projection of another version of the code is listed.": Distrust(another_version, FOLLOWED),
    "Another cluster is listed, however far its versions are.": Distrust(another_cluster, FOLLOWED),
}


@pytest.mark.parametrize("name", DISTRUST)
def test_where_the_projection_means_nothing_everything_is_listed_at_once(name: str) -> None:
    case = DISTRUST[name]
    bench = Bench()
    bench.delete_pod(1)
    case.happens(bench)
    if case.happens is another_cluster:
        bench.delete_pod(1)
    watcher = bench.successor()
    for _ in range(4):
        watcher.pump()
    assert bench.listed() & FOLLOWED == case.want
    assert bench.following() == set()
    assert bench.pod_names() == ["digits-trainer-0"]


def test_of_two_watchers_the_older_one_can_write_nothing_more() -> None:
    bench = Bench()
    older = bench.successor()
    older.pump()
    bench.successor().pump()
    bench.delete_pod(1)
    with pytest.raises(Fenced):
        older.pump()
    assert len(bench.pod_names()) == 2
    bench.watcher.pump()
    assert bench.pod_names() == ["digits-trainer-0"]


def test_nothing_of_another_cluster_is_written_before_the_lists_tell_it() -> None:
    bench = Bench()
    another_cluster(bench)
    watcher = bench.successor()
    watcher._lead()
    watcher._run_ahead()
    assert bench.following() == set()
    assert bench.store.projection.view(NEW).job is None
