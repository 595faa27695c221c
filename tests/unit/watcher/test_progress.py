"""Progress is written for what has been projected and swept alone; which lists are of another history."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import SOURCES, Bench, job, job_named, pod, settle, whole
from tjworker.api.resources import NODES, PODS
from tjworker.base import JobKey
from watcher.event_queue import ListEnd, ProjectedPage, WatchEvents


@pytest.mark.parametrize("swept", ["swept", "being swept", "with nothing to sweep"])
def test_what_a_resumed_watch_gives_after_the_list_is_not_taken(swept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was in the middle of what had happened meanwhile: that the pod is gone again stands where it never reads on
    to."""
    first = whole()
    first.put(AITRAININGJOBS, job(51), job_named("later", 52), position=60)
    monkeypatch.setattr("watcher.sweep.SWEEP_KEYS", 1)
    second = Bench(first.store, token=2)
    existing = None if swept == "with nothing to sweep" else frozenset[tuple[JobKey, str]]()
    second.events.put(ListEnd(PODS, 1100, existing=existing))
    second.writer.step(0)
    if swept == "being swept":
        second.writer.step(0)
        assert second.writer._sweeps, "past the job of this pod, not past the other"
    else:
        second.step()
    second.events.put(WatchEvents(PODS, (pod(1010, name="late"),), 1010, resumed=True))
    second.step()
    assert "late" not in second.view().children.get(PODS, {})


@dataclass(frozen=True, slots=True)
class Anew:
    """After a first term that saw cluster red up to 50: a list of pods, and whether history began anew with it."""

    version: int
    cluster: str = "red"
    rewound: bool = False
    want: bool = True


ANEW = {
    "A list that is behind what an earlier writer saw is of another history.": Anew(49),
    "A list at the same place goes on.": Anew(50, want=False),
    "A list of another cluster is of another history, however far it is.": Anew(900, "blue"),
    "A cluster that may not be named is known by its versions alone.": Anew(900, "", want=False),
    "A cluster that may not be named is known by its versions, also when they went back.": Anew(7, ""),
    "A list that shows an object older than it was is of another history.": Anew(900, rewound=True),
}


@pytest.mark.parametrize("name", ANEW)
def test_history(name: str) -> None:
    case = ANEW[name]
    first = Bench()
    first.put(AITRAININGJOBS, job(40))
    first.put(PODS, pod(45))
    for source in SOURCES:
        first.events.put(ListEnd(source, 50, cluster="red"))
        first.writer.step(0)
    settle(first)
    first.writer._now = lambda: 10.0
    first.step()
    second = Bench(first.store, token=2)
    second.events.put(ProjectedPage(PODS, (pod(4),), case.version, case.cluster, case.rewound))
    second.step()
    assert second.relists == int(case.want)
    assert second.view().synced is not case.want
    assert list(second.view().children.get(PODS, {})) == ([] if case.want else ["p0"])
    if case.want:
        for source, change in {AITRAININGJOBS: job(3), PODS: pod(4), NODES: None}.items():
            second.events.put(ListEnd(source, 9, (change,) if change else (), cluster="blue"))
            second.writer.step(0)
        assert (second.view().synced, list(second.view().children[PODS])) == (True, ["p0"])
        assert second.store.projection.checkpoint().cluster == "blue"
        assert second.published == [KEY]
