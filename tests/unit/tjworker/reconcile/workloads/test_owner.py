"""ReplicaSets and batch Jobs as owners of the pods: what is created, patched and numbered."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.unit.tjworker.reconcile.managed import (
    body,
    made_pod,
    observed_of,
    owner,
    patches,
    plain,
    running,
    tolerant,
    trainers,
)
from tests.unit.tjworker.reconcile.passes import NOW, after, created, decide, deleted, status_of
from tjworker.api.observed import PodRecord
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.api.status import Attempts, JobStatus, RestartCounts, RoleAttempts
from tjworker.reconcile.plan import Delete


def test_the_owners_are_made_and_never_a_pod() -> None:
    job = plain(2, pservers=2)
    plan = decide(job)
    assert (created(plan, REPLICASETS), created(plan, BATCH_JOBS), created(plan)) == (
        ["digits-pserver"],
        ["digits-trainer"],
        [],
    )
    roles = (
        ("digits-pserver", "paddle-job-pserver", "Always", ("apps/v1", "ReplicaSet")),
        ("digits-trainer", "paddle-job", "Never", ("batch/v1", "Job")),
    )
    for name, label, restart_policy, kind in roles:
        made = body(plan, name)
        assert (made["apiVersion"], made["kind"], made["metadata"]["namespace"]) == (*kind, "default")
        pod = made["spec"]["template"]
        for labels in (made["metadata"]["labels"], pod["metadata"]["labels"]):
            assert labels[label] == "digits"
            assert labels["elasticdeeplearning.ai/job-uid"] == job.uid
            assert "replica-index" not in labels
        assert made["metadata"]["ownerReferences"][0]["uid"] == job.uid
        assert made["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["restartPolicy"] == restart_policy
        env = {e["name"]: e for e in pod["spec"]["containers"][0]["env"]}
        assert env["TRAININGJOB_NAME"]["value"] == "digits"
        assert env["TRAININGJOB_REPLICA_INDEX"]["valueFrom"] == {
            "fieldRef": {"fieldPath": "metadata.labels['replica-index']"}
        }
        assert env["TRAINER_INSTANCES_NUM"]["value"] == "2"


def test_scaling_patches_the_count_with_its_proof_and_touches_no_pod() -> None:
    job = running(tolerant(2), *trainers())
    more = replace(job, roles=(replace(job.roles[0], replicas=5),))
    seen = replace(observed_of(job, trainers()))
    plan = decide(more, seen)
    assert patches(plan, BATCH_JOBS) == {
        "digits-trainer": {
            "metadata": {
                "uid": "uid-of-digits-trainer",
                "resourceVersion": "400",
                "labels": {"elasticdeeplearning.ai/counted-since": str(int(NOW))},
            },
            "spec": {"parallelism": 5},
        }
    }
    assert (patches(plan), deleted(plan)) == ({}, [])
    assert status_of(plan).phase == "Scaling"


@dataclass(frozen=True)
class AfterSuccess:
    replicas: int
    completed: str
    """Of these trainers the status says that they have succeeded."""
    desired: int
    """What the batch Job keeps."""
    want: int | None
    """What it is told to keep; None: nothing."""
    succeeded: int = 0
    """What its status tells."""
    pods: tuple[PodRecord, ...] = (made_pod("t0", 0),)


AFTER_SUCCESS: dict[str, AfterSuccess] = {
    "it saw the success: it keeps its count": AfterSuccess(2, "1", 2, None, succeeded=1),
    "its status does not tell yet, and the pod is there": AfterSuccess(
        2, "1", 2, None, pods=(made_pod("t0", 0), made_pod("t1", 1, state="succeeded"))
    ),
    "it was deleted, and made again for the other one": AfterSuccess(2, "1", 1, None),
    "made again, and then scaled up": AfterSuccess(3, "1", 1, 2),
    "made again, and another one has succeeded under it": AfterSuccess(3, "1-2", 2, None, succeeded=1),
}


@pytest.mark.parametrize("case", AFTER_SUCCESS.values(), ids=AFTER_SUCCESS.keys())
def test_the_count_of_a_batch_job_after_a_success(case: AfterSuccess) -> None:
    status = JobStatus(phase="Running", attempts=Attempts(roles={"trainer": RoleAttempts(completed=case.completed)}))
    job = tolerant(case.replicas, status)
    plan = decide(job, observed_of(job, case.pods, desired=case.desired, succeeded=case.succeeded))
    told = patches(plan, BATCH_JOBS).get("digits-trainer")
    assert (told and told["spec"]["parallelism"]) == case.want


@dataclass(frozen=True)
class Complete:
    """A batch Job of two trainers is complete."""

    succeeded: int
    """What it tells."""
    went: dict[str, int]
    """Trainers that were asked to go, or were taken, by cause."""
    pods: tuple[PodRecord, ...] = ()
    completed: str = ""
    fixed: bool = False
    """The number of its trainers (edlPolicy Never), so that it has completions."""
    want_again: bool = False
    """It is made again for the trainers that have not succeeded; else that is the job's end."""


