"""Redis poisoned, record by record, under jobs that live: nothing foreign is touched, nothing is made that no spec asks
for, nothing ends, no restart is counted. What is left to somebody who can write Redis is in docs/redis.md, and tried
here."""

from __future__ import annotations

import copy
import os
import random
import sys
from collections.abc import Callable

import pytest

from tests.poison.attacks import TABLES, attacks
from tests.poison.lives import AI, LIVES, STAYS, begin
from tests.poison.world import COUNTED, ENDS, FOREIGN, NOT_ASKED, PoisonedWorld
from tests.scenarios.world import job, play, role
from tests.support.memory_redis import Facts, Tables
from tests.support.seeds import the_seed
from tests.support.tiers import one_in
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.reconcile import core
from tjworker.store.keys import KEYS

KEY_OF_DIGITS = JobKey(f"{AI}digits")


def poison(name: str, *, seals: bool = True, only: Callable[[str], bool] = lambda _: True) -> tuple[PoisonedWorld, int]:
    """The world after all attacks, and how many there were. After each, Redis is emptied and filled anew."""
    world, arms = begin(name, seals=seals)
    job = arms.key.rsplit("/", 1)[1]
    whole, uids, phase = world.memory.snapshot(), world.uids(), world.phase(job)
    tried = 0
    for what, attack in attacks(whole, arms):
        if not only(what):
            continue
        attack(world.tables)
        tried += 1
        world.judge.watching, world.judge.now = True, what
        world.kick()
        world.judge.watching = False
        world.heal()
        if world.judge.breaches and not seals:
            continue
        world.until(f"{what}: the job is as before", lambda: world.phase(job) == phase, within_seconds=30)
        assert world.uids() == uids, what
        whole = world.memory.snapshot()
    return world, tried


@pytest.mark.parametrize("name", one_in(2, LIVES))
def test_nothing_that_is_written_into_redis_moves_a_job(name: str) -> None:
    """A share of all attacks, which the seed chooses; TJ_TEST_POISON=all plays every one."""
    rng = random.Random(the_seed())
    share = 1 if os.environ.get("TJ_TEST_POISON") == "all" else LIVES[name].share
    world, tried = poison(name, only=lambda _: not rng.randrange(share))
    counts = {what: world.judge.breaches[what] for what in (FOREIGN, NOT_ASKED, ENDS, COUNTED)}
    sys.stdout.write(f"seed {the_seed()}: {name}: {tried} attacks, {counts}\n")
    assert not world.judge.told, "\n".join(world.judge.told[:20])
    assert tried > 200 // share // (1 if share == 1 else 2)


def test_every_key_of_redis_is_poisoned() -> None:
    assert set(TABLES) == {key.name for key in KEYS}


# -- the same without what holds -------------------------------------------------------------------


def test_without_seals_the_suite_sees_the_old_faults() -> None:
    world, _ = poison(
        "a job that runs, after a restart", seals=False, only=lambda what: "says:" in what or "adopted" in what
    )
    assert all(world.judge.breaches[what] for what in (FOREIGN, NOT_ASKED, ENDS)), world.judge.breaches


@pytest.mark.parametrize("name", ["a job that runs, after a restart", "a job with pods that controllers keep"])
def test_without_asking_for_what_hurts_missing_records_count_as_restarts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "need_confirmation", lambda begun, plan: plan)
    world, arms = begin(name)
    world.tables.children[arms.key].clear()
    world.judge.watching = True
    world.kick()
    assert world.judge.breaches[COUNTED] or world.judge.breaches[ENDS], world.judge.breaches


# -- records that are true, and old ----------------------------------------------------------------


def released(world: PoisonedWorld) -> Tables:
    """A pod of a job that its user has let go, to look at it. The Redis of before."""
    world.apply(job({"trainer": role(2, annotations=STAYS, minReplicas=1, maxReplicas=2)})).run()
    world.until("it runs", lambda: world.phase() == "Running")
    before = world.memory.snapshot()
    world.patch_pod("digits-trainer-1", {"metadata": {"ownerReferences": None}})
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 1}}}})
    world.advance(5)
    assert sorted(world.pods()) == ["digits-trainer-0", "digits-trainer-1"]
    return before


