"""Children of finished jobs are not written; what a resumed watch and the list beside it both show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import Bench, gone, job, pod, whole
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.store.projection import Change
from watcher.event_queue import Batch


def test_a_list_that_a_resumed_watch_has_outrun_is_not_taken_for_an_older_history() -> None:
    second = Bench(whole().store, token=2)
    second.put(AITRAININGJOBS, job(55))
    second.events.put(Batch(PODS, (pod(60),), 60, resumed=True))
    second.step()
    second.events.put(Batch(PODS, (pod(51, name="p1"),), 56, True, frozenset({(JobKey(KEY), "p1")}), list_version=56))
    second.step()
    assert second.relists == 0
    assert sorted(second.view().children[PODS]) == ["p0", "p1"], "p0 is newer than the list"
    assert second.store.projection.checkpoint().progress[PODS] == 60


def test_a_page_of_the_list_that_a_resumed_watch_has_outrun_changes_no_books() -> None:
    """The job had finished; it was deleted and made again while the list was under way. A pod of the new one comes and
    goes."""
    second = Bench(whole().store, token=2)
    again = job(1020, uid="uid-2")
    second.events.put(Batch(AITRAININGJOBS, (gone(job(), 1010), again), 1020, resumed=True))
    second.step()
    second.events.put(Batch(AITRAININGJOBS, (job(990, phase="Succeed"),), 0, list_version=1000))
    new = pod(1030, uid="uid-2")
    second.events.put(Batch(PODS, (new,), 1030, resumed=True))
    second.step()
    assert list(second.view().children[PODS]) == ["p0"]
    second.events.put(Batch(PODS, (gone(new, 1040),), 1040, resumed=True))
    second.step()
    assert second.view().children.get(PODS, {}) == {}
    second.put(AITRAININGJOBS, position=1000, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    assert second.view().job is not None, "it is newer than the list"
    assert AITRAININGJOBS in second.writer._overlap, "the watch from the list on repeats it"
    second.put(AITRAININGJOBS, again, position=1020)
    assert AITRAININGJOBS not in second.writer._overlap


def test_children_of_a_finished_job_never_reach_the_store() -> None:
    bench = Bench()
    bench.put(AITRAININGJOBS, job(phase="Succeed"))
    applied: list[Change] = []
    real = bench.store.projection.apply

    def spy(token: int, changes: Sequence[Change], **more: Any) -> list[JobKey]:
        applied.extend(changes)
        return real(token, changes, **more)

    bench.store.projection.apply = spy  # type: ignore[method-assign]
    bench.put(PODS, pod(20), gone(pod(20), 21))
    assert applied == []
    assert bench.published == []


def test_children_of_a_job_made_again_under_the_name_of_a_finished_one_do() -> None:
    bench = Bench()
    bench.put(AITRAININGJOBS, job(phase="Failed"), gone(job(), 8), job(9, uid="second"))
    bench.put(PODS, pod(20, uid="second"))
    assert list(bench.view().children[PODS]) == ["p0"]
