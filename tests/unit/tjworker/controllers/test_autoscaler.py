"""The autoscaler when single jobs or nodes cannot be read or written. The rest: scenarios/test_autoscaler.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from tests.scenarios.elastic import FULL, elastic, wants
from tests.scenarios.test_autoscaler import ElasticWorld
from tjworker.autoscale import POLICIES
from tjworker.autoscale.problem import Problem, RoleId, ScalePlan
from tjworker.base import JobKey, Transient
from tjworker.kube.port import HttpResponse
from tjworker.telemetry.metrics import REGISTRY

TOO_LARGE = HttpResponse(
    500,
    orjson.dumps({"kind": "Status", "status": "Failure", "code": 500, "message": "etcdserver: request is too large"}),
)


@pytest.fixture
def world() -> ElasticWorld:
    """Two jobs that share what is free; `aaa` is first."""
    world = ElasticWorld()
    world.apply(elastic("aaa", 1, 1, 10)).apply(elastic("zzz", 1, 1, 10)).run()
    return world


def refuse_status(world: ElasticWorld, name: str, answer: HttpResponse = TOO_LARGE) -> None:
    request = world.transport.request

    def refused(method: str, path: str, **more: Any) -> HttpResponse:
        if method == "PATCH" and path.endswith(f"aitrainingjobs/{name}/status"):
            return answer
        return request(method, path, **more)

    world.transport.request = refused  # type: ignore[method-assign]


def test_a_job_whose_status_is_refused_for_good_keeps_no_other(world: ElasticWorld) -> None:
    refuse_status(world, "aaa")
    assert world.autoscaler.run().endswith("1 jobs moved, 1 failed")
    world.advance(120)
    assert wants(world, "aaa") == 1
    assert wants(world, "zzz") > 1


@pytest.mark.parametrize("code", [409, 422])
def test_a_job_that_another_writer_has_changed_is_left_to_the_next_run(world: ElasticWorld, code: int) -> None:
    """Or whose spec allows the target no more."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": "Other", "message": "no"}
    refuse_status(world, "aaa", HttpResponse(code, orjson.dumps(body)))
    assert world.autoscaler.run().endswith("1 jobs moved, 1 changed meanwhile")


def test_a_job_whose_status_write_hangs_keeps_the_others_for_one_run(world: ElasticWorld) -> None:
    request = world.transport.request

    def hangs(method: str, path: str, **more: Any) -> HttpResponse:
        if method == "PATCH" and path.endswith("aitrainingjobs/aaa/status"):
            world.clock.now_seconds += world.settings.request_timeout_seconds
            raise Transient("no answer in time")
        return request(method, path, **more)

    world.transport.request = hangs  # type: ignore[method-assign]
    assert world.autoscaler.run().endswith("1 failed, 1 left to the next run")
    assert world.autoscaler.run().endswith("1 jobs moved, 1 failed")
    assert "targets" in world.status("zzz")