def test_a_pod_that_was_let_go_is_not_deleted_by_a_record_from_before() -> None:
    world = PoisonedWorld()
    before = released(world)
    uid = world.uids()["digits-trainer-1"]
    world.tables.children[KEY_OF_DIGITS].update(before.children[KEY_OF_DIGITS])
    world.tables.gone.clear()
    world.kick()
    assert world.uids().get("digits-trainer-1") == uid
    assert any("StaleView" in result or "Conflict" in result or "changed" in result for result in world.results[-5:])


def test_a_pod_that_changed_since_it_was_seen_is_deleted_all_the_same_while_it_is_the_jobs() -> None:
    world = PoisonedWorld()
    world.apply(job({"trainer": role(2, annotations=STAYS, minReplicas=1, maxReplicas=2)})).run()
    world.until("it runs", lambda: world.phase() == "Running")
    old = world.memory.snapshot()
    world.patch_pod("digits-trainer-1", {"metadata": {"annotations": {"looked": "at"}}})
    world.run()
    world.tables.children = copy.deepcopy(old.children)
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 1}}}})
    world.advance(5)
    assert sorted(world.pods()) == ["digits-trainer-0"]


# -- what is left to somebody who can write Redis --------------------------------------------------


def test_he_can_stop_a_watcher_until_it_leads_whatever_stands_there() -> None:
    """tests/unit/watcher/test_repairs.py: when it does."""
    world, _ = begin("a job that runs, after a restart")
    world.tables.token = 10**15
    world.advance(3)
    world.apply(job({"trainer": role(1, annotations=STAYS)}, name="new")).advance(5)
    assert "new-trainer-0" not in world.pods()
    world.store.projection.lead(0, outright=True)
    world.until("the new job runs", lambda: world.phase("new") == "Running")


def test_he_can_hold_a_job_up_until_he_goes() -> None:
    world, arms = begin("a job that runs, after a restart")
    world.tables.min_observed[arms.key] = Facts({"pods": 10**12}, ends=1e12)
    world.delete_pod("digits-ps-0", grace_seconds=0)
    world.advance(10)
    assert "digits-ps-0" not in world.pods()
    world.tables.min_observed.clear()
    world.until("it is made again", lambda: "digits-ps-0" in world.pods(), within_seconds=60)


def test_he_can_say_of_a_job_that_its_passes_die() -> None:
    """A condition, and a wait of seconds to minutes: no pod, no phase, no end."""
    world, arms = begin("a job that runs, after a restart")
    uids = world.uids()
    world.tables.deaths[arms.key] = 3
    world.judge.watching = True
    world.kick()
    assert world.condition("Stalled")
    assert (world.uids(), world.phase(), world.judge.told) == (uids, "Running", [])


def test_he_can_waste_a_pass_for_each_key_that_he_makes_up() -> None:
    world, _ = begin("a job that runs, after a restart")
    asked = world.transport.counts.total()
    for number in range(50):
        world.tables.dirty[JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/made-up-{number}")] = world.clock()
    world.kick()
    assert world.transport.counts.total() == asked, "no request to the API server"


def test_pods_that_he_hides_when_a_job_succeeds_are_found_by_the_orphan_collector() -> None:
    world = PoisonedWorld()
    roles = {
        "trainer": role(1, annotations=play(run_seconds=5)),
        "ps": role(1, annotations=STAYS, completePolicy="None"),
    }
    world.apply(job(roles, cleanPodPolicy="Running")).run()
    world.until("it runs", lambda: world.phase() == "Running")
    for _ in range(20):
        world.tables.children.get(KEY_OF_DIGITS, {}).pop((PODS, "digits-ps-0"), None)
        world.advance(1)
    assert world.phase() == "Succeed"
    assert "digits-ps-0" in world.pods(), "hidden, and so left"
    for _ in range(2):
        world.advance(60, step_seconds=30)
        world.collector.collect()
    world.advance(60, step_seconds=30)
    assert "digits-ps-0" not in world.pods()
