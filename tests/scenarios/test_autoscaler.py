"""The autoscaler in the whole system, in virtual time: beat's part is played by the clock, everything else is real."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import orjson
import pytest

from tests.scenarios.driver import Json
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
from tjworker.api.kinds.aitrainingjob import RESOURCE
from tjworker.api.labels import ANNOTATION_GIT_SYNC, AUTOSCALE_POLICY
from tjworker.api.timefmt import to_rfc3339
from tjworker.controllers import autoscaler
from tjworker.controllers.autoscaler import Autoscaler
from tjworker.kube.port import HttpResponse


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
        return Autoscaler(self.store, self.api, self.settings, clock=shared(self.clock))

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
    before = world.transport.counts["GET /api/v1/namespaces"]
    world.advance(60)
    looks = world.transport.counts["GET /api/v1/namespaces"]
    assert (sum(world.transport.counts.values()) - looks, len(world.results)) == (requests - before, tasks)
    assert looks - before == 1, "the labels of namespaces are read once a minute"
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


def test_a_job_with_an_edit_that_cannot_be_used_grows_once_it_is_mended(world: ElasticWorld) -> None:
    """No pass makes a replica of it meanwhile: a target would be set aside, and be set again by the next run."""
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.patch_job("first", {"metadata": {"annotations": {ANNOTATION_GIT_SYNC: "{"}}}).run()
    world.scale("first", 3).run()
    records = world.status("first")["scaleRecords"]
    world.advance(4 * COOLDOWN_SECONDS)
    assert world.status("first")["scaleRecords"] == records
    assert (wants(world, "first"), len(trainers(world, "first"))) == (3, 3)
    world.patch_job("first", {"metadata": {"annotations": {ANNOTATION_GIT_SYNC: None}}}).run()
    world.until("it is mended and grows again", lambda: len(trainers(world, "first")) == FULL)


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


# -- a tenant beside a neighbour ---------------------------------------------------------------------
Admit = Callable[[dict[str, Any]], dict[str, Any] | HttpResponse]
"""A pod as it is asked for -> as it is created, or why not."""


def admit_pods(world: ElasticWorld, job: str, admit: Admit) -> None:
    """As admission does in the namespace of that job."""
    request = world.transport.request

    def admitted(method: str, path: str, *, body: bytes | None = None, **more: Any) -> HttpResponse:
        if method == "POST" and path.endswith("/pods") and body:
            pod = orjson.loads(body)
            if pod["metadata"]["name"].startswith(f"{job}-"):
                made = admit(copy.deepcopy(pod))
                if isinstance(made, HttpResponse):
                    return made
                body = orjson.dumps(made)
        return request(method, path, body=body, **more)

    world.transport.request = admitted  # type: ignore[method-assign]


def beside_a_neighbour() -> ElasticWorld:
    """Who has seven of eight CPUs."""
    world = ElasticWorld()
    world.apply(elastic("neighbour", 1, 1, 10))
    world.until("the neighbour fills the cluster", lambda: len(trainers(world, "neighbour")) == FULL)
    world.advance(COOLDOWN_SECONDS)
    return world


def without_requests(name: str, most: int) -> dict[str, Any]:
    manifest = elastic(name, 1, 1, most)
    del manifest["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["resources"]
    return manifest


def limit_range(pod: dict[str, Any]) -> dict[str, Any]:
    """A defaultRequest of two CPUs."""
    pod["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {}).setdefault("cpu", "2")
    return pod


def sidecar(pod: dict[str, Any]) -> dict[str, Any]:
    pod["spec"]["containers"].append(
        {"name": "proxy", "image": "proxy:1", "resources": {"requests": {"cpu": "1"}}, "command": ["sleep", "inf"]}
    )
    return pod


def quota(world: ElasticWorld, most: int) -> Admit:
    def admit(pod: dict[str, Any]) -> dict[str, Any] | HttpResponse:
        prefix = pod["metadata"]["name"].partition("-trainer-")[0]
        there = [name for name in world.pods() if name.startswith(f"{prefix}-trainer-")]
        if len(there) < most:
            return pod
        message = f"pods {pod['metadata']['name']!r} is forbidden: exceeded quota: q, used: pods={most}"
        said = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
        return HttpResponse(403, orjson.dumps(said))

    return admit


def test_a_tenant_with_a_limit_range_is_planned_with_what_its_pods_request() -> None:
    """Its template requests nothing, each of its pods two CPUs: the neighbour gives room for its first pod, no more."""
    world = beside_a_neighbour()
    admit_pods(world, "tenant", limit_range)
    world.apply(without_requests("tenant", 40))
    world.until("its first trainer runs", lambda: len(trainers(world, "tenant")) == 1)
    assert len(trainers(world, "neighbour")) == FULL - 2
    world.stays(
        "and that is all",
        lambda: (wants(world, "tenant"), wants(world, "neighbour")) == (1, FULL - 2),
        for_seconds=6 * COOLDOWN_SECONDS,
    )


def test_a_tenant_alone_grows_as_far_as_its_real_pods_fit(world: ElasticWorld) -> None:
    admit_pods(world, "tenant", limit_range)
    world.apply(without_requests("tenant", 40))
    world.until("three pods of two CPUs", lambda: len(trainers(world, "tenant")) == 3)
    world.stays("no more", lambda: wants(world, "tenant") == 3, for_seconds=4 * COOLDOWN_SECONDS)


def test_an_injected_sidecar_counts(world: ElasticWorld) -> None:
    admit_pods(world, "meshed", sidecar)
    world.apply(elastic("meshed", 1, 1, 10))
    world.until("three pods of two CPUs", lambda: wants(world, "meshed") == 3)
    world.stays("no more", lambda: wants(world, "meshed") == 3, for_seconds=4 * COOLDOWN_SECONDS)


def test_replicas_that_a_quota_refuses_are_taken_back_and_their_room_goes_to_the_neighbour(world: ElasticWorld) -> None:
    admit_pods(world, "tenant", quota(world, 2))
    world.apply(elastic("tenant", 1, 1, 10))
    world.until("it is tried", lambda: wants(world, "tenant") == FULL)
    world.until("and given up", lambda: wants(world, "tenant") == 2)
    record = world.status("tenant")["scaleRecords"][0]
    assert record["cause"] == "refused"
    assert "the API server has refused the pods of 5 of them for 10 s" in record["reason"]
    world.until("the job runs with what it has", lambda: world.phase("tenant") == "Running")
    world.apply(elastic("neighbour", 1, 1, 10))
    world.until("the neighbour has the rest", lambda: len(trainers(world, "neighbour")) == FULL - 2)
    world.stays("for a good while", lambda: wants(world, "tenant") == 2, for_seconds=6 * COOLDOWN_SECONDS)


def test_replicas_at_the_minimum_that_a_quota_refuses_hold_no_room(world: ElasticWorld) -> None:
    admit_pods(world, "tenant", quota(world, 2))
    world.apply(elastic("tenant", 4, 4, 10))
    world.until("the quota is used up", lambda: len(trainers(world, "tenant")) == 2)
    world.advance(COOLDOWN_SECONDS)
    world.apply(elastic("neighbour", 1, 1, 10))
    world.until("the neighbour has the rest", lambda: len(trainers(world, "neighbour")) == FULL - 2)
    assert wants(world, "tenant") == 4, "never below its minimum"


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "a pod with cpu 500": {"cpu": "500"},
    "a nodeSelector that no node has": {"cpu": "1", "nodeSelector": {"gpu": "h100"}},
    "a pod that fits on an empty node alone": {"cpu": "8"},
}


@pytest.mark.parametrize("pod", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_a_pod_that_no_node_could_hold_makes_nobody_smaller_and_real_demand_does(pod: dict[str, Any]) -> None:
    world = beside_a_neighbour()
    before = trainers(world, "neighbour")
    world.create_pod(foreign("impossible", **pod))
    world.stays("nobody gives way", lambda: wants(world, "neighbour") == FULL, for_seconds=3 * COOLDOWN_SECONDS)
    assert trainers(world, "neighbour") == before
    assert world.runs[-1].endswith("asked for, 1 waiting pods fit on no node")
    world.create_pod(foreign("web-0", cpu="2", priorityClassName=WEB))
    world.until("real demand has its room", lambda: world.pods()["web-0"]["status"].get("phase") == "Running")
    record = world.status("neighbour")["scaleRecords"][0]
    assert (record["cause"], record["to"]) == ("need", FULL - 2)
    assert record["reason"].startswith("autoscaler: room is needed for default/web-0 (")


def test_an_elastic_job_whose_pods_can_never_fit_makes_nobody_smaller() -> None:
    world = beside_a_neighbour()
    manifest = elastic("huge", 1, 1, 10)
    manifest["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "500"}
    }
    world.apply(manifest)
    world.stays("nobody gives way", lambda: wants(world, "neighbour") == FULL, for_seconds=3 * COOLDOWN_SECONDS)


def test_each_change_says_its_cause(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.apply(elastic("second", 2, 2, 10))
    world.until("the second runs", lambda: len(trainers(world, "second")) == 2)
    world.scale("first", 3).run()
    told = [(r["cause"], r["reason"].partition(" (")[0]) for r in reversed(world.status("first")["scaleRecords"])]
    assert told == [
        ("room", "autoscaler: room for 6 more"),
        ("need", "autoscaler: room is needed for default/second-trainer-1"),
        ("user", "spec.replicas was set to 3"),
    ]


# -- which policy ------------------------------------------------------------------------------------
def report_speeds(world: ElasticWorld, name: str, rates: dict[int, float]) -> None:
    """As the status endpoint writes them: samples per second by number of replicas."""
    at = to_rfc3339(world.clock())
    rows = [{"replicas": n, "nodes": 1, "rate": rate, "count": 5, "lastSeen": at} for n, rate in rates.items()]
    status = {"speed": rows, "trainerStatus": {"progressPercentage": 40, "lastUpdatedTime": at}}
    world.api.merge_patch(RESOURCE, "default", name, {"status": status}, subresource="status")
    world.run()


def test_reports_of_speed_reach_the_policy() -> None:
    """Two jobs with equal bounds; one has reported that a second trainer does not speed it up."""
    world = ElasticWorld(autoscale_policy="throughput")
    for name in ("flat", "steep"):
        world.apply(elastic(name, 1, 1, 10))
    world.run()
    report_speeds(world, "flat", {1: 100.0, 2: 100.0, 4: 100.0})
    report_speeds(world, "steep", {1: 100.0, 2: 200.0, 4: 400.0})
    world.advance(60)
    assert wants(world, "steep") > wants(world, "flat"), "without the reports both count as linear"


def label_namespace(world: ElasticWorld, policy: str) -> None:
    change = {"metadata": {"labels": {AUTOSCALE_POLICY: policy}}}
    world.cluster.client.patch("/api/v1/namespaces/default", change)


def annotated(name: str, policy: str) -> Json:
    made = elastic(name, 1, 1, 10)
    made["metadata"]["annotations"] = {AUTOSCALE_POLICY: policy}
    return made


def test_a_label_of_the_namespace_and_an_annotation_of_the_job_choose_the_policy() -> None:
    world = ElasticWorld()
    label_namespace(world, "fair")
    world.apply(elastic("first", 1, 1, 10)).apply(annotated("second", "throughput"))
    world.advance(30)
    reasons = {name: world.status(name)["scaleRecords"][0]["reason"] for name in ("first", "second")}
    assert reasons["first"].endswith("; policy fair)")
    assert reasons["second"].endswith("; policy throughput)")


def test_a_wrong_name_of_a_policy_is_told_once_and_the_job_is_planned_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Mock()  # where the lines themselves go is up to the test of this process that has set logging up last
    monkeypatch.setattr(autoscaler, "log", log)
    world = ElasticWorld()
    world.apply(annotated("first", "best"))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.advance(30)
    said = "names 'best', which is no policy. Choose one of fulfillment, "
    assert sum(said in call.args[0] for call in log.warning.call_args_list) == 1
    assert world.status("first")["scaleRecords"][0]["reason"].endswith("; policy fulfillment)")


def test_where_namespaces_may_not_be_listed_the_setting_counts() -> None:
    world = ElasticWorld()
    request = world.transport.request

    def forbidden(method: str, path: str, **more: Any) -> HttpResponse:
        if path.startswith("/api/v1/namespaces?") or path == "/api/v1/namespaces":
            body = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"}
            return HttpResponse(403, orjson.dumps(body))
        return request(method, path, **more)

    world.transport.request = forbidden  # type: ignore[method-assign]
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)


# -- what a job waits for ----------------------------------------------------------------------------
FIRST = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs/first"


def full_size(world: ElasticWorld, name: str) -> tuple[str, str, str]:
    """(status, reason, message) of the condition; '' for a job without it."""
    found: Json = next((c for c in world.status(name)["conditions"] if c["type"] == "FullSize"), {})
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def test_a_job_that_could_be_larger_says_what_it_waits_for_and_which_policy_decided(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10)).apply(elastic("small", 1, 1, 2))
    world.until("both have what there is", lambda: wants(world, "first") + wants(world, "small") == FULL)
    world.advance(20)
    assert full_size(world, "first") == (
        "False",
        "Fulfillment",
        "trainer has 5 of 10: one more asks for 1 CPU, and 0.76 of 8 are left to it: the autoscaler fills 97% of the"
        " CPUs (policy fulfillment)",
    )
    assert full_size(world, "small") == ("True", "Fulfillment", "trainer has 2, its maximum")


def test_a_job_that_can_never_fit_takes_nothing_from_others_and_says_so(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    huge = elastic("huge", 1, 1, 10)
    ninety = {"requests": {"cpu": "90"}}
    huge["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["resources"] = ninety
    world.apply(huge)
    world.stays("the first keeps what it has", lambda: wants(world, "first") == FULL, for_seconds=4 * COOLDOWN_SECONDS)
    status, reason, message = full_size(world, "huge")
    assert (status, reason) == ("False", "Fulfillment")
    assert message.startswith(
        "trainer has 1 of 10: 1 of its replicas wait, and no node could hold one, whatever elastic"
    )


def test_a_job_waits_with_the_words_of_the_policy_that_weighs_speeds() -> None:
    world = ElasticWorld(autoscale_policy="throughput")
    for name in ("flat", "steep"):
        world.apply(elastic(name, 1, 1, 10))
    world.run()
    report_speeds(world, "flat", {1: 100.0, 2: 105.0, 4: 110.0})
    report_speeds(world, "steep", {1: 100.0, 2: 200.0, 4: 400.0})
    world.advance(150)  # what is told of a size is told again after a minute at the earliest
    status, reason, message = full_size(world, "flat")
    assert (status, reason) == ("False", "Throughput")
    assert "one more replica would speed it up by " in message
    assert "default/steep" in message
    assert message.endswith("(policy throughput)")


def test_the_condition_is_not_written_again_while_only_its_numbers_change(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.advance(20)
    before = world.transport.counts["PATCH aitrainingjobs/status"]
    assert before, "it has been written"
    world.create_pod(foreign("little", cpu="100m"))
    world.advance(60)
    assert world.transport.counts["PATCH aitrainingjobs/status"] == before
    assert "0.76 of 8 are left" in full_size(world, "first")[2], "as it was when it was told"


def test_a_wrong_name_of_a_policy_stands_in_the_condition_after_a_minute_of_the_same_size(world: ElasticWorld) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.advance(20)
    before = full_size(world, "first")
    world.cluster.client.patch(FIRST, {"metadata": {"annotations": {AUTOSCALE_POLICY: "best"}}})
    world.run().advance(20)
    assert full_size(world, "first") == before
    world.advance(60)
    _, reason, message = full_size(world, "first")
    assert reason == "Fulfillment"
    assert "names 'best', which is no policy. Choose one of fulfillment, fair, " in message


def test_a_size_that_another_process_wrote_meanwhile_is_corrected_at_once(world: ElasticWorld) -> None:
    def bounded_by(most: int) -> str:
        edit = {"spec": {"replicaSpecs": {"trainer": {"maxReplicas": most}}}}
        world.cluster.client.patch(FIRST, edit)
        world.run().advance(2 * TICK_SECONDS)
        return full_size(world, "first")[2].partition(":")[0]

    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    first, second = world.autoscaler, world.new_autoscaler()
    assert bounded_by(9) == f"trainer has {FULL} of 9"
    world.autoscaler = second
    assert bounded_by(10) == f"trainer has {FULL} of 10"
    world.autoscaler = first
    assert bounded_by(9) == f"trainer has {FULL} of 9"


NO_MORE_REPLICAS: dict[str, Json] = {
    "suspended": {"spec": {"suspend": True}},
    "taken from the autoscaler": {"spec": {"replicaSpecs": {"trainer": {"edlPolicy": "Manual"}}}},
    "ended": {"metadata": {"annotations": {"Failed": "enough"}}},
}


@pytest.mark.parametrize("edit", NO_MORE_REPLICAS.values(), ids=NO_MORE_REPLICAS.keys())
def test_such_a_job_does_not_wait_for_room_any_more(world: ElasticWorld, edit: Json) -> None:
    world.apply(elastic("first", 1, 1, 10))
    world.until("it fills the cluster", lambda: len(trainers(world, "first")) == FULL)
    world.advance(20)
    assert full_size(world, "first")[0] == "False"
    world.cluster.client.patch(FIRST, edit)
    world.run().advance(20)
    assert full_size(world, "first") == ("", "", "")


def test_the_autoscaler_and_a_pass_agree_about_a_job_whose_edit_cannot_be_used(world: ElasticWorld) -> None:
    job = elastic("first", 1, 1, 10)
    job["spec"]["frameworkType"] = "jax"
    job["spec"]["replicaSpecs"]["trainer"]["edlPolicy"] = "Manual"
    world.apply(job).run().advance(5)
    world.cluster.client.patch(FIRST, {"spec": {"replicaSpecs": {"trainer": {"edlPolicy": "Auto"}}}})
    world.run().advance(2 * TICK_SECONDS)
    assert "an edit of it cannot be used" in full_size(world, "first")[2]
    before = world.status("first")
    world.advance(3 * TICK_SECONDS)
    assert world.status("first") == before, "no run of the autoscaler writes what the next pass takes away"
