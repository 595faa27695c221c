"""An object that cannot be read costs itself alone: it is counted, named once, and taken up again."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from tests.support.scripted_api import pod
from tjworker.api.resources import PODS
from watcher.isolation import Skipped, name_of
from watcher.known_objects import KnownObjects
from watcher.projection import Projected


def unreadable(name: str, version: int) -> dict[str, Any]:
    return {**pod(name, version), "status": {"containerStatuses": ["this is no container"]}}


def names(changes: list[Projected]) -> list[str]:
    return [f"{c.change.name}{' -' if c.change.record is None else ''}" for c in changes]


def test_whatever_an_object_raises_the_others_are_taken() -> None:
    taken: list[int] = []

    def take(number: int) -> None:
        if number % 2:
            raise (KeyError, OverflowError, RecursionError, AssertionError)[number // 2 % 4](number)
        taken.append(number)

    skipped = Skipped("pods")
    skipped.take_each(range(8), take)
    assert (taken, skipped.times) == ([0, 2, 4, 6], 4)


def test_an_object_is_named_once_for_each_new_error_and_when_it_can_be_read_again() -> None:
    skipped, known = Skipped("pods"), None
    known = KnownObjects(PODS, skipped)
    with capture_logs() as lines:
        known.page([unreadable("a", 1), pod("b", 2)])
        for version in range(3, 9):
            known.event("MODIFIED", unreadable("a", version))
        assert list(skipped.objects) == ["default/a"]
        assert names(known.event("MODIFIED", pod("a", 9))) == ["a"]
    assert [(line["log_level"], line["name"]) for line in lines] == [("error", "default/a"), ("info", "default/a")]
    assert (skipped.objects, skipped.times) == ({}, 7)


def test_what_was_known_of_an_object_stays_until_it_is_deleted() -> None:
    skipped = Skipped("pods")
    known = KnownObjects(PODS, skipped)
    known.begin_list()
    assert names(known.page([pod("a", 1)])) == ["a"]
    assert known.end_list(1) == []
    known.begin_list()
    assert known.page([unreadable("a", 2)]) == []
    assert known.end_list(3) == [], "the list has shown it"
    assert names(known.event("DELETED", unreadable("a", 4))) == ["a -"]
    assert skipped.objects == {}


def test_a_listed_object_that_cannot_be_read_exists_for_the_sweep() -> None:
    """An earlier watcher may have projected it: its job must not see it vanish."""
    known = KnownObjects(PODS, Skipped("pods"))
    known.begin_list()
    known.page([pod("a", 1), unreadable("b", 2)])
    known.end_list(3)
    assert {name for _, name in known.existing()} == {"a", "b"}


def test_an_object_of_any_form_has_a_name() -> None:
    told = {
        "default/a": {"metadata": {"namespace": "default", "name": "a"}},
        "node-1": {"metadata": {"name": "node-1"}},
        "default/-": {"metadata": {"namespace": "default"}},
        "an object without metadata": None,
    }
    assert {name_of(obj) for obj in told.values()} == set(told)
    assert name_of({"metadata": 5}) == name_of([1]) == "an object without metadata"
