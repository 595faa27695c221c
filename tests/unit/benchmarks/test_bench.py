"""`make bench` without its processes: what it asks for, what it counts, and the table that it prints."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from benchmarks import ceiling, loads, player, table
from benchmarks.apiserver import ApiServer
from benchmarks.audit import AuditLog
from benchmarks.measure import Load, Measured, Result, Sizes
from benchmarks.peer.jobs import PYTORCHJOBS
from benchmarks.wire import Server
from tests.support.kinds import AITRAININGJOBS
from tjworker.api.kinds import parse
from tjworker.api.model import TrainingJob
from tjworker.api.observed import PodRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import PODS
from watcher.projection import project

POD = {"spec": {"nodeName": "n", "containers": [{"name": "aitj-train", "image": "i"}]}}


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


def test_a_request_about_no_object_is_counted_too(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(orjson.dumps({"user": {"username": "client"}, "verb": "get"}) + b"\n")
    assert AuditLog(tmp_path / "audit.log").since(0) == {("client", "get", "-"): 1}


def test_requests_are_not_counted_across_two_files(tmp_path: Path) -> None:
    log, path = AuditLog(tmp_path / "audit.log"), tmp_path / "audit.log"
    path.write_bytes(line("worker", "create", "pods") * 3)
    position = log.position()
    path.rename(tmp_path / "audit-2026-11-23.log")
    path.write_bytes(line("worker", "create", "pods"))
    with pytest.raises(SystemExit, match="begun another audit"):
        log.since(position)
    with pytest.raises(SystemExit, match="begun another audit"):
        log.position()


def measured(until: str = "Running", replicas: int = 1) -> Measured:
    """Ten jobs in two rounds."""
    requests = [
        Counter({("worker", "create", "pods"): 10, ("worker", "update", "aitrainingjobs/status"): n}) for n in (20, 22)
    ]
    cpu = {
        "watcher": 0.01,
        "worker": 0.02,
        "worker children": 0.03,
        "redis": 0.04,
        "kube-apiserver": 0.3,
        "client": 0.1,
    }
    return Measured(
        Load("ten", 10, replicas, until),
        seconds=[2.0, 4.0],
        bare_seconds=[1.0, 3.0],
        bare_cpu_seconds=[0.25, 0.25],
        ceiling_seconds=[1.0, 4.0],
        ceiling_cpu_seconds=[0.3, 0.5],
        requests=requests,
        cpu_seconds=[cpu, cpu],
        tasks=[20, 30],
    )


def test_a_share_is_that_of_its_own_round_and_the_median_of_all() -> None:
    one = measured()
    assert [one.rate, one.share, one.cpu_share] == pytest.approx([10 / 3, 0.625, 0.5])
    assert [one.ceiling_share, one.ceiling_cpu_share] == pytest.approx([0.8, 0.625])


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


def test_the_table_tells_each_figure_by_job() -> None:
    result = Result(
        Sizes(10, 2, 0),
        0.0,
        loads=[measured()],
        pod_to_status=[0.01, 0.02, 0.4],
        creation_to_running=[0.03],
        rss_mib={"worker": [80.4, 81.6]},
    )
    rows = [[cell.strip() for cell in text.strip("|").split("|")] for text in table.render(result)]
    assert ["ten", "3.3", "5", "**0.62**", "0.80", "0.50", "0.62", "3.10", "8", "2.50", "10.0"] in rows
    assert ["ten", "1.0", "2.0", "3.0", "4.0", "30.0", "0.0", "0.0", "10.0"] in rows
    assert ["update aitrainingjobs/status", "2.10"] in rows
    assert ["pod change -> status change", "20", "400"] in rows
    assert ["RSS, MiB", "80 + 82"] in rows


def test_beside_the_peer_each_figure_stands_beside_its_own() -> None:
    mine, its = measured(), measured()
    its.seconds = [1.0, 4.0]
    its.cpu_seconds = [{"peer": 0.05, "kube-apiserver": 0.2, "etcd": 0.02}] * 2
    its.requests = [Counter({("peer", "create", "pods"): 30})] * 2
    result = Result(
        Sizes(10, 2, 0, peer=Path("peer")),
        0.0,
        loads=[mine],
        peer=[its],
        pod_to_status=[0.01],
        peer_creation_to_running=[0.02],
    )
    rows = [[cell.strip() for cell in text.strip("|").split("|")] for text in table.render(result)]
    want = ["ten", "4.0", "3.3", "**0.75** (0.50, 1.00)", "20.0", "30.0", "2.0", "0.0", "5.0", "10.0", "2.00"]
    assert [*want, "3.00", "3.10", "2.50"] in rows
    assert ["the same, the peer", "20", "20"] in rows


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


class Api:
    """Whose watch ends after each event, as that of a kind whose CRD has just been made."""

    def __init__(self, *phases: str) -> None:
        self.left = [job_in(phase, version) for version, phase in enumerate(phases, start=6)]
        self.asked: list[str] = []

    def connection(self) -> Any:
        return self

    def get(self, path: str) -> Any:
        return {"metadata": {"resourceVersion": "5"}}

    def watch(self, path: str, version: str) -> Iterator[Any]:
        self.asked.append(version)
        if self.left:
            yield {"type": "MODIFIED", "object": self.left.pop(0)}
        else:
            threading.Event().wait()

    def close(self) -> None:
        pass


def job_in(phase: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": "a", "resourceVersion": str(version)}, "status": {"phase": phase}}


def test_a_watch_that_the_api_server_ends_goes_on_where_it_was() -> None:
    api = Api("Pending", "Running")
    watch = loads.PhaseWatch(cast(ApiServer, api))
    watch.wait(["a"], "Running")
    watch.close()
    assert api.asked[:2] == ["5", "6"]


@pytest.mark.parametrize("replicas", [1, 4])
def test_the_peer_has_as_many_pods_of_the_same_resources(replicas: int) -> None:
    specs = PYTORCHJOBS.job("a", replicas, run_seconds=1.0)["spec"]["pytorchReplicaSpecs"]
    ours = loads.job("a", replicas, run_seconds=1.0)["spec"]["replicaSpecs"]["trainer"]["template"]
    assert sum(spec["replicas"] for spec in specs.values()) == replicas
    for spec in specs.values():
        assert spec["template"]["metadata"] == ours["metadata"]
        mine, its = ours["spec"]["containers"][0], spec["template"]["spec"]["containers"][0]
        assert {**mine, "name": "", "ports": []} == {**its, "name": "", "ports": []}


@pytest.mark.parametrize(("until", "replicas", "want"), [("Running", 1, 8), ("Running", 4, 14), ("Succeed", 4, 22)])
def test_the_floor_counts_creates_and_where_they_go_deletes_of_pods_and_services(
    until: str, replicas: int, want: int
) -> None:
    assert table._most(measured(until, replicas)) == want


PERCENTILES = {
    "the middle of one": ([3.0], 50, 3000.0),
    "the middle of an even number is the lower": ([1.0, 2.0], 50, 1000.0),
    "the 99th of a hundred is the last but one": ([float(n) for n in range(1, 101)], 99, 99_000.0),
    "the 99th of few is the last": ([1.0, 5.0, 2.0], 99, 5000.0),
    "order does not matter": ([3.0, 1.0, 2.0], 50, 2000.0),
}


@pytest.mark.parametrize("sentence", PERCENTILES)
def test_percentile(sentence: str) -> None:
    values, percent, want = PERCENTILES[sentence]
    assert table.percentile_ms(values, percent) == want


def test_the_jobs_of_the_loads_are_accepted_and_their_pods_have_a_node() -> None:
    raw = loads.job("a", 4, run_seconds=1.0)
    raw["metadata"] |= {
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    job = parse(AITRAININGJOBS, raw)
    assert isinstance(job, TrainingJob)
    assert [(role.name, role.replicas) for role in job.roles] == [("trainer", 4)]
    template = raw["spec"]["replicaSpecs"]["trainer"]["template"]
    assert template["spec"]["nodeName"]
    assert template["metadata"]["annotations"] == {player.RUN_SECONDS: "1.0"}


@pytest.mark.parametrize(
    ("sentence", "status", "deletes"),
    [
        ("one that runs waits for its kubelet to let it go", player.running(POD, "10.0.0.1"), 1),
        ("one that has ended is removed by the API server itself", player.ended(POD, "2026-01-01T00:00:00Z"), 0),
        ("one that was never started waits, too", {}, 1),
    ],
)
def test_the_player_lets_a_pod_go_that_is_being_deleted(sentence: str, status: dict[str, Any], deletes: int) -> None:
    meta = {"name": "a", "namespace": "default", "uid": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    plays = player.Player(Server("127.0.0.1", 1), "player")
    plays._see("MODIFIED", {**POD, "metadata": meta, "status": status})
    assert plays._work.qsize() == deletes, sentence


def test_names_are_never_given_twice() -> None:
    given = [*loads.names(3), *loads.names(3)]
    assert len(set(given)) == 6


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
