"""Thousands of hostile objects of every watched kind beside a healthy job: no loop of the operator breaks, none of them
is skipped, and the healthy job's passes decide what they would decide alone."""

from __future__ import annotations

import pytest

from tests.hostile.flood import to_bytes
from tests.hostile.make import HUGE, MOST_LABELS, OBJECT_BYTES, VICTIM, VICTIM_UID, huge, make
from tests.hostile.schema import GUEST_TREES, TREES
from tests.hostile.world import Json, Loops
from tests.scenarios.world import job, role
from tests.support.kinds import AITRAININGJOBS
from tests.support.seeds import the_seed
from tjworker.api.kinds import KINDS
from tjworker.base import GroupResource, JobKey
from tjworker.kube.resources import watched

EACH, OF_A_GUEST = 60, 6
"""Objects of each kind, and of each kind of another operator's: some seconds in all."""
HEALTHY = JobKey(f"{AITRAININGJOBS}/default/digits")


def manifest(name: str, uid: str) -> Json:
    made = job({"trainer": role(2)}, name=name)
    made["metadata"] |= {"namespace": "default", "uid": uid}
    return made


def healthy() -> dict[GroupResource, list[Json]]:
    return {AITRAININGJOBS: [manifest("digits", "uid-of-digits"), manifest(VICTIM, VICTIM_UID)]}


def test_every_watched_kind_has_hostile_objects() -> None:
    assert set(TREES) == {row.name for row in watched(KINDS)}


def test_the_same_seed_makes_the_same_object() -> None:
    for resource in (*TREES, *GUEST_TREES):
        assert to_bytes(make(resource, 7)) == to_bytes(make(resource, 7))


def test_the_biggest_are_as_big_as_they_are_said_to_be() -> None:
    for resource in TREES:
        assert len(huge(resource, "labels")["metadata"]["labels"]) == MOST_LABELS
        assert len(to_bytes(huge(resource, "bytes"))) >= OBJECT_BYTES * 0.95, resource


@pytest.mark.parametrize("way", ["listed", "watched"])
def test_hostile_objects_break_nothing_and_cost_the_healthy_job_nothing(way: str) -> None:
    seed = the_seed()
    print(f"seed {seed}, {EACH} objects of each of {len(TREES)} kinds, {OF_A_GUEST} of each guest, {way}")  # noqa: T201
    objects = {
        resource: [*(make(resource, seed + n) for n in range(EACH)), *(huge(resource, how) for how in HUGE)]
        for resource in TREES
    }
    objects |= {guest: [make(guest, seed + n) for n in range(OF_A_GUEST)] for guest in GUEST_TREES}
    alone, beside = Loops(), Loops()
    alone.listed(healthy())
    given = {resource: [*healthy().get(resource, ()), *objects[resource]] for resource in objects}
    beside.listed(given if way == "listed" else healthy())
    if way == "watched":
        for resource, hostile in objects.items():
            for kind in ("ADDED", "MODIFIED"):
                for obj in hostile:
                    beside.event(kind, resource, obj)
    beside.write()
    assert beside.skipped == {}, f"seed {seed}"
    plans = beside.plans()
    assert plans[HEALTHY].writes == alone.plans()[HEALTHY].writes, f"seed {seed}"
    beside.autoscale()
    beside.collect()
    for resource, hostile in objects.items():
        for obj in hostile:
            beside.event("DELETED", resource, obj)
    beside.write()
    assert set(beside.store.projection.unfinished()) == set(alone.store.projection.unfinished()), f"seed {seed}"
