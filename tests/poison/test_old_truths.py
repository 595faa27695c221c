"""What is left to somebody who can put back what was true, or only read: the last three rows of "What write access to
Redis is worth" (docs/redis.md), each with its cost and with what ends it."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import orjson

from tests.poison.attacks import read_sealed
from tests.poison.lives import AI
from tests.poison.world import PoisonedWorld
from tests.scenarios.elastic import COOLDOWN_SECONDS, FULL, TICK_SECONDS, elastic, foreign, trainers, wants
from tests.scenarios.world import job, play, role
from tests.support.clocks import shared
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.controllers.autoscaler import Autoscaler
from tjworker.store.projection import Change

DIGITS = JobKey(f"{AI}digits")


# -- older phases of pods --------------------------------------------------------------------------
def test_older_phases_of_pods_move_the_phase_of_their_job_and_nothing_else_until_the_next_true_view() -> None:
    world = PoisonedWorld()
    slow = play(start_seconds=5, run_seconds=10**7)
    world.apply(job({"trainer": role(2, annotations=slow, restartPolicy="OnFailure", restartLimit=1)}))
    world.until("its pods are there", lambda: len(world.pods()) == 2)
    assert world.phase() != "Running"
    young = world.memory.snapshot()
    world.until("it runs", lambda: world.phase() == "Running")
    world.advance(5)
    uids, true = world.uids(), world.memory.snapshot()
    shown = {entry: record for entry, record in young.children[DIGITS].items() if entry[0] == PODS}
    assert shown
    world.tables.children[DIGITS].update(copy.deepcopy(shown))
    world.judge.watching, world.judge.now = True, "older phases"
    world.queue.publish(world.memory.queue.add([DIGITS]))
    world.work()
    lied = world.status()
    assert lied["phase"] != "Running", "the lie is believed"
    assert not lied.get("ending")
    assert (world.uids(), world.judge.told) == (uids, [])
    world.tables.children[DIGITS] = true.children[DIGITS]
    world.queue.publish(world.memory.queue.add([DIGITS]))
    world.until("it runs, as it did", lambda: world.phase() == "Running")
    assert world.uids() == uids
    assert world.status().get("restartCounts", {}) == lied.get("restartCounts", {})


def test_a_failure_that_was_and_is_over_is_not_counted_again() -> None:
    """The record of a pod that has failed, put over that of its successor of the same name."""
    world = PoisonedWorld()
    fails_once = play(failing_attempts=1, failing_exit_code=137, failing_run_seconds=3, run_seconds=10**7)
    world.apply(job({"trainer": role(1, annotations=fails_once, restartPolicy="OnFailure", restartLimit=1)}))
    failed: list[Any] = []

    def has_failed() -> bool:
        phases = [pod["status"].get("phase") for pod in world.pods().values()]
        if phases == ["Failed"]:
            failed.append(world.memory.snapshot())
        return bool(world.status().get("restartCounts", {}).get("trainer", {}).get("application") == 1)

    world.until("it was restarted", has_failed, within_seconds=60)
    world.until("it runs again", lambda: world.phase() == "Running", within_seconds=60)
    uids = world.uids()
    world.judge.watching, world.judge.now = True, "an old failure"
    for old in [*failed, *failed]:
        world.tables.children[DIGITS].update(copy.deepcopy(old.children.get(DIGITS, {})))
        world.kick()
    assert (world.uids(), world.judge.told, world.phase()) == (uids, [], "Running")


# -- older sums of nodes ---------------------------------------------------------------------------
class Elastic(PoisonedWorld):
    """One node of eight CPUs. The autoscaler runs when it is told to."""

    def __init__(self) -> None:
        super().__init__(nodes=1, autoscale_seconds=TICK_SECONDS, autoscale_cooldown_seconds=COOLDOWN_SECONDS)
        self.autoscaler = Autoscaler(self.store, self.api, self.settings, clock=shared(self.clock))

    def ticks(self, number: int) -> Elastic:
        for _ in range(number):
            self.autoscaler.run()
            self.run()
            self.advance(TICK_SECONDS)
        return self


def test_older_sums_of_nodes_move_roles_within_their_bounds_until_the_next_true_sums() -> None:
    world = Elastic()
    world.apply(elastic("first", 1, 1, 10)).run()
    for number in range(3):
        world.create_pod(foreign(f"web-{number}"))
    world.advance(5)
    full = world.memory.snapshot().node_requests
    for number in range(3):
        world.delete_pod(f"web-{number}", grace_seconds=0)
    world.ticks(8)
    assert wants(world, "first") == FULL
    truth = world.memory.snapshot().node_requests
    assert truth != full

    def show(sums: dict[str, bytes], ticks: int) -> list[int]:
        seen = []
        for _ in range(ticks):
            world.tables.node_requests.update(copy.deepcopy(sums))
            world.autoscaler.run()
            world.run()
            world.advance(TICK_SECONDS)
            seen.append(wants(world, "first"))
        return seen

    lied = show(full, 8)
    assert set(lied) != {FULL}, "the lie is believed"
    assert all(1 <= number <= 10 for number in lied), lied
    assert world.phase("first") == "Running"
    assert not world.status("first").get("ending")
    world.tables.node_requests.update(truth)
    world.heal()
    world.ticks(12)
    assert (wants(world, "first"), len(trainers(world, "first"))) == (FULL, FULL)


def test_sums_that_nobody_has_sealed_are_not_used() -> None:
    world = Elastic()
    world.apply(elastic("first", 1, 1, 10)).run()
    world.ticks(6)
    wanted = wants(world, "first")
    forged = orjson.dumps({"requests": {}})
    for name in world.tables.node_requests:
        world.tables.node_requests[name] = forged
    world.autoscaler.run()
    world.run()
    assert wants(world, "first") == wanted


# -- reading ---------------------------------------------------------------------------------------
PLAIN, SECRET = "a-password-in-plain-text", "key-of-a-secret"


def held(world: PoisonedWorld) -> dict[str, str]:
    """Everything that stands in Redis, table by table, and what its records say."""
    return {f.name: repr(_unpacked(getattr(world.tables, f.name))) for f in dataclasses.fields(world.tables)}


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unpacked(entry) for name, entry in value.items()}
    if isinstance(value, Change):
        return (value, _unpacked(value.record))
    return read_sealed(value) if isinstance(value, bytes) else value


def with_passwords() -> Any:
    told = [
        {"name": "PLAIN", "value": PLAIN},
        {"name": "HIDDEN", "valueFrom": {"secretKeyRef": {"name": "a-secret", "key": SECRET}}},
    ]
    made = job({"trainer": role(1, annotations=play(run_seconds=20), restartPolicy="Never")})
    template = made["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]
    template["containers"][0]["env"] = told
    return made


def test_who_reads_redis_sees_what_a_template_says_in_plain_text_while_its_job_lives_and_not_after() -> None:
    world = PoisonedWorld()
    world.cluster.client.create(
        "/api/v1/namespaces/default/secrets", {"metadata": {"name": "a-secret"}, "stringData": {SECRET: "never-here"}}
    )
    world.apply(with_passwords()).run()
    world.until("it runs", lambda: world.phase() == "Running")
    assert {name for name, text in held(world).items() if PLAIN in text} == {"jobs"}, "of pods no values are kept"
    world.until("it has ended", lambda: world.phase() == "Succeed", within_seconds=120)
    world.advance(5)
    after = held(world)
    assert {name for name, text in after.items() if PLAIN in text or "never-here" in text} == set()
