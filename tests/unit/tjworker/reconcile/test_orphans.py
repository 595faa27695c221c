"""What is left behind by a job that no longer exists, told from everything else. The collector around it is played in
`tests/scenarios/test_orphans`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.unit.tjworker.reconcile.passes import NOW
from tjworker.api.model import CleanPodPolicy
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, POD_GROUPS, PODS, REPLICASETS, SERVICES
from tjworker.api.timefmt import to_rfc3339
from tjworker.base import GroupResource, JobName, Uid
from tjworker.reconcile.orphans import (
    MIN_AGE_SECONDS,
    Candidate,
    OrphanScan,
    WorkloadName,
    WorkloadOf,
    candidate,
    find_orphans,
)
from tjworker.reconcile.plan import Delete
from tjworker.reconcile.policies.clean import Cleaning

JOB = JobName(AITRAININGJOBS, "default", "digits")
NODES = frozenset({"node-a"})


def ago(seconds: float) -> int:
    return int(NOW - seconds)


LEFT = Candidate(PODS, "default", "digits-trainer-0", "uid-1", ago(3600), JOB, "uid-of-the-old-one")
EDL = JobName(TRAININGJOBS, "default", "digits")
EARLIER = Candidate(REPLICASETS, "default", "digits-pserver", "uid-1", ago(3600), EDL, earlier=True)
GOING = replace(LEFT, deleted_at=ago(MIN_AGE_SECONDS), node="node-b")
WORKLOAD = WorkloadName(BATCH_JOBS, "default", "digits-trainer", "uid-of-the-workload")
KEPT = replace(LEFT, workload=WORKLOAD)
OWN = "uid-of-the-old-one"
LATE = replace(LEFT, phase="Running")
BOARD = replace(LATE, of_tensorboard=True)
ENDED = f"its job {JOB.key} has ended, and cleanPodPolicy"
GONE = f"its job {JOB.key} with UID uid-of-the-old-one does not exist"
NO_WORKLOAD = "its Job digits-trainer with UID uid-of-the-workload does not exist"


@dataclass(frozen=True, slots=True)
class Case:
    candidate: Candidate
    why: str = ""
    """It is deleted, for this reason. '': it stays."""
    owner: str | None = None
    known: bool = True
    nodes: frozenset[str] | None = NODES
    workload: WorkloadOf | None = None
    ended: CleanPodPolicy | None = None
    """Its job has ended, with that cleanPodPolicy."""
    keeps: bool = False
    """That end took nothing at all."""
    board_until: float = 0.0
    """Until then the job's TensorBoard may stay."""


