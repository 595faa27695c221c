"""The autoscaler in the whole system, in virtual time: beat's part is played by the clock, everything else is real."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.elastic import (
    COOLDOWN_SECONDS,
    FULL,
    TICK_SECONDS,
    WEB,
    elastic,
    foreign,
    trainers,
    two_jobs_and_a_burst_of_others_share_it,
    wants,
)
from tests.scenarios.world import World, training_job
from tests.support.clocks import shared
from tjworker.controllers.autoscaler import Autoscaler


class ElasticWorld(World):
    """One node of eight CPUs, and a run of the autoscaler every TICK_SECONDS."""

    def __init__(self, *, preempts: bool = False, **settings: Any) -> None:
        super().__init__(
            nodes=1, autoscale_seconds=TICK_SECONDS, autoscale_cooldown_seconds=COOLDOWN_SECONDS, **settings
        )
        self.runs: list[str] = []
        self.autoscaler = self.new_autoscaler()
        self._next_tick = self.clock() + TICK_SECONDS
        self.cluster.client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "metadata": {"name": WEB},
                "value": 1000,
                "preemptionPolicy": "PreemptLowerPriority" if preempts else "Never",
            },
        )

    def new_autoscaler(self) -> Autoscaler:
        return Autoscaler(self.store, self.api, self.settings, clock=shared(self.clock), monotonic=self.clock)

    def advance(self, seconds: float, step_seconds: float = 1.0) -> World:
        left = seconds
        while left > 0:
            super().advance(min(step_seconds, left), step_seconds)
            left -= step_seconds
            if self.clock() >= self._next_tick:
                self._next_tick += TICK_SECONDS
                self.runs.append(self.autoscaler.run())
                self.run()
        return self


@pytest.fixture
def world() -> ElasticWorld:
    return ElasticWorld()


def test_two_jobs_and_a_burst_of_others_share_the_cluster(world: ElasticWorld) -> None:
    two_jobs_and_a_burst_of_others_share_it(world)


def test_a_burst_that_preempts_takes_its_room_at_once_and_the_jobs_make_do_with_the_rest() -> None:
    world = ElasticWorld(preempts=True)
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    for i in range(4):
        world.create_pod(foreign(f"web-{i}", priorityClassName=WEB))
    world.until(
        "the others run",
        lambda: all(world.pods()[f"web-{i}"]["status"].get("phase") == "Running" for i in range(4)),
        within_seconds=2 * TICK_SECONDS,
    )
    world.until("the job has what is left", lambda: (wants(world, "first"), len(trainers(world, "first"))) == (3, 3))
    world.until("and runs", lambda: world.phase("first") == "Running")
    world.stays("and is left in peace", lambda: wants(world, "first") == 3, for_seconds=4 * COOLDOWN_SECONDS)


def test_an_empty_redis_a_new_watcher_and_a_new_worker_lose_no_target(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    before, writes = trainers(world, "first"), world.status("first")["scaleRecords"]
    world.store.flush()
    world.start_watcher()
    world.worker, world.autoscaler = world.make_worker("worker-2"), world.new_autoscaler()
    world.advance(60)
    assert trainers(world, "first") == before
    assert world.status("first")["scaleRecords"] == writes
    assert world.status("first")["targets"] == {"trainer": FULL}


def test_a_cluster_at_rest_costs_nothing_but_a_look(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.advance(20)
    requests, tasks = sum(world.transport.counts.values()), len(world.results)
    world.advance(60)
    assert (sum(world.transport.counts.values()), len(world.results)) == (requests, tasks)
    assert world.runs[-1] == "1 roles, CPU 7 of 8, memory 0.735 of 34.4 GB asked for"


def test_kubectl_scale_is_heard_and_the_autoscaler_goes_on_from_there(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.scale("first", 3).run()
    assert wants(world, "first") == 3
    assert "targets" not in world.status("first")
    world.stays("3 for the cool-down", lambda: wants(world, "first") == 3, for_seconds=COOLDOWN_SECONDS - 1)
    world.until("and then it grows again", lambda: len(trainers(world, "first")) == FULL)
    assert world.status("first")["targetsBeside"] == {"trainer": 3}


def test_edl_policy_manual_gives_the_job_back_to_people(world: ElasticWorld) -> None:
    world.apply(elastic("first", 2, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.patch_job("first", {"spec": {"replicaSpecs": {"trainer": {"edlPolicy": "Manual"}}}})
    world.run().advance(30)
    assert (wants(world, "first"), len(trainers(world, "first"))) == (2, 2)


def test_a_lower_maximum_holds_at_once(world: ElasticWorld) -> None:
    world.apply(elastic("first", 2, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.patch_job("first", {"spec": {"replicaSpecs": {"trainer": {"maxReplicas": 4}}}})
    world.run().advance(2)
    assert len(trainers(world, "first")) == 4


def test_a_suspended_job_leaves_its_room_to_the_others_and_comes_back_as_the_spec_says(world: ElasticWorld) -> None:
    world.apply(elastic("first", 2, 2, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.apply(elastic("second", 1, 1, 10))
    world.until("the second runs", lambda: len(trainers(world, "second")) == 1)
    world.patch_job("first", {"spec": {"suspend": True}})
    world.until("the second has the cluster", lambda: len(trainers(world, "second")) == FULL)
    world.patch_job("first", {"spec": {"suspend": False}})
    world.until("both run", lambda: (len(trainers(world, "first")), len(trainers(world, "second"))) == (2, FULL - 2))


def test_a_replica_that_the_scheduler_refuses_is_taken_back(world: ElasticWorld) -> None:
    """A rule that the planner does not know: here, one host port for all trainers."""
    manifest = elastic("first", 1, 1, 3)
    ports = manifest["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["ports"]
    ports[0]["hostPort"] = ports[0]["containerPort"]
    world.apply(manifest)
    world.until("it is tried", lambda: wants(world, "first") == 3)
    world.until("and given up", lambda: wants(world, "first") == 1)
    assert "found no node for 2 of them for 10 s" in world.status("first")["scaleRecords"][0]["reason"]
    world.stays("for a good while", lambda: wants(world, "first") == 1, for_seconds=9 * COOLDOWN_SECONDS)


def test_a_strangers_pod_with_every_label_of_a_trainer_is_none(world: ElasticWorld) -> None:
    """Of a ReplicaSet whose template was copied, and it finds no node: with such a trainer no job would
    grow."""
    world.apply(elastic("first", 2, 1, 10)).run()
    marks = {**world.pods()["first-trainer-1"]["metadata"]["labels"], "app": "stranger"}
    spec = foreign("", cpu="0", nodeSelector={"there": "is-none"})["spec"]
    world.cluster.client.create(
        "/apis/apps/v1/namespaces/default/replicasets",
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "stranger"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "stranger"}},
                "template": {"metadata": {"labels": marks}, "spec": spec},
            },
        },
    )
    world.until("it fills the cluster all the same", lambda: len(trainers(world, "first")) == FULL)
    world.stays("for a good while", lambda: wants(world, "first") == FULL, for_seconds=4 * COOLDOWN_SECONDS)
    assert [name for name in world.pods() if name.startswith("stranger-")], "the stranger is left alone"


def test_switched_off_it_moves_nothing_and_kubectl_scale_holds() -> None:
    world = ElasticWorld(autoscale_policy="off")
    world.apply(elastic("first", 2, 1, 8))
    world.until("it runs", lambda: len(trainers(world, "first")) == 2)
    world.scale("first", 5)
    world.until("as told", lambda: len(trainers(world, "first")) == 5)
    world.stays(
        "it is not moved", lambda: len(trainers(world, "first")) == 5, for_seconds=COOLDOWN_SECONDS + 3 * TICK_SECONDS
    )
    assert set(world.runs) == {"switched off (TJ_AUTOSCALE_POLICY)"}


def test_only_one_run_a_period(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10)).run()
    first, second = world.autoscaler.run(), world.new_autoscaler().run()
    assert first.startswith("1 roles")
    assert second == "another run has this period"


def test_a_run_that_is_slower_than_its_period_leaves_the_rest_to_the_next_one(
    world: ElasticWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By then another run decides anew; what this one has planned is old."""
    for name in ("first", "second", "third"):
        world.apply(elastic(name, 1, 1, 10)).run()
    patch = world.api.merge_patch

    def slow(*arguments: Any, **more: Any) -> Any:
        world.cluster.advance(TICK_SECONDS * 0.6)
        return patch(*arguments, **more)

    monkeypatch.setattr(world.api, "merge_patch", slow)
    assert world.autoscaler.run().endswith("2 jobs moved, 1 left to the next run")
    assert ["targets" in world.status(name) for name in ("first", "second", "third")] == [True, True, False]


