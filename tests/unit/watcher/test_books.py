"""Children of finished jobs are not written; what a resumed watch and the list beside it both show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.writing import Bench, gone, job, pod
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.store.projection import Change
from watcher.books import Jobs, Overlap
from watcher.event_queue import ProjectedPage, WatchEvents
from watcher.projection import Projected


def test_of_children_of_a_finished_job_only_deletions_reach_the_store_which_passes_them_over() -> None:
    """They do not say whose child it was: it may be one of an earlier job of this name."""
    bench = Bench()
    bench.put(AITRAININGJOBS, job(phase="Succeed"))
    applied: list[Change] = []
    real = bench.store.projection.apply

    def spy(token: int, changes: Sequence[Change], **more: Any) -> list[JobKey]:
        applied.extend(changes)
        return real(token, changes, **more)

    bench.store.projection.apply = spy  # type: ignore[method-assign]
    bench.put(PODS, pod(20), gone(pod(20), 21))
    assert [change.record for change in applied] == [None]
    assert bench.view().children == {}
    assert bench.published == []


# -- the books alone ---------------------------------------------------------------------------------
def phased(namespace: str, name: str, phase: str | None) -> Projected:
    key = JobKey(f"{AITRAININGJOBS}/{namespace}/{name}")
    change = Change(key, AITRAININGJOBS, name, 1, None if phase is None else b"{}", is_job=True)
    return Projected(change, phase=phase or "")


KEPT = {
    # which list ends, and what it has shown -> who is counted afterwards
    "of all namespaces": (AITRAININGJOBS, {"a/one"}, {"Running": 1, "Pending": 0}),
    "of one namespace": (f"{AITRAININGJOBS}/a", {"a/one"}, {"Running": 2, "Pending": 0}),
    "of one namespace that shows nothing": (f"{AITRAININGJOBS}/a", set(), {"Running": 1, "Pending": 0}),
    "of a namespace that is only alike": (f"{AITRAININGJOBS}/aa", set(), {"Running": 2, "Pending": 1}),
    "of another kind": ("trainingjobs.paddlepaddle.org", set(), {"Running": 2, "Pending": 1}),
}


@pytest.mark.parametrize("what", KEPT)
def test_what_a_whole_list_does_not_show_is_counted_no_more(what: str) -> None:
    source, shown, want = KEPT[what]
    jobs = Jobs()
    for namespace, name, phase in (("a", "one", "Running"), ("a", "two", "Pending"), ("b", "three", "Pending")):
        jobs.take(phased(namespace, name, phase))
    jobs.take(phased("b", "three", "Running"))
    jobs.take(phased("a", "four", "Running"))
    jobs.take(phased("a", "four", None))
    jobs.keep(source, {JobKey(f"{AITRAININGJOBS}/{name}") for name in shown})
    assert {phase: count for (_, phase), count in jobs.counts().items()} == want


def test_a_resumed_watch_is_outrun_when_the_list_and_its_watch_have_come_as_far_with_all_it_showed() -> None:
    overlap = Overlap()
    first, second = pod(60), pod(70, name="p1")
    overlap.begin(WatchEvents(PODS, (first, second), 70, resumed=True))
    assert overlap.is_stale(WatchEvents(PODS, (), 50), pod(59).change)
    assert not overlap.is_stale(WatchEvents(PODS, (), 50), pod(60).change), "the same is no older"
    assert not overlap.is_stale(WatchEvents(PODS, (), 50), pod(50, name="p2").change), "it has not shown that one"
    assert not overlap.is_stale(WatchEvents(PODS, (), 50, resumed=True), pod(59).change)
    for position, over in ((50, False), (60, False), (69, False), (70, True)):
        overlap.end(WatchEvents(PODS, (), position))
        assert (PODS not in overlap) is over, position
    overlap.end(WatchEvents(PODS, (), 80))


def test_a_watch_that_begins_before_its_list_does_not_take_back_what_a_page_has_shown() -> None:
    """After a loss of Redis the watch of jobs begins at the loss, beside the list, and may be cut off in its replay."""
    bench = Bench()
    bench.events.put(ProjectedPage(AITRAININGJOBS, (job(90, phase="Failed"),), 100))
    bench.step()
    bench.events.put(WatchEvents(AITRAININGJOBS, (job(80, phase="Running"),), 80, resumed=True))
    bench.step()
    counted = {phase: count for (_, phase), count in bench.writer.jobs.counts().items() if count}
    assert counted == {"Failed": 1}