def test_a_record_that_cannot_be_read_costs_its_job_alone(world: ElasticWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    unfinished = world.store.projection.unfinished()
    spoiled = {**unfinished, JobKey("aitrainingjobs.elasticdeeplearning.ai/default/aaa"): (10**9, b"{")}
    monkeypatch.setattr(world.store.projection, "unfinished", lambda: spoiled)
    assert world.autoscaler.run().endswith("1 jobs moved, 1 failed")
    assert "targets" in world.status("zzz")


def test_a_node_that_cannot_be_read_costs_that_node_alone(world: ElasticWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world.store.projection.cluster()
    nodes = {**cluster.nodes, "broken": b"{"}
    monkeypatch.setattr(
        world.store.projection, "cluster", lambda: type(cluster)(nodes, cluster.node_requests, synced=cluster.synced)
    )
    assert world.autoscaler.run().endswith("2 jobs moved, 1 failed")


def test_a_node_whose_requests_cannot_be_read_has_no_room(world: ElasticWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world.store.projection.cluster()
    spoiled = {**cluster.node_requests, **dict.fromkeys(cluster.nodes, b"{")}
    monkeypatch.setattr(
        world.store.projection, "cluster", lambda: type(cluster)(cluster.nodes, spoiled, synced=cluster.synced)
    )
    told = world.autoscaler.run()
    assert "jobs moved" not in told, "it may be full"
    assert told.endswith(f"{len(cluster.nodes)} failed")


def test_a_quantity_beyond_all_measure_costs_its_job_alone() -> None:
    world = ElasticWorld()
    absurd = elastic("aaa", 1, 1, 10)
    absurd["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1e400"}
    }
    world.apply(absurd).apply(elastic("zzz", 1, 1, 10)).run()
    world.until("the other fills the cluster", lambda: wants(world, "zzz") == FULL)
    assert wants(world, "aaa") == 1


def test_an_api_server_that_is_away_fails_the_task(world: ElasticWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.apply(elastic("mmm", 1, 1, 10)).run()

    def away(*arguments: Any, **more: Any) -> Any:
        raise Transient("connection refused")

    monkeypatch.setattr(world.api, "merge_patch", away)
    with pytest.raises(Transient):
        world.autoscaler.run()


def _too_many(problem: Problem) -> ScalePlan:
    return ScalePlan({role.id: 10 for role in problem.roles})


def _beyond(problem: Problem) -> ScalePlan:
    return ScalePlan({role.id: 11 for role in problem.roles})


FAILS: dict[str, tuple[Any, str, str]] = {
    "its plan breaks a rule": (_too_many, "rejected", " milli-CPUs would be requested of"),
    "its target is out of bounds": (_beyond, "rejected", "1 -> 11 is outside 1..10"),
    "it plans for a job that there is not": (
        lambda _: ScalePlan({RoleId(JobKey("gone"), "trainer"): 2}),
        "rejected",
        "gone/trainer: no such role",
    ),
    "it returns no plan": (lambda _: {"aaa": 3}, "raised", "AttributeError"),
}


@pytest.mark.parametrize("fails", FAILS.values(), ids=FAILS.keys())
def test_a_policy_that_fails_moves_nothing_and_the_run_says_so(
    world: ElasticWorld,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    fails: tuple[Any, str, str],
) -> None:
    plan, why, words = fails
    works = POLICIES["fulfillment"]
    monkeypatch.setitem(POLICIES, "fulfillment", replace(works, plan=plan))
    before = _counted(why)
    assert world.autoscaler.run() == "no role was moved: the policy fulfillment failed, 1 failed"
    assert world.autoscaler.failed == 1
    assert _counted(why) == before + 1
    told = "".join(capsys.readouterr()) + caplog.text  # an earlier test may have chosen where logs go
    assert "cannot plan with the policy fulfillment" in told
    assert words in told
    assert ["targets" in world.status(name) for name in ("aaa", "zzz")] == [False, False]
    monkeypatch.setitem(POLICIES, "fulfillment", works)
    world.advance(20)
    assert "targets" in world.status("aaa"), "the next run starts afresh"


def _counted(why: str) -> float:
    return float(REGISTRY.get_sample_value("tj_scale_plans_rejected_total", {"why": why}) or 0)


def test_each_move_that_was_written_counts_once_by_its_direction_and_is_recorded(world: ElasticWorld) -> None:
    def decided() -> dict[str, float]:
        name = "tj_scale_decisions_total"
        return {d: REGISTRY.get_sample_value(name, {"direction": d}) or 0.0 for d in ("up", "down")}

    def told(name: str) -> tuple[Any, ...]:
        status = world.status(name)
        record = status["scaleRecords"][0]
        return status["targets"], status["targetsBeside"], record["role"], record["from"], record["to"]

    def target() -> int:
        return int(world.status("zzz")["targets"]["trainer"])

    before = decided()
    refuse_status(world, "aaa", HttpResponse(409, orjson.dumps({"kind": "Status", "code": 409, "reason": "Conflict"})))
    world.autoscaler.run()
    assert {d: n - before[d] for d, n in decided().items()} == {"up": 1, "down": 0}, "not that of the refused write"
    assert told("zzz") == ({"trainer": target()}, {"trainer": 1}, "trainer", 1, target())
    world.advance(120)
    before, grown = decided(), target()
    world.apply(elastic("needs", 4, 4, 10)).run()
    world.until("one makes room", lambda: target() < grown, within_seconds=300)
    assert decided()["down"] - before["down"] == 1
    assert told("zzz") == ({"trainer": target()}, {"trainer": 1}, "trainer", grown, target())
    assert world.status("zzz")["scaleRecords"][0]["reason"]
