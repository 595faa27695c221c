"""`make bench` without its processes: what it asks for, what it counts, and the table that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks import ceiling, marks, parts, player, speedups
from benchmarks.audit import AuditLog
from benchmarks.peer.jobs import PYTORCHJOBS
from benchmarks.support import replacing
from tjworker.api.observed import PodRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import PODS
from watcher.projection import project


def line(user: str, verb: str, resource: str, subresource: str = "") -> bytes:
    about = {"resource": resource, **({"subresource": subresource} if subresource else {})}
    return orjson.dumps({"user": {"username": user}, "verb": verb, "objectRef": about}) + b"\n"


def test_requests_are_counted_by_user_verb_and_resource_from_a_position_on(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    assert log.position() == 0, "before the API server has written anything"
    (tmp_path / "audit.log").write_bytes(line("worker", "create", "pods"))
    position = log.position()
    with (tmp_path / "audit.log").open("ab") as file:
        file.write(line("worker", "update", "aitrainingjobs", "status") * 2 + line("client", "create", "pods"))
        file.write(line("worker", "create", "services")[:20])  # still being written
    assert log.since(position) == {("worker", "update", "aitrainingjobs/status"): 2, ("client", "create", "pods"): 1}
    assert log.since(0).total() == 4


def status(phase: str, message: str = "") -> dict[str, str]:
    return {"phase": phase, "message": message}


MILESTONES = {
    "until Running: the first and the first Running one": (
        [status("Pending"), status("Creating"), status("Running", "1/2"), status("Running", "2/2")],
        "Running",
        [status("Pending"), status("Running", "1/2")],
    ),
    "a whole life: its end too": (
        [status("Pending"), status("Running"), status("Terminating"), status("Succeed")],
        "Succeed",
        [status("Pending"), status("Running"), status("Succeed")],
    ),
}


@pytest.mark.parametrize("sentence", MILESTONES)
def test_the_same_writes_have_as_many_statuses_as_a_busy_system_writes(sentence: str) -> None:
    statuses, until, want = MILESTONES[sentence]
    assert ceiling.milestones(statuses, until) == want


def pytorchjob(replicas: int, *, done: bool = False, **active: int) -> dict[str, Any]:
    raw = PYTORCHJOBS.job("a", replicas)
    conditions = [{"type": "Running", "status": "True"}, {"type": "Succeeded", "status": str(done)}]
    statuses = {role: {"active": n} for role, n in active.items()}
    return {**raw, "status": {"conditions": conditions, "replicaStatuses": statuses}}


PEER_PHASES = {
    "its Master runs alone: ours would not be Running": (pytorchjob(4, Master=1), ""),
    "every replica runs": (pytorchjob(4, Master=1, Worker=3), "Running"),
    "one replica, which runs": (pytorchjob(1, Master=1), "Running"),
    "no status yet": (PYTORCHJOBS.job("a", 1), ""),
    "it has succeeded": (pytorchjob(4, done=True), "Succeed"),
}


@pytest.mark.parametrize("sentence", PEER_PHASES)
def test_a_job_of_the_peer_is_in_a_phase_when_one_of_ours_would_be(sentence: str) -> None:
    raw, want = PEER_PHASES[sentence]
    assert PYTORCHJOBS.phase(raw) == want


def test_what_the_player_writes_is_a_running_and_then_a_succeeded_pod_to_the_watcher() -> None:
    owner = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "name": "a",
        "uid": "u",
        "controller": True,
    }
    pod = {
        "metadata": {
            "name": "a-trainer-0",
            "namespace": "default",
            "uid": "p",
            "resourceVersion": "5",
            "ownerReferences": [owner],
            "labels": {"replica-index": "0", "restart-attempt": "0"},
        },
        "spec": {"nodeName": "n", "containers": [{"name": "aitj-train", "image": "i"}]},
    }
    seen = []
    for status in (player.running(pod, "10.0.0.1"), player.ended(pod, "2026-01-01T00:00:00Z")):
        projected = project(PODS, {**pod, "status": status})
        assert projected is not None
        record = decode(PODS, projected.change.record or b"")
        assert isinstance(record, PodRecord)
        seen.append((record.phase, record.ready))
    assert seen == [("Running", True), ("Succeeded", False)]


def test_what_a_benchmark_times_or_takes_out_is_where_the_product_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = (*parts.PARTS, *marks.watcher_steps(), *marks.worker_steps(), *marks.player_steps())
    for owner, function, _ in steps:
        replacing.check(owner, function)
    monkeypatch.setattr(speedups, "replace", lambda owner, function, by: replacing.check(owner, function))
    monkeypatch.setattr(speedups, "replace_constant", lambda module, name, by: getattr(module, name))
    monkeypatch.setenv("TJ_KEYS_PER_TASK", "8")
    for name in speedups.SPEED_UPS:
        speedups.take_out(name)
