"""Finding and scaling jobs of both kinds, through a real API server in process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import JobBuilder, make_job, make_training_job
from tests.support.guests import guest_job
from tests.support.kinds import TRAININGJOBS
from tests.support.trainer import RESOURCE as TRAINJOBS
from tests.support.trainer import RUNTIMES, Json, train_job
from tests.unit.tjworker.cli.conftest import TypedAt
from tjworker.api.status import Ending
from tjworker.base import GroupResource
from tjworker.cli.errors import UserError
from tjworker.cli.jobs import (
    FoundJob,
    Scaling,
    autoscaler_goes_on,
    check_replica,
    find_job,
    list_jobs,
    scaling,
    suspending,
)
from tjworker.kube.client import KubeClient


def cluster(*jobs: JobBuilder) -> KubeClient:
    at = TypedAt()
    at.add(*jobs)
    return at.api


NOT_FOUND: dict[str, tuple[tuple[JobBuilder, ...], str]] = {
    "a name that none has": ((make_training_job("b"),), "no job a in namespace default; there are: b"),
    "a name that two have": (
        (make_training_job("a"), make_job("a").role("trainer")),
        "a is the name of jobs of 2 kinds in namespace default; use one of: aitrainingjobs.elasticdeeplearning.ai/a,"
        " trainingjobs.paddlepaddle.org/a",
    ),
}


@pytest.mark.parametrize(("jobs", "says"), NOT_FOUND.values(), ids=NOT_FOUND.keys())
def test_which_job_is_meant(jobs: tuple[JobBuilder, ...], says: str) -> None:
    with pytest.raises(UserError) as refused:
        find_job(cluster(*jobs), "default", "a")
    assert str(refused.value) == says


@pytest.mark.parametrize("called", ["trainingjobs.paddlepaddle.org/a", "trainingjob.paddlepaddle.org/a", "TJ/a"])
def test_one_of_two_kinds_is_named_as_kubectl_names_it(called: str) -> None:
    api = cluster(make_training_job("a"), make_job("a").role("trainer"))
    assert find_job(api, "default", called).resource == TRAININGJOBS
    assert [job.resource for job in list_jobs(api, "default", [TRAININGJOBS])] == [TRAININGJOBS]
    with pytest.raises(UserError, match="'pods' is not a job kind; this cluster has: aitrainingjobs"):
        find_job(api, "default", "pods/a")
    both = r"^TFJob \(kubeflow.org\) and TFJob \(training.kubedl.io\) are switched off here: start the local stack"
    with pytest.raises(UserError, match=both):
        find_job(api, "default", "tfjobs/a")


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    role: str | None
    want: Scaling | str
    """A text: what the user reads."""


CASES: dict[str, Case] = {
    "the trainers of an AITrainingJob": Case(
        make_job().role("trainer", 2), None, Scaling("trainer", 2, {"spec": {"replicas": 5}}, "scale")
    ),
    "another of its roles": Case(
        make_job().role("trainer", 2).role("pserver", 1),
        "pserver",
        Scaling("pserver", 1, {"spec": {"replicaSpecs": {"pserver": {"replicas": 5}}}}, ""),
    ),
    "the trainers of a TrainingJob": Case(
        make_training_job(least=2, most=6, fault_tolerant=True),
        None,
        Scaling("trainer", 2, {"spec": {"replicas": 5}}, "scale"),
    ),
    "its parameter servers are not scaled": Case(
        make_training_job(), "pserver", "role pserver of digits is not scaled: of a TrainingJob only trainer is"
    ),
    "a role that it does not have": Case(
        make_training_job(), "master", "digits has no role master; it has: pserver, trainer"
    ),
    "no role that scales by default": Case(
        make_job().role("worker"),
        None,
        "digits has no role that scales by default; name one with --role, it has: worker",
    ),
    "a job that has ended": Case(
        make_training_job().status(phase="Succeed"),
        None,
        "digits has ended (Succeed): an end is final; to run the job again, delete it and apply it again",
    ),
    "a spec that cannot be used": Case(
        make_training_job(least=2, most=6),
        None,
        "the spec of digits cannot be used: spec.trainer.max-instance: 6: above",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_scaling_writes(case: Case) -> None:
    found = FoundJob(case.job.resource, case.job.object())
    if isinstance(case.want, Scaling):
        assert scaling(found, case.role, 5) == case.want
        return
    with pytest.raises(UserError) as refused:
        scaling(found, case.role, 5)
    assert str(refused.value).startswith(case.want)


ELASTIC = make_job().role("trainer", 2, minReplicas=1, maxReplicas=4, edlPolicy="Auto").role("pserver", 1)
STACK = {"TJ_REDIS_URL": "redis://h"}
WARNED: dict[str, tuple[JobBuilder, str, dict[str, str] | None, str]] = {
    "a local stack with the default": (ELASTIC, "trainer", STACK, "its cool-down of 30 s"),
    "a local stack with another": (
        ELASTIC,
        "trainer",
        {**STACK, "TJ_AUTOSCALE_COOLDOWN_SECONDS": "90"},
        "its cool-down of 90 s",
    ),
    "a role that is scaled by hand": (
        make_job().role("trainer", 2, minReplicas=1, maxReplicas=4, edlPolicy="Manual"),
        "trainer",
        None,
        "",
    ),
    "an operator without an autoscaler": (ELASTIC, "trainer", {**STACK, "TJ_AUTOSCALE_POLICY": "off"}, ""),
}


@pytest.mark.parametrize(("job", "role", "operator", "says"), WARNED.values(), ids=WARNED.keys())
def test_scaling_by_hand_says_that_the_autoscaler_goes_on(
    job: JobBuilder, role: str, operator: dict[str, str] | None, says: str
) -> None:
    said = autoscaler_goes_on(FoundJob(job.resource, job.object()), role, operator)
    assert said.endswith(says)
    assert bool(said) == bool(says)


NOT_SCALED: dict[str, tuple[str, str | None, int, str]] = {
    "an ElasticDLJob, of which no role changes its size": (
        "elasticdljobs.training.kubedl.io",
        None,
        3,
        "digits is not scaled: no role of an ElasticDLJob is",
    ),
    "a second master": (
        "pytorchjobs.kubeflow.org",
        "Master",
        2,
        "digits cannot be scaled so: spec.pytorchReplicaSpecs.Master.replicas: 2: must be 1",
    ),
    "no workers of an MPIJob, by the scale subresource": (
        "mpijobs.kubeflow.org",
        None,
        0,
        "digits cannot be scaled so: spec.mpiReplicaSpecs.Worker.replicas: 0: must be at least 1",
    ),
}


@pytest.mark.parametrize("case", NOT_SCALED.values(), ids=NOT_SCALED.keys())
def test_a_number_with_which_the_job_could_not_be_used_is_refused(case: tuple[str, str | None, int, str]) -> None:
    """The API server takes it, as no schema says so; then the job would be left alone, reason InvalidSpec."""
    name, role, replicas, want = case
    resource = GroupResource(name)
    with pytest.raises(UserError) as refused:
        scaling(FoundJob(resource, guest_job(resource)), role, replicas)
    assert str(refused.value) == want


SUSPENDS: dict[str, tuple[JobBuilder, bool, dict[str, Any] | str | None]] = {
    "a job that runs": (make_job().role("trainer"), True, {"spec": {"suspend": True}}),
    "one that waits already": (make_job().role("trainer").spec(suspend=True), True, None),
    "one that waits goes on": (make_job().role("trainer").spec(suspend=True), False, {"spec": {"suspend": False}}),
    "a job that has ended": (
        make_job().role("trainer").status(phase="Succeed"),
        False,
        "digits has ended (Succeed): an end is final; to run the job again, delete it and apply it again",
    ),
    "a job whose end is decided": (
        make_job().role("trainer").status(phase="Terminating", ending=Ending(phase="Failed", reason="r", time="t")),
        True,
        "digits is about to end (Failed): an end is final; to run the job again, delete it and apply it again",
    ),
}


@pytest.mark.parametrize(("job", "suspend", "want"), SUSPENDS.values(), ids=SUSPENDS.keys())
def test_what_suspending_writes(job: JobBuilder, suspend: bool, want: dict[str, Any] | str | None) -> None:
    found = FoundJob(job.resource, job.object())
    if not isinstance(want, str):
        assert suspending(found, suspend) == want
        return
    with pytest.raises(UserError) as refused:
        suspending(found, suspend)
    assert str(refused.value) == want


REPLICAS: dict[str, tuple[JobBuilder, str | None, int | None, str]] = {
    "one that it has not": (make_job().role("b").role("a"), "c", None, "digits has no role c; it has: a, b"),
    "one more": (
        make_job().role("trainer", 3),
        "trainer",
        3,
        "digits has no replica 3; it has trainer 3, counted from 0",
    ),
    "one that a scale-up would make": (make_job().role("trainer", 2, minReplicas=1, maxReplicas=8), "trainer", 7, ""),
    "of a job that cannot be used: it may have pods": (make_training_job(least=2, most=6), "nobody", 99, ""),
}


@pytest.mark.parametrize(("job", "role", "index", "says"), REPLICAS.values(), ids=REPLICAS.keys())
def test_which_replicas_can_be_asked_for(job: JobBuilder, role: str | None, index: int | None, says: str) -> None:
    found = FoundJob(job.resource, job.object())
    if not says:
        check_replica(found, role, index)
        return
    with pytest.raises(UserError) as refused:
        check_replica(found, role, index)
    assert str(refused.value) == says


# -- TrainJobs, whose numNodes cannot change
BOUNDS_OF_NODES = {"elasticdeeplearning.ai/max-nodes": "4"}
OF_TRAINJOBS: dict[str, tuple[Json, str | None, int, Json | str]] = {
    "an elastic one is scaled by its annotation": (
        train_job(trainer={}, annotations=BOUNDS_OF_NODES),
        None,
        3,
        {"metadata": {"annotations": {"elasticdeeplearning.ai/num-nodes": "3"}}},
    ),
    "beyond its bounds it is not": (train_job(trainer={}, annotations=BOUNDS_OF_NODES), None, 9, "has 1 to 4 replicas"),
}


@pytest.mark.parametrize(("made", "role", "replicas", "want"), OF_TRAINJOBS.values(), ids=OF_TRAINJOBS.keys())
def test_how_a_trainjob_is_scaled(made: Json, role: str | None, replicas: int, want: Json | str) -> None:
    runtime = RUNTIMES[made["spec"]["runtimeRef"]["name"]]
    found = FoundJob(TRAINJOBS, {**made, "status": {"operator": {"snapshot": {"spec": runtime["spec"]}}}})
    if isinstance(want, str):
        with pytest.raises(UserError, match=want):
            scaling(found, role, replicas)
    else:
        asked = scaling(found, role, replicas)
        assert (asked.patch, asked.subresource) == (want, "")