CASES = {
    "its job does not exist": Case(LEFT, GONE),
    "another job has its job's name": Case(LEFT, GONE, owner="uid-of-another"),
    "its job exists": Case(LEFT, owner=OWN),
    "whether its job exists is not known": Case(LEFT, known=False),
    "of an earlier EDL operator, and its job does not exist": Case(
        EARLIER, f"its job {EDL.key} does not exist, and nothing controls it"
    ),
    "of an earlier EDL operator, and a job has that name": Case(EARLIER, owner="uid-of-another"),
    "of an earlier EDL operator, and its job is not known": Case(EARLIER, known=False),
    "of an earlier EDL operator, and it is on its way": Case(replace(EARLIER, deleted_at=ago(5))),
    "of an earlier EDL operator, and young": Case(replace(EARLIER, created_at=ago(MIN_AGE_SECONDS - 1))),
    "it has no controller": Case(replace(LEFT, owner=None)),
    "it is a second too young": Case(replace(LEFT, created_at=ago(MIN_AGE_SECONDS - 1))),
    "its age is unknown": Case(replace(LEFT, created_at=None)),
    "it hangs in deletion on a node that is gone": Case(
        GOING, f"in deletion since {to_rfc3339(ago(MIN_AGE_SECONDS))} on node node-b, which is gone"
    ),
    "its grace is only just over": Case(replace(GOING, deleted_at=ago(MIN_AGE_SECONDS - 1))),
    "it is in deletion on a node that is there": Case(replace(GOING, node="node-a")),
    "it is in deletion and never had a node": Case(replace(GOING, node="")),
    "nodes may not be read": Case(GOING, nodes=None),
    "its workload and its job are gone": Case(KEPT, GONE, workload="gone"),
    "its workload is gone, its job exists": Case(KEPT, NO_WORKLOAD, owner=OWN, workload="gone"),
    "its workload is gone, and it goes already": Case(
        replace(KEPT, deleted_at=ago(5), node="node-a"), owner=OWN, workload="gone"
    ),
    "its workload is gone, whether its job exists is not known": Case(KEPT, known=False, workload="gone"),
    "its workload is there, which is collected before it": Case(KEPT, workload="ours"),
    "its workload is another's": Case(KEPT, workload="foreign"),
    "its workload is another's, and it hangs on a node that is gone": Case(
        replace(GOING, workload=WORKLOAD), workload="foreign"
    ),
    "its workload has not been looked up, and it hangs there": Case(replace(GOING, workload=WORKLOAD)),
    "it is as old as it must be": Case(replace(LEFT, created_at=ago(MIN_AGE_SECONDS)), GONE),
    "its workload has not been looked up": Case(KEPT),
    "its job has ended, and all pods went": Case(LATE, f"{ENDED} All would have taken it", OWN, ended="All"),
    "its job has ended, and services went with their pods": Case(
        replace(LATE, resource=SERVICES), f"{ENDED} All would have taken it", OWN, ended="All"
    ),
    "its job has ended, those that ran went, and it runs": Case(
        LATE, f"{ENDED} Running would have taken it", OWN, ended="Running"
    ),
    "its job has ended, those that ran went, and it has ended": Case(
        replace(LATE, phase="Failed"), owner=OWN, ended="Running"
    ),
    "its job has ended, and a service stays with its pod": Case(
        replace(LATE, resource=SERVICES), owner=OWN, ended="Running"
    ),
    "its job has ended and kept all": Case(LATE, owner=OWN, ended="None"),
    "its job has ended, and its batch Job takes its pods itself": Case(
        replace(LATE, workload=WORKLOAD), owner=OWN, workload="ours", ended="All"
    ),
    "its job has ended, and its batch Job stays": Case(replace(LATE, resource=BATCH_JOBS), owner=OWN, ended="All"),
    "its job has ended a moment ago": Case(replace(LATE, created_at=ago(59)), owner=OWN, ended="All"),
    "a PodGroup whose job lives": Case(replace(LATE, resource=POD_GROUPS), owner=OWN),
    **{
        f"its job has ended, and its PodGroup in {resource} goes, cleanPodPolicy {policy}": Case(
            replace(LATE, resource=resource), f"{ENDED} {policy} would have taken it", OWN, ended=policy
        )
        for resource, policy in zip(sorted(ALL_POD_GROUPS), get_args(CleanPodPolicy), strict=True)
    },
    "but not where its end took nothing": Case(
        replace(LATE, resource=POD_GROUPS, owner=EDL), owner=OWN, ended="None", keeps=True
    ),
    "the time of its TensorBoard was over a while ago": Case(
        BOARD,
        f"its job {JOB.key} has ended, and the time of its TensorBoard is over",
        OWN,
        ended="None",
        board_until=NOW - MIN_AGE_SECONDS,
    ),
    "the time of its TensorBoard is only just over": Case(
        BOARD, owner=OWN, ended="All", board_until=NOW - MIN_AGE_SECONDS + 1
    ),
    "a service in deletion goes by itself": Case(replace(LEFT, resource=SERVICES, deleted_at=ago(900))),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_orphan(case: Case) -> None:
    job = case.candidate.owner or JOB
    owners = {job: Uid(case.owner) if case.owner else None} if case.known else {}
    workloads = {WORKLOAD: case.workload} if case.workload else {}
    ended = {job: Cleaning(case.ended)} if case.ended else {}
    keeping = {job} if case.keeps else set()
    boards = {job: case.board_until}
    scan = OrphanScan(owners, case.nodes, workloads, ended, boards=boards, keeping=keeping)
    found = find_orphans([case.candidate], scan, NOW)
    it = case.candidate
    grace = 0 if it is GOING else None  # no kubelet is left that could count one
    delete = Delete(it.resource, it.name, it.uid, grace_seconds=grace, why=case.why)
    assert [o.delete for o in found] == ([delete] if case.why else [])


def test_one_that_stays_hides_none_that_goes_and_they_come_in_a_fixed_order() -> None:
    seen = [
        replace(LEFT, name="young", created_at=ago(1)),
        replace(LEFT, name="b"),
        replace(LEFT, name="stays", owner=None),
        replace(LEFT, name="a"),
        replace(LEFT, resource=SERVICES, name="a"),
        replace(LEFT, namespace="another", name="z"),
    ]
    found = find_orphans(seen, OrphanScan({JOB: None}, NODES), NOW)
    assert [(o.namespace, o.delete.resource, o.delete.name) for o in found] == [
        ("another", PODS, "z"),
        ("default", PODS, "a"),
        ("default", PODS, "b"),
        ("default", SERVICES, "a"),
    ]


def pod(node: str = "node-a", **meta: Any) -> dict[str, Any]:
    reference = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "name": "digits",
        "uid": "u",
        "controller": True,
    }
    whole = {
        "name": "p",
        "namespace": "default",
        "uid": "uid-1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"elasticdeeplearning.ai/job-uid": "u"},
        "ownerReferences": [reference],
        **meta,
    }
    return {"metadata": {k: v for k, v in whole.items() if v is not None}, "spec": {"nodeName": node} if node else {}}


