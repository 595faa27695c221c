"""The sweep after a list: what it removes, in short parts, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY, NODE
from tests.unit.watcher.writing import Bench, Died, job, job_named, pod, settle, whole
from tjworker.api.resources import NODES, PODS
from tjworker.base import GroupResource, JobKey
from tjworker.store.projection import Change
from watcher.event_queue import ListEnd, WatchEvents
from watcher.projection import project_node
from watcher.sweep import Sweep

FOREIGN = {
    "An earlier version wrote keys without the API group.": "aitrainingjobs/default/digits",
    "A later version may write keys of another form.": "v2:default:digits",
}


@pytest.mark.parametrize("sentence", FOREIGN)
def test_a_list_of_jobs_removes_keys_that_this_version_does_not_know(sentence: str) -> None:
    """A resync would queue them for ever."""
    first = Bench()
    first.sync()
    old = JobKey(FOREIGN[sentence])
    first.store.projection.apply(1, [Change(old, GroupResource("aitrainingjobs"), "digits", 9, b"{}", is_job=True)])
    assert old in first.store.projection.known_keys()
    second = Bench(first.store, token=2)
    second.put(AITRAININGJOBS, job(20), position=100, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    assert list(second.store.projection.known_keys()) == [KEY]


def test_what_went_away_without_a_watch_is_swept() -> None:
    first = Bench()
    first.put(AITRAININGJOBS, job())
    first.put(PODS, pod(20), pod(21, name="p1"))
    first.put(NODES, project_node(NODE))
    second = Bench(first.store, token=2)
    settle(first)
    second.put(AITRAININGJOBS, position=100, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    second.put(PODS, position=100, listed=True, existing=frozenset({(JobKey(KEY), "p1")}))
    second.put(NODES, position=100, listed=True, existing=frozenset())
    assert list(second.view().children[PODS]) == ["p1"]
    assert second.view().job is not None
    assert list(second.store.projection.known_nodes()) == []
    assert second.published == [KEY]


NAMESPACES: dict[str, tuple[str, str, list[str], list[str]]] = {
    "of its namespace": ("jobs", "team", ["other", "team-a"], ["other", "team", "team-a"]),
    "of a namespace whose name begins another's": ("jobs", "team-a", ["other", "team"], ["other", "team", "team-a"]),
    "of the pods of its namespace": ("pods", "team", ["other", "team", "team-a"], ["other", "team-a"]),
    "of the pods of all namespaces": ("pods", "", ["other", "team", "team-a"], []),
}


@pytest.mark.parametrize(("what", "where", "want_jobs", "want_pods"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_an_empty_list_sweeps_what_is(what: str, where: str, want_jobs: list[str], want_pods: list[str]) -> None:
    """Each namespace has a watcher's lists of its own (TJ_NAMESPACES); they say nothing of any other."""
    bench = Bench()
    resource = AITRAININGJOBS if what == "jobs" else PODS
    keys = {name: JobKey(f"{AITRAININGJOBS}/{name}/digits") for name in ("other", "team", "team-a")}
    for number, key in enumerate(keys.values()):
        record = Change(key, AITRAININGJOBS, "digits", 10 + number, b"{}", is_job=True)
        bench.store.projection.apply(1, [record, Change(key, PODS, "p0", 20 + number, b"{}")])
    source = f"{resource}/{where}" if where else resource
    sweep = Sweep(bench.store.projection, bench.redis, 1, ListEnd(source, 100, existing=frozenset()))
    while not sweep.step():
        pass
    views = {name: bench.store.projection.view(key) for name, key in keys.items()}
    assert sorted(name for name, view in views.items() if view.job is not None) == want_jobs
    assert sorted(name for name, view in views.items() if PODS in view.children) == want_pods


def test_news_does_not_wait_for_a_sweep_and_progress_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep reads every job that ever was and is kept."""
    first = whole()
    first.put(AITRAININGJOBS, job(51), *(job_named(f"j{number}", 52 + number) for number in range(5)), position=60)
    first.put(PODS, pod(61, name="p1"), position=61)
    monkeypatch.setattr("watcher.sweep.SWEEP_KEYS", 1)
    second = Bench(first.store, token=2)
    settle(first)
    second.events.put(ListEnd(PODS, 70, existing=frozenset()))
    second.writer.step(0)
    second.events.put(WatchEvents(AITRAININGJOBS, (job(71),), 71))
    second.events.put(WatchEvents(PODS, (pod(72),), 72))
    second.writer.step(0)
    assert second.writer._sweeps
    assert (second.published, "p0" in second.view().children[PODS]) == ([KEY], True)
    assert second.store.projection.checkpoint().progress[PODS] == 61
    second.step()
    assert second.store.projection.checkpoint().progress[PODS] == 72
    assert list(second.view().children[PODS]) == ["p0"], "it is newer than the list, p1 is not"


def test_a_writer_that_dies_in_its_sweep_has_not_said_that_it_is_done() -> None:
    first = whole()
    first.put(AITRAININGJOBS, job(55), position=55)
    first.put(PODS, pod(56), position=56)
    second = Bench(first.store, token=2)

    def dies(keys: Sequence[JobKey], resource: str) -> Any:
        raise Died

    second.store.projection.known_children = dies  # type: ignore[method-assign]
    with pytest.raises(Died):
        second.put(PODS, pod(57, name="p1"), position=100, listed=True, existing=frozenset({(JobKey(KEY), "p1")}))
    assert "p0" in second.view().children[PODS]
    assert second.store.projection.checkpoint().progress[PODS] == 56


def test_a_node_that_joined_after_the_list_is_not_swept_with_those_that_went_before_it() -> None:
    """The watch shows it before the sweep has begun. Nothing would write its record again until it changes."""
    first = Bench()
    first.put(NODES, project_node({**NODE, "metadata": {**NODE["metadata"], "name": "long-gone"}}))
    second = Bench(first.store, token=2)
    second.events.put(ListEnd(NODES, 70, existing=frozenset()))
    second.events.put(WatchEvents(NODES, (project_node(NODE),), 71))
    second.step()
    assert list(second.store.projection.known_nodes()) == ["node-a"]