STOPPED = made_pod("t0", 0, state="stopped")
COMPLETE: dict[str, Complete] = {
    "a trainer has said so": Complete(1, {}, (made_pod("t0", 0, state="succeeded"),)),
    "one has, and one was deleted before": Complete(1, {"user": 1}, (made_pod("t1", 1, state="succeeded"), STOPPED)),
    "nobody has been seen to, and none was asked to go": Complete(1, {}),
    "the only success was of one that was deleted": Complete(1, {"user": 1}, (STOPPED,), want_again=True),
    "both were preempted, and left with 0": Complete(2, {"preemption": 2}, want_again=True),
    "a failure explains no success": Complete(1, {"application": 3}),
    "each has its share, and both have succeeded": Complete(2, {"user": 1}, completed="0-1", fixed=True),
    "each has its share, and one was deleted": Complete(2, {"node": 1}, completed="1", fixed=True, want_again=True),
    "each has its share, and a success was not seen": Complete(2, {}, completed="1", fixed=True),
}


@pytest.mark.parametrize("case", COMPLETE.values(), ids=COMPLETE.keys())
def test_a_batch_job_that_is_complete_by_pods_that_were_asked_to_go_is_made_again(case: Complete) -> None:
    status = JobStatus(
        phase="Running",
        attempts=Attempts(roles={"trainer": RoleAttempts(completed=case.completed)}),
        restart_counts={"trainer": RestartCounts(**case.went)},
    )
    job = plain(2, status=status) if case.fixed else tolerant(2, status)
    seen = observed_of(job, case.pods, condition="Complete", succeeded=case.succeeded, desired=2)
    plan = decide(job, seen)
    gone = [w for w in plan.writes if isinstance(w, Delete) and w.resource == BATCH_JOBS]
    assert [w.name for w in gone] == ["digits-trainer"] * case.want_again
    for delete in gone:
        proof = (delete.uid, delete.rv, delete.owner_uid)
        assert proof == ("uid-of-digits-trainer", 400, job.uid), "let go since, it would be a stranger's"
    assert (status_of(plan).ending is None) == case.want_again
    if case.want_again:
        again = body(decide(after(job, plan)), "digits-trainer")["spec"]
        assert again["parallelism"] == (1 if case.fixed else 2), "not for those that have succeeded"


def test_a_batch_job_that_has_seen_a_success_takes_no_pod_away_so_the_operator_does() -> None:
    status = JobStatus(phase="Running", attempts=Attempts(roles={"trainer": RoleAttempts(completed="0")}))
    job, pods = tolerant(2, status), [made_pod(f"t{i}", i) for i in (1, 2)]
    assert deleted(decide(job, observed_of(job, pods, desired=2, succeeded=1))) == ["t2"]
    assert deleted(decide(job, observed_of(job, pods, desired=2))) == [], "its controller sees to it"


def test_a_pod_that_runs_gets_the_ordinal_of_its_slot_with_its_proof() -> None:
    job = tolerant(2)
    plan = decide(job, observed_of(job, [made_pod("a", 1), made_pod("b")]))
    assert patches(plan) == {
        "b": {
            "metadata": {
                "uid": "uid-of-b",
                "resourceVersion": "200",
                "labels": {"replica-index": "0", "restart-attempt": "0", "default/digits-trainer-idx": "0"},
            }
        }
    }


def test_one_whose_attempt_is_over_is_deleted_and_gets_no_ordinal() -> None:
    """What is raised in the status is carried out by the next pass, if this one was cut off."""
    job = tolerant(1, JobStatus(attempts=Attempts(roles={"trainer": RoleAttempts(pods={"0": 1})})))
    plan = decide(job, observed_of(job, [made_pod("a", 0)]))
    assert [(w.name, w.uid, w.why) for w in plan.writes if isinstance(w, Delete)] == [
        ("a", "uid-of-a", "attempt 1 replaces it")
    ]
    assert patches(plan) == {}
    assert deleted(decide(job, observed_of(job, [made_pod("a", 0, state="deleting")]))) == []


def test_one_that_ended_before_it_had_an_ordinal_gets_it_and_is_judged_by_the_next_pass() -> None:
    job = tolerant(1)
    plan = decide(job, observed_of(job, [made_pod("a", state="failed")]))
    assert list(patches(plan)) == ["a"]
    assert plan.requeue_after_seconds == 0
    assert status_of(plan).ending is None
    assert status_of(decide(after(job, plan), observed_of(job, [made_pod("a", 0, state="failed")]))).ending is not None


def test_a_job_as_it_should_be_is_written_no_more() -> None:
    """The seed's operator writes its status every second."""
    job = running(tolerant(2), *trainers())
    assert decide(job, observed_of(job, trainers()), now=NOW + 1000).empty


def test_an_owner_of_an_earlier_job_of_that_name_is_waited_for() -> None:
    job = tolerant(2)
    seen = replace(observed_of(job, []), jobs=(replace(owner(job, "trainer"), owner_uid="an-earlier-uid"),))
    assert decide(job, seen).writes == ()


def test_an_owner_whose_role_is_not_in_the_spec_is_deleted() -> None:
    job = running(tolerant(2), *trainers())
    seen = observed_of(job, trainers())
    seen = replace(seen, replicasets=(owner(job, "pserver"),))
    assert deleted(decide(job, seen), REPLICASETS) == ["digits-pserver"]