def kept(
    kind: str = "Job",
    version: str = "batch/v1",
    *,
    group: str | None = "paddlepaddle.org",
    name: str | None = "digits",
    **meta: Any,
) -> dict[str, Any]:
    """A pod that a controller of Kubernetes has made from a template of ours."""
    told = {"elasticdeeplearning.ai/job-uid": "u", "group-name": group, "job-name": name}
    reference = {
        "apiVersion": version,
        "kind": kind,
        "name": "digits-trainer",
        "uid": "uid-of-the-workload",
        "controller": True,
    }
    return pod(labels={k: v for k, v in told.items() if v is not None}, **{"ownerReferences": [reference], **meta})


WHOLE = Candidate(PODS, "default", "p", "uid-1", 1767225600, JOB, "u", node="node-a", phase="Pending")
KEPT_WHOLE = replace(WHOLE, owner=JobName(TRAININGJOBS, "default", "digits"), workload=WORKLOAD)
STRANGER = replace(WHOLE, owner=None, owner_uid="")
READ: dict[str, tuple[str, dict[str, Any], Candidate | None]] = {
    "a pod of ours": (PODS, pod(), WHOLE),
    "a service has no node": (SERVICES, pod(), replace(WHOLE, resource=SERVICES, node="", phase="")),
    "without the label of a job's UID": (PODS, pod(labels={"job-name": "digits"}), None),
    "of an earlier EDL operator": (
        PODS,
        pod(labels={"paddle-job": "digits"}, ownerReferences=None),
        replace(WHOLE, owner=EDL, owner_uid="", node="", phase="", earlier=True),
    ),
    "of an earlier EDL operator, kept by a controller": (PODS, pod(labels={"paddle-job": "digits"}), None),
    "with labels of two of its jobs": (
        PODS,
        pod(labels={"paddle-job": "digits", "paddle-job-master": "bert"}, ownerReferences=None),
        None,
    ),
    "without an owner": (PODS, pod(ownerReferences=None), replace(WHOLE, owner=None, owner_uid="")),
    "without a time": (PODS, pod(creationTimestamp=None), replace(WHOLE, created_at=None)),
    "the owner does not control it": (
        PODS,
        pod(
            ownerReferences=[
                {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "digits", "uid": "u"}
            ]
        ),
        replace(WHOLE, owner=None, owner_uid=""),
    ),
    "kept by a batch Job of a TrainingJob": (PODS, kept(), KEPT_WHOLE),
    "kept by a kind that the operator does not create": (PODS, kept("StatefulSet", "apps/v1"), STRANGER),
    "let go of, with every label of ours": (PODS, kept(ownerReferences=None), STRANGER),
    "only a pod has a workload": (SERVICES, kept(), replace(STRANGER, resource=SERVICES, node="", phase="")),
    "kept, and without the label of a kind": (PODS, kept(group=None), replace(STRANGER, workload=WORKLOAD)),
}


@pytest.mark.parametrize(("resource", "obj", "want"), READ.values(), ids=READ.keys())
def test_what_is_read_of_an_object(resource: GroupResource, obj: dict[str, Any], want: Candidate | None) -> None:
    assert candidate(resource, obj) == want
