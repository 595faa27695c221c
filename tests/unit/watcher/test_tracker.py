"""The tracker: what comes out of pages and events, told as a list of steps and what each of them passes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.unit.watcher.scripted import pod
from watcher.loads import LoadBook
from watcher.projection import Projected, project
from watcher.tracker import Tracker

Step = Callable[[Tracker], list[Projected] | None]


def page(*shown: tuple[str, int]) -> Step:
    return lambda t: t.page([pod(name, rv) for name, rv in shown])


def event(kind: str, name: str, rv: int, *, ours: bool = True) -> Step:
    return lambda t: t.event(kind, pod(name, rv, ours=ours))


def begin() -> Step:
    return lambda t: t.begin_list()


def end(rv: int) -> Step:
    return lambda t: t.end_list(rv)


def bookmark(rv: int) -> Step:
    return lambda t: t.bookmark(rv)


def whole(rv: int, *shown: tuple[str, int]) -> tuple[Step, ...]:
    return begin(), page(*shown), end(rv)


@dataclass(frozen=True)
class Case:
    before: tuple[Step, ...]
    then: tuple[Step, ...]
    want: list[str]
    """What `then` passes on: a name with its version, and a minus for what is gone."""
    want_position: int


CASES = {
    "a first list is passed on whole": Case((), whole(10, ("a", 3), ("b", 7)), ["a 3", "b 7"], 10),
    "a list that shows the same passes on nothing": Case(whole(10, ("a", 3)), whole(12, ("a", 3)), [], 12),
    "what a list does not show any more is gone, at the version of the list": Case(
        whole(10, ("a", 3), ("b", 7)), whole(20, ("b", 7)), ["a 20 -"], 20
    ),
    "what only a page of a list that was given up has shown is gone with the whole one": Case(
        whole(10, ("a", 3)), (begin(), page(("a", 3)), *whole(20, ("b", 15))), ["b 15", "a 20 -"], 20
    ),
    "what is deleted and made again between two lists is the new one": Case(
        whole(10, ("a", 3)), whole(20, ("a", 18)), ["a 18"], 20
    ),
    "an event at the list's own version is in the list": Case(
        whole(10, ("a", 10)), (event("MODIFIED", "a", 10),), [], 10
    ),
    "the event right after the list's version is news": Case(
        whole(10, ("a", 3)), (event("MODIFIED", "a", 11),), ["a 11"], 11
    ),
    "an event that comes again passes on nothing": Case(
        whole(10), (event("ADDED", "a", 11), event("ADDED", "a", 11)), ["a 11"], 11
    ),
    "a deletion that comes again passes on nothing": Case(
        whole(10, ("a", 3)), (event("DELETED", "a", 11), event("DELETED", "a", 11)), ["a 11 -"], 11
    ),
    "events of before the position are old": Case(
        whole(10, ("a", 3)), (event("MODIFIED", "a", 11), event("DELETED", "a", 9)), ["a 11"], 11
    ),
    "a deletion of what was never seen is passed on: an earlier watcher may have told of it": Case(
        whole(10), (event("DELETED", "a", 11),), ["a 11 -"], 11
    ),
    "a stranger's events move the position alone": Case(whole(10), (event("ADDED", "a", 11, ours=False),), [], 11),
    "what becomes a stranger's is gone for the job that had it": Case(
        whole(10, ("a", 3)), (event("MODIFIED", "a", 11, ours=False),), ["a 11 -"], 11
    ),
    "a bookmark moves the position on": Case(whole(10), (bookmark(15),), [], 15),
    "a bookmark that is behind, or names no version, does not move it back": Case(
        whole(10), (bookmark(15), bookmark(12), bookmark(0)), [], 15
    ),
    "what a bookmark has told of is old": Case(whole(10, ("a", 3)), (bookmark(15), event("MODIFIED", "a", 14)), [], 15),
}


def _told(one: Projected) -> str:
    change = one.change
    return f"{change.name} {change.rv}{' -' if change.record is None else ''}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_passed_on(case: Case) -> None:
    tracker = Tracker(partial(project, "pods"))
    for step in case.before:
        step(tracker)
    told = [_told(one) for step in case.then for one in step(tracker) or []]
    assert (told, tracker.position) == (case.want, case.want_position)


def test_what_a_list_does_not_show_any_more_asks_for_nothing_of_its_node() -> None:
    """Whosever it was: other people's pods are known to the book of loads alone."""
    loads = LoadBook()
    tracker = Tracker(partial(project, "pods"), loads)

    def placed(name: str, *, ours: bool) -> dict[str, Any]:
        return {**pod(name, 3, ours=ours), "spec": {"nodeName": f"node-of-{name}", "containers": []}}

    both = [placed("ours", ours=True), placed("theirs", ours=False)]
    for shown, want in (
        (both, {"node-of-ours": 1, "node-of-theirs": 1}),
        ([], {"node-of-ours": 0, "node-of-theirs": 0}),
    ):
        tracker.begin_list()
        tracker.page(shown)
        tracker.end_list(10)
        assert {node: load.pods for node, load in loads.touched().items()} == want


def test_after_forgetting_everything_is_news_again() -> None:
    tracker = Tracker(partial(project, "pods"))
    for _ in range(2):
        told = [_told(one) for step in whole(10, ("a", 3)) for one in step(tracker) or []]
        assert (told, tracker.position, len(tracker)) == (["a 3"], 10, 1)
        tracker.forget()
