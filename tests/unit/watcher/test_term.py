"""A term that lists everything again: after a loss of Redis, and when the cluster's history began anew."""

from __future__ import annotations

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_history import MemoryHistory
from tests.unit.watcher.test_in_process import JOB, Bench
from tjworker.api.resources import PODS
from tjworker.history.store import Bounds
from tjworker.kube.reflector import Closed
from watcher.event_queue import WatchEvents
from watcher.historian import Historian
from watcher.progress import BeganAnew


def with_two_pods() -> Bench:
    bench = Bench()
    job = bench.kube.create(AITRAININGJOBS, "default", JOB)
    for number in range(2):
        bench.kube.create(PODS, "default", bench.pod(f"digits-trainer-{number}", job))
    bench.settle()
    return bench


def delete(bench: Bench, name: str) -> None:
    pod = bench.kube.get(PODS, "default", name)
    assert pod is not None
    bench.kube.delete(PODS, "default", name, uid=pod["metadata"]["uid"], grace_seconds=0)


def test_what_was_read_before_a_loss_is_not_written_after_it() -> None:
    """Redis has come back older: what a reflector had shown before is not all in it. Progress from before would let the
    next watcher resume too late."""
    bench = with_two_pods()
    older = bench.store.snapshot()
    queue = bench.watcher.feed.queue
    delete(bench, "digits-trainer-1")
    bench.watcher.pump()
    bench.store.restore(older)
    bench.cluster.advance(3)
    bench.watcher.pump()
    progress = bench.store.projection.checkpoint().progress
    with pytest.raises(Closed):
        queue.put(WatchEvents(PODS, position=10**9))
    bench.cluster.advance(3)
    bench.watcher.pump()
    assert progress[PODS] <= bench.store.projection.checkpoint().progress[PODS] < 10**9
    assert [pod.name for pod in bench.observed()[1].pods] == ["digits-trainer-0"]


def test_each_time_that_everything_is_listed_again_what_has_gone_is_swept() -> None:
    """Redis has come back older, twice: what has gone since is in it again."""
    bench = with_two_pods()
    older = bench.store.snapshot()
    delete(bench, "digits-trainer-1")
    bench.watcher.pump()
    for _ in range(2):
        bench.store.restore(older)
        assert len(bench.observed()[1].pods) == 2
        for _ in range(3):
            bench.cluster.advance(3)
            bench.watcher.pump()
        assert [pod.name for pod in bench.observed()[1].pods] == ["digits-trainer-0"]


def test_the_history_of_jobs_hears_of_a_restored_cluster_and_of_no_loss_of_redis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []

    class Heard(Historian):
        def begin_new_history(self) -> None:
            heard.append("anew")

    def restored(_: float) -> None:
        raise BeganAnew("the list of pods, at 3, is older than the one before, at 9")

    bench = with_two_pods()
    watcher = bench.new_watcher(Heard(MemoryHistory(Bounds(60, 10)), 60, now=bench.cluster.clock))
    watcher.start()
    watcher.pump()
    monkeypatch.setattr(watcher.writer, "step", restored)
    watcher.pump()
    assert heard == ["anew"]
    before = watcher.feed
    bench.store.flush()
    for _ in range(2):
        bench.cluster.advance(3)
        watcher.pump()
    assert watcher.feed is not before
    assert heard == ["anew"]
