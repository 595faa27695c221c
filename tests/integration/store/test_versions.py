"""resourceVersions are numbers wherever they are kept and compared: 9 is older than 10, 999 than 1000. As text it would
be the other way round, whenever a digit is added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.store.driver import A, Drive, raised
from tests.integration.store.worlds import World
from tjworker.api.resources import PODS

PAIRS = [(9, 10), (2**31 - 1, 2**31), (10**15 - 1, 10**15)]


def a_progress(d: Drive, *versions: int) -> int:
    for version in versions:
        d.progress(pods=version)
    return int(d.view().seen[PODS])


def a_progress_of_a_namespace(d: Drive, *versions: int) -> int:
    for version in versions:
        d.progress(pods__default=version)
    return int(d.view().seen[PODS])


def a_job(d: Drive, *versions: int) -> int:
    for version in versions:
        d.job(version)
    ((_, record),) = d.projection.unfinished().values()
    return int(record.removeprefix(b'{"rv":').removesuffix(b"}"))


def a_child(d: Drive, *versions: int) -> int:
    d.job(1)
    for version in versions:
        d.pod(version)
    return int(d.pods()["a-0"].removeprefix(b'{"pod":').removesuffix(b"}"))


def what_was_seen_of_a_jobs_children(d: Drive, *versions: int) -> int:
    d.job(1)
    for number, version in enumerate(versions):
        d.pod(version, name=f"a-{number}")
    return int(d.view().seen[PODS])


def what_was_seen_of_those_that_are_gone(d: Drive, *versions: int) -> int:
    d.job(1)
    for number, version in enumerate(versions):
        d.pod(2, name=f"a-{number}")
        d.no_pod(version, name=f"a-{number}")
    return max(versions) if d.pods() == {} else 0


def an_own_write(d: Drive, *versions: int) -> int:
    """The view is old until the watch has come to the newest of them."""
    d.job(1)
    assert d.take()
    for version in versions:
        d.min_observed((PODS, version))
    d.finish()
    newest = max(versions)
    d.progress(pods=newest - 1)
    assert d.view().stale
    d.progress(pods=newest)
    return newest if not d.view().stale else 0


PLACES: dict[str, Callable[..., int]] = {
    "progress of a watch": a_progress,
    "progress of a watch of one namespace": a_progress_of_a_namespace,
    "a job": a_job,
    "a pod": a_child,
    "what was seen of a job's pods": what_was_seen_of_a_jobs_children,
    "what was seen of those that are gone": what_was_seen_of_those_that_are_gone,
    "an own write": an_own_write,
}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair[1]))
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_the_newer_stays_in_whichever_order_they_come(
    place: Callable[..., int], pair: tuple[int, int], world: World
) -> None:
    assert place(Drive(world), *pair) == pair[1]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair[1]))
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_what_comes_late_is_older(place: Callable[..., int], pair: tuple[int, int], world: World) -> None:
    assert place(Drive(world), *reversed(pair)) == pair[1]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair[1]))
def test_what_is_gone_does_not_come_back_with_an_older_event(pair: tuple[int, int], world: World) -> None:
    older, newer = pair
    d = Drive(world)
    d.job(older)
    d.pod(older)
    d.no_pod(newer)
    assert [d.pod(older), d.pods()] == [[], {}]
    assert d.pod(newer + 1) is not None
    assert list(d.pods()) == ["a-0"]
    d.no_job(newer)
    d.job(older)
    assert list(d.projection.unfinished()) == []
    d.job(newer + 1)
    assert list(d.projection.unfinished()) == [A]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair[1]))
def test_the_older_writer_is_fenced(pair: tuple[int, int], world: World) -> None:
    older, newer = pair
    d = Drive(world, lead=False)
    d.projection.lead(older)
    d.projection.lead(newer)

    def by(writer: int) -> Any:
        return raised(lambda: d.apply(progress={"pods": 1}, writer=writer))

    assert [by(older), by(newer)] == ["Fenced", ""]
