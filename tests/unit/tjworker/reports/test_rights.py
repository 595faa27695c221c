"""Who may report for a job, and how it runs at the moment of a report, by which its speed is counted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import make_job
from tjworker.api import labels
from tjworker.api.progress import Placement
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.api.status import Attempts, JobStatus, RoleAttempts, ScaleRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import GroupResource
from tjworker.reports.rights import keeper_of, placement, why_not

Json = dict[str, Any]


def pod(role: str = "trainer", node: str = "a", phase: str = "Running", *, going: bool = False) -> Json:
    meta: Json = {"labels": {"replica-name": role}, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {})}
    return {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}


def moved(role: str, time: str) -> ScaleRecord:
    return ScaleRecord(role=role, from_=1, to=2, time=time, cause="room")


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
RUNS: dict[str, tuple[list[Json], tuple[ScaleRecord, ...], Placement]] = {
    "two replicas on two nodes": ([pod(), pod(node="b")], (), Placement(2, 2, settled=True)),
    "one of them is being deleted": ([pod(), pod(going=True)], (), Placement(1, 1, settled=False)),
    "one of them waits": ([pod(), pod(phase="Pending", node="")], (), Placement(1, 1, settled=False)),
    "there are servers beside them": ([pod(), pod(), pod("ps", "c")], (), Placement(2, 1, settled=True)),
    "it was moved, and a role beside it since": (
        [pod(), pod()],
        (moved("ps", LATE), moved("trainer", EARLY)),
        Placement(2, 1, settled=True, moved_at=from_rfc3339(EARLY)),
    ),
}


@pytest.mark.parametrize("sentence", RUNS)
def test_how_the_elastic_role_runs(sentence: str) -> None:
    pods, records, want = RUNS[sentence]
    status = JobStatus(phase="Running", scale_records=records)
    job = make_job("digits").role("trainer", 2, least=1, most=4).role("ps", 1).status(status).build()
    assert placement(job, pods, pods[0]) == want


JOB = make_job("digits").role("trainer", 2).role("ps", 1)
UID = JOB.build().uid


def a_pod(marks: Json | None = None, *, name: str = "digits-trainer-1", phase: str = "Running") -> Json:
    known = {labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: "1", labels.RESTART_ATTEMPT: "0", **(marks or {})}
    meta = {"name": name, "namespace": "default", "uid": "p1", "resourceVersion": "1"}
    return {
        "metadata": {**meta, "labels": {key: value for key, value in known.items() if value is not None}},
        "spec": {"nodeName": "a", "containers": [{"name": "aitj-main"}]},
        "status": {"phase": phase},
    }


def going() -> Json:
    pod = a_pod()
    pod["metadata"]["deletionTimestamp"] = EARLY
    return pod


def at_attempt(number: int) -> JobStatus:
    return JobStatus(phase="Running", attempts=Attempts(roles={"trainer": RoleAttempts(all=number)}))


RUNNING = JobStatus(phase="Running")
RIGHTS: dict[str, tuple[Json, JobStatus, str, str]] = {
    "a running pod": (a_pod(), RUNNING, UID, ""),
    "one with the label of another": (a_pod({labels.JOB_UID: "u"}), RUNNING, UID, "does not belong to"),
    "one of another owner": (a_pod(), RUNNING, "another", "does not belong to AITrainingJob digits"),
    "one of no owner": (a_pod(), RUNNING, "", "does not belong to"),
    "of a job that has ended": (a_pod(), JobStatus(phase="Succeed"), UID, "AITrainingJob digits has ended"),
    "one that failed": (a_pod(phase="Failed"), RUNNING, UID, "has ended: its phase is Failed"),
    "one that is being deleted": (going(), RUNNING, UID, "is being deleted"),
    "one of a role that there is not": (a_pod({labels.REPLICA_NAME: "other"}), RUNNING, UID, "is of no role of"),
    "one without an index": (a_pod({labels.REPLICA_INDEX: None}), RUNNING, UID, ""),
    "the first beyond the number of its replicas": (
        a_pod({labels.REPLICA_INDEX: "2"}, name="digits-trainer-2"),
        RUNNING,
        UID,
        "is no longer wanted: role trainer has 2 replicas",
    ),
    "one of a later attempt, which the status does not show yet": (
        a_pod({labels.RESTART_ATTEMPT: "4"}),
        at_attempt(3),
        UID,
        "",
    ),
    "one of the attempt before": (
        a_pod({labels.RESTART_ATTEMPT: "2"}),
        at_attempt(3),
        UID,
        "is of attempt 2, and the job is at attempt 3",
    ),
    "one with the name of another replica": (
        a_pod(name="digits-trainer-0"),
        RUNNING,
        UID,
        "is none that this job makes",
    ),
}


@pytest.mark.parametrize("sentence", RIGHTS)
def test_a_pod_may_report(sentence: str) -> None:
    pod_, status, owner, words = RIGHTS[sentence]
    found = why_not(JOB.status(status).build(), pod_, owner)
    assert words in found
    assert bool(found) == bool(words)


KEEPERS: dict[str, tuple[dict[str, Any], tuple[GroupResource, str, str] | None]] = {
    "a ReplicaSet": ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}, (REPLICASETS, "n", "u")),
    "a batch Job": ({"apiVersion": "batch/v1", "kind": "Job", "controller": True}, (BATCH_JOBS, "n", "u")),
    "the job itself": ({"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "controller": True}, None),
    "somebody's kind that is called Job": ({"apiVersion": "example.com/v1", "kind": "Job", "controller": True}, None),
    "an owner that does not control it": ({"apiVersion": "batch/v1", "kind": "Job"}, None),
}


@pytest.mark.parametrize("sentence", KEEPERS)
def test_what_keeps_a_pod(sentence: str) -> None:
    owner, want = KEEPERS[sentence]
    assert keeper_of({"metadata": {"ownerReferences": [{**owner, "name": "n", "uid": "u"}]}}) == want
    assert keeper_of({"metadata": {}}) is None


def test_without_an_elastic_role_that_of_the_reporting_pod_counts() -> None:
    pods = [pod("trainer"), pod("trainer"), pod("ps", "c")]
    job = JOB.build()
    assert placement(job, pods, pods[0]) == Placement(2, 1, settled=True)
    assert placement(job, pods, pods[2]) == Placement(1, 1, settled=True)
    assert placement(job, pods, pod("other")) == Placement(0, 0, settled=False)
    two = make_job("digits").role("trainer", 2, least=1, most=4).role("ps", 1, least=1, most=2).build()
    assert placement(two, pods, pods[2]) == Placement(1, 1, settled=True), "nor with two of them"