def test_a_job_that_another_client_wrote_meanwhile_is_left_to_the_next_run(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10)).run()
    world.patch_job("first", {"metadata": {"annotations": {"by": "me"}}})  # the watch has not shown it yet
    assert world.autoscaler.run().endswith("1 changed meanwhile")
    assert "targets" not in world.status("first")
    world.until("the next run moves it", lambda: wants(world, "first") == FULL)


def test_the_trainers_of_an_edl_job_grow_and_give_way_as_well(world: ElasticWorld) -> None:
    """A batch Job keeps them: its parallelism follows, none is restarted, and none counts as failed."""
    manifest = training_job("edl", most=9, fault_tolerant=True)
    manifest["spec"]["trainer"]["resources"] = {"requests": {"cpu": "1"}}
    world.apply(manifest)

    def up() -> dict[str, str]:
        return {
            n: p["metadata"]["uid"]
            for n, p in world.pods().items()
            if n.startswith("edl-trainer-")
            and p["status"].get("phase") == "Running"
            and "deletionTimestamp" not in p["metadata"]
        }

    world.until("it fills the cluster", lambda: len(up()) == FULL)
    alone = up()
    for i in range(3):
        world.create_pod(foreign(f"web-{i}", priorityClassName=WEB))
    world.until(
        "the others run",
        lambda: all(world.pods()[f"web-{i}"]["status"].get("phase") == "Running" for i in range(3)),
        within_seconds=2 * TICK_SECONDS + 3,
    )
    world.until("at the trainers' cost", lambda: len(up()) == FULL - 3)
    assert up().items() <= alone.items()
    for i in range(3):
        world.delete_pod(f"web-{i}")
    world.until("it grows back", lambda: len(up()) == FULL)
    status = world.status("edl")
    assert status["phase"] in ("Running", "Scaling")
    assert {record["reason"].split(":")[0] for record in status["scaleRecords"]} == {"autoscaler"}
