"""What is left behind by a job that no longer exists, told from everything else. The collector around it is played in
`tests/lives/test_orphans`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.unit.tjworker.reconcile.passes import NOW
from tjworker.api.model import CleanPodPolicy
from tjworker.api.timefmt import to_rfc3339
from tjworker.base import JobName, Uid
from tjworker.reconcile.orphans import MIN_AGE_SECONDS, Candidate, Keeper, KeeperName, candidate, find_orphans
from tjworker.reconcile.plan import Delete

JOB = JobName("aitrainingjobs", "default", "digits")
KINDS = {
    ("elasticdeeplearning.ai", "AITrainingJob"): "aitrainingjobs",
    ("paddlepaddle.org", "TrainingJob"): "trainingjobs",
}
NODES = frozenset({"node-a"})


def ago(seconds: float) -> str:
    return to_rfc3339(NOW - seconds)


LEFT = Candidate("pods", "default", "digits-trainer-0", "uid-1", ago(3600), JOB, "uid-of-the-old-one")
GOING = replace(LEFT, deleted_at=ago(61), node="node-b")
KEEPER = KeeperName("jobs", "default", "digits-trainer", "uid-of-the-keeper")
KEPT = replace(LEFT, keeper=KEEPER)
OWN = "uid-of-the-old-one"
LATE = replace(LEFT, phase="Running")
ENDED = f"its job {JOB.key} has ended, and cleanPodPolicy"
GONE = f"its job {JOB.key} with UID uid-of-the-old-one does not exist"
KEEPERLESS = "its Job digits-trainer with UID uid-of-the-keeper does not exist"


@dataclass(frozen=True, slots=True)
class Case:
    candidate: Candidate
    want: Delete | None = None
    owner: str | None = None
    known: bool = True
    nodes: frozenset[str] | None = NODES
    keeper: Keeper | None = None
    ended: CleanPodPolicy | None = None
    """Its job has ended, with that cleanPodPolicy."""


CASES = {
    "its job does not exist": Case(LEFT, Delete("pods", "digits-trainer-0", "uid-1", why=GONE)),
    "another job has its job's name": Case(
        LEFT, Delete("pods", "digits-trainer-0", "uid-1", why=GONE), owner="uid-of-another"
    ),
    "its job exists": Case(LEFT, owner="uid-of-the-old-one"),
    "whether its job exists is not known": Case(LEFT, known=False),
    "it has no controller": Case(replace(LEFT, owner=None)),
    "it is as old as it must be": Case(
        replace(LEFT, created_at=ago(MIN_AGE_SECONDS)), Delete("pods", "digits-trainer-0", "uid-1", why=GONE)
    ),
    "it is a second too young": Case(replace(LEFT, created_at=ago(MIN_AGE_SECONDS - 1))),
    "nobody knows how old it is": Case(replace(LEFT, created_at="")),
    "a service": Case(replace(LEFT, resource="services"), Delete("services", "digits-trainer-0", "uid-1", why=GONE)),
    "it hangs in deletion on a node that is gone": Case(
        GOING,
        Delete(
            "pods",
            "digits-trainer-0",
            "uid-1",
            grace_seconds=0,
            why=f"in deletion since {ago(61)} on node node-b, which is gone",
        ),
    ),
    "it hangs there though its job exists": Case(
        GOING,
        Delete(
            "pods",
            "digits-trainer-0",
            "uid-1",
            grace_seconds=0,
            why=f"in deletion since {ago(61)} on node node-b, which is gone",
        ),
        owner="uid-of-the-old-one",
    ),
    "its grace is only just over": Case(replace(GOING, deleted_at=ago(59))),
    "its grace has been over for exactly a minute": Case(
        replace(GOING, deleted_at=ago(60)),
        Delete(
            "pods",
            "digits-trainer-0",
            "uid-1",
            grace_seconds=0,
            why=f"in deletion since {ago(60)} on node node-b, which is gone",
        ),
    ),
    "it is in deletion on a node that is there": Case(replace(GOING, node="node-a")),
    "it is in deletion and never had a node": Case(replace(GOING, node="")),
    "nodes may not be read": Case(GOING, nodes=None),
    "its keeper and its job are gone": Case(KEPT, Delete("pods", "digits-trainer-0", "uid-1", why=GONE), keeper="gone"),
    "its keeper is gone, its job exists": Case(
        KEPT, Delete("pods", "digits-trainer-0", "uid-1", why=KEEPERLESS), owner="uid-of-the-old-one", keeper="gone"
    ),
    "its keeper is gone, and it goes already": Case(
        replace(KEPT, deleted_at=ago(5), node="node-a"), owner="uid-of-the-old-one", keeper="gone"
    ),
    "its keeper is gone, and it is a second too young": Case(
        replace(KEPT, created_at=ago(MIN_AGE_SECONDS - 1)), owner="uid-of-the-old-one", keeper="gone"
    ),
    "its keeper is gone, whether its job exists is not known": Case(KEPT, known=False, keeper="gone"),
    "its keeper is there, which is collected before it": Case(KEPT, keeper="ours"),
    "its keeper is somebody else's": Case(KEPT, keeper="foreign"),
    "nobody has asked what its keeper is": Case(KEPT),
    "its keeper is there, and it hangs in deletion on a node that is gone": Case(
        replace(GOING, keeper=KEEPER),
        Delete(
            "pods",
            "digits-trainer-0",
            "uid-1",
            grace_seconds=0,
            why=f"in deletion since {ago(61)} on node node-b, which is gone",
        ),
        keeper="ours",
    ),
    "nobody has asked what its keeper is, and it hangs there": Case(replace(GOING, keeper=KEEPER)),
    "its keeper is somebody else's, and it hangs there": Case(replace(GOING, keeper=KEEPER), keeper="foreign"),
    "its job has ended, and all pods went": Case(
        LATE, Delete("pods", "digits-trainer-0", "uid-1", why=f"{ENDED} All would have taken it"), OWN, ended="All"
    ),
    "its job has ended, and services went with their pods": Case(
        replace(LATE, resource="services"),
        Delete("services", "digits-trainer-0", "uid-1", why=f"{ENDED} All would have taken it"),
        OWN,
        ended="All",
    ),
    "its job has ended, those that ran went, and it runs": Case(
        LATE,
        Delete("pods", "digits-trainer-0", "uid-1", why=f"{ENDED} Running would have taken it"),
        OWN,
        ended="Running",
    ),
    "its job has ended, those that ran went, and it has ended": Case(
        replace(LATE, phase="Failed"), owner=OWN, ended="Running"
    ),
    "its job has ended, and a service stays with its pod": Case(
        replace(LATE, resource="services"), owner=OWN, ended="Running"
    ),
    "its job has ended and kept all": Case(LATE, owner=OWN, ended="None"),
    "its job has ended, and its batch Job takes its pods itself": Case(
        replace(LATE, keeper=KEEPER), owner=OWN, keeper="ours", ended="All"
    ),
    "its job has ended, and its batch Job stays": Case(replace(LATE, resource="jobs"), owner=OWN, ended="All"),
    "its job has ended a moment ago": Case(replace(LATE, created_at=ago(59)), owner=OWN, ended="All"),
    "a service in deletion goes by itself": Case(replace(LEFT, resource="services", deleted_at=ago(900))),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_orphan(case: Case) -> None:
    owners = {JOB: Uid(case.owner) if case.owner else None} if case.known else {}
    keepers = {KEEPER: case.keeper} if case.keeper else None
    ended = {JOB: case.ended} if case.ended else {}
    found = find_orphans([case.candidate], owners, case.nodes, NOW, keepers, ended)
    assert [o.delete for o in found] == ([case.want] if case.want else [])


def test_one_that_stays_hides_none_that_goes_and_they_come_in_a_fixed_order() -> None:
    seen = [
        replace(LEFT, name="young", created_at=ago(1)),
        replace(LEFT, name="b"),
        replace(LEFT, name="stays", owner=None),
        replace(LEFT, name="a"),
        replace(LEFT, resource="services", name="a"),
        replace(LEFT, namespace="another", name="z"),
    ]
    found = find_orphans(seen, {JOB: None}, NODES, NOW)
    assert [(o.namespace, o.delete.resource, o.delete.name) for o in found] == [
        ("another", "pods", "z"),
        ("default", "pods", "a"),
        ("default", "pods", "b"),
        ("default", "services", "a"),
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
        "uid": "uid-of-the-keeper",
        "controller": True,
    }
    return pod(labels={k: v for k, v in told.items() if v is not None}, **{"ownerReferences": [reference], **meta})


WHOLE = Candidate("pods", "default", "p", "uid-1", "2026-01-01T00:00:00Z", JOB, "u", node="node-a", phase="Pending")
KEPT_WHOLE = replace(WHOLE, owner=JobName("trainingjobs", "default", "digits"), keeper=KEEPER)
STRANGER = replace(WHOLE, owner=None, owner_uid="")
READ: dict[str, tuple[str, dict[str, Any], Candidate | None]] = {
    "a pod of ours": ("pods", pod(), WHOLE),
    "a pod that no node has been found for": ("pods", pod(node=""), replace(WHOLE, node="")),
    "a service has no node": ("services", pod(), replace(WHOLE, resource="services", node="", phase="")),
    "in deletion": (
        "pods",
        pod(deletionTimestamp="2026-01-02T00:00:00Z"),
        replace(WHOLE, deleted_at="2026-01-02T00:00:00Z"),
    ),
    "without the label of a job's UID": ("pods", pod(labels={"job-name": "digits"}), None),
    "without labels": ("pods", pod(labels=None), None),
    "without an owner": ("pods", pod(ownerReferences=None), replace(WHOLE, owner=None, owner_uid="")),
    "without a time": ("pods", pod(creationTimestamp=None), replace(WHOLE, created_at="")),
    "the owner does not control it": (
        "pods",
        pod(
            ownerReferences=[
                {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "digits", "uid": "u"}
            ]
        ),
        replace(WHOLE, owner=None, owner_uid=""),
    ),
    "the owner is of another group": (
        "pods",
        pod(
            ownerReferences=[
                {
                    "apiVersion": "example.com/v1",
                    "kind": "AITrainingJob",
                    "name": "digits",
                    "uid": "u",
                    "controller": True,
                }
            ]
        ),
        replace(WHOLE, owner=None, owner_uid=""),
    ),
    "kept by a batch Job of a TrainingJob": ("pods", kept(), KEPT_WHOLE),
    "kept by a ReplicaSet": (
        "pods",
        kept("ReplicaSet", "apps/v1"),
        replace(KEPT_WHOLE, keeper=replace(KEEPER, resource="replicasets")),
    ),
    "kept by what nobody of ours makes": ("pods", kept("StatefulSet", "apps/v1"), STRANGER),
    "kept by a ReplicaSet of another group": ("pods", kept("ReplicaSet", "example.com/v1"), STRANGER),
    "let go of, with every label of ours": ("pods", kept(ownerReferences=None), STRANGER),
    "only a pod has a keeper": ("services", kept(), replace(STRANGER, resource="services", node="", phase="")),
    "kept, and its labels name no kind of ours": ("pods", kept(group="example.com"), replace(STRANGER, keeper=KEEPER)),
    "kept, and without the label of a kind": ("pods", kept(group=None), replace(STRANGER, keeper=KEEPER)),
    "kept, and its labels name no job": ("pods", kept(name=None), replace(STRANGER, keeper=KEEPER)),
}


@pytest.mark.parametrize(("resource", "obj", "want"), READ.values(), ids=READ.keys())
def test_what_is_read_of_an_object(resource: str, obj: dict[str, Any], want: Candidate | None) -> None:
    assert candidate(resource, obj, KINDS) == want
