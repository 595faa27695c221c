"""Which keys of Redis still speak of a job after each event: a row of `keys.py` that an event forgets would reach the
next job of that name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.store.driver import A, Drive, a_job
from tests.integration.store.worlds import SHOWN, World
from tjworker.api.resources import PODS
from tjworker.store.projection import RecordPlace
from tjworker.store.work_queue import ON_NEWS, AtOnce, NextPass, OnNews, WithBackoff

OF_NO_JOB = {"writer", "progress", "nodes", "node_requests", "in_line", "missing", "turn", "once"}
RECORDS = {"job", "known", "unfinished", "seen", "gone"}
OWN_WRITES = {"min_observed", "echo"}
HELD = {*RECORDS, *OWN_WRITES, "rests", "news", "lock", "running", "deaths", "failures", "delayed", "dirty"}
WAITING = {*RECORDS, *OWN_WRITES, "rests", "deaths", "failures", "delayed", "dirty", "line"}


def held(d: Drive) -> None:
    """A worker has the job, which has failed and whose pass has died before, and everything has happened meanwhile."""
    _with_own_writes(d)
    d.pod(8, name="a-1")
    d.add()
    d.later(100)


def waiting(d: Drive) -> None:
    """The same job is in line: its worker has died, and the wait after that is over."""
    _with_own_writes(d)
    d.wait(31)
    d.resync(1000)
    d.wait(11)
    d.due()
    d.later(100)


def _with_own_writes(d: Drive) -> None:
    d.job(5)
    d.pod(6)
    d.pod(7, name="a-2")
    d.no_pod(8, name="a-2")
    assert d.take()
    d.fail()
    d.add()
    assert d.take()
    d.wait(31)
    d.resync(1000)
    assert d.take()
    d.min_observed((PODS, 99))
    d.note_rest("5")


def gone(d: Drive) -> Any:
    return [d.no_job(20), *(d.no_pod(21, name=name) for name in ("a-0", "a-1"))]


def made_again(d: Drive) -> None:
    d.no_job(20)
    d.apply(a_job(30, uid="another"))


GONE = {"gone"}
LEASE = {"lock", "running"}
EVENTS: dict[str, tuple[Callable[[Drive], Any], set[str], set[str]]] = {
    # event: (what happens, what is left of a job that a worker has, and of one in line)
    "nothing": (lambda _: None, HELD, WAITING),
    "a new spec": (lambda d: d.spec(20, 2), HELD, WAITING),
    "a pod goes": (lambda d: d.no_pod(20), HELD, WAITING),
    "a resync": (lambda d: d.resync(1000, everything=True), HELD, WAITING),
    "the job ends": (
        lambda d: d.job(20, finished=True),
        HELD - {"unfinished", "seen", "gone", "rests"},
        WAITING - {"unfinished", "seen", "gone", "rests"},
    ),
    "the job is deleted, and its pods stay": (
        lambda d: d.no_job(20),
        {"job", "known", "seen", "gone", *LEASE},
        {"job", "known", "seen", "gone"},
    ),
    "its namespace is deleted": (gone, GONE | LEASE, GONE),
    "a job of its name is made again": (made_again, {*RECORDS, *LEASE, "news"}, {*RECORDS, "dirty", "line"}),
    "history begins anew": (
        lambda d: d.projection.reset(1),
        HELD - RECORDS - OWN_WRITES - {"news", "rests"},
        WAITING - RECORDS - OWN_WRITES - {"rests"},
    ),
    "a worker cannot open its record": (
        lambda d: d.projection.distrust([RecordPlace(A, "job")]),
        HELD - {"seen", "gone"},
        WAITING - {"seen", "gone"},
    ),
    "a pass that read it before its deletion notes that it rests": (
        lambda d: [gone(d), d.note_rest("5")],
        GONE | LEASE,
        GONE,
    ),
    "the facts lapse": (lambda d: d.wait(301), HELD - OWN_WRITES - {"gone", "lock"}, WAITING - OWN_WRITES - {"gone"}),
}


def test_the_two_jobs_have_every_key_that_a_job_may_have() -> None:
    assert set(SHOWN) - OF_NO_JOB == HELD | WAITING


@pytest.mark.parametrize("event", EVENTS)
def test_what_is_left_of_a_job_that_a_worker_has(event: str, world: World) -> None:
    happens, want, _ = EVENTS[event]
    drive = Drive(world)
    held(drive)
    happens(drive)
    assert _left(world) == want


@pytest.mark.parametrize("event", EVENTS)
def test_what_is_left_of_a_job_in_line(event: str, world: World) -> None:
    happens, _, want = EVENTS[event]
    drive = Drive(world)
    waiting(drive)
    happens(drive)
    assert _left(world) == want


@pytest.mark.parametrize("next_pass", [ON_NEWS, WithBackoff(), AtOnce(), OnNews(9)], ids=str)
def test_what_is_left_of_a_pass_when_it_ends(next_pass: NextPass, world: World) -> None:
    drive = Drive(world)
    held(drive)
    drive.finish(next_pass=next_pass)
    kept = {"failures"} if isinstance(next_pass, WithBackoff) else set[str]()
    assert _left(world) == {*RECORDS, *OWN_WRITES, "rests", "delayed", "dirty", "line", *kept}


def _left(world: World) -> set[str]:
    return {name for name, content in world.tables().items() if name not in OF_NO_JOB and A in content}
