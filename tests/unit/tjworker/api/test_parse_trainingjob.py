"""Manifests of a TrainingJob -> the internal model: which roles there are, and how they behave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import JobBuilder, make_training_job
from tjworker.api.kinds.trainingjob import ANNOTATION_CLEAN_POD_POLICY, ANNOTATION_RESTART_LIMIT, WITHOUT_LIMIT
from tjworker.api.model import InvalidJob, TrainingJob


def workloads(job: TrainingJob) -> dict[str, tuple[str, int]]:
    return {role.name: (role.workload, role.replicas) for role in job.roles}


def ends(job: TrainingJob) -> dict[str, tuple[str, str]]:
    return {role.name: (role.fail_policy, role.complete_policy) for role in job.roles}


def trainer(job: TrainingJob) -> tuple[int, int | None, int | None, str, bool]:
    role = job.role("trainer")
    return role.replicas, role.min_replicas, role.max_replicas, role.edl_policy, role.elastic


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    read: Callable[[TrainingJob], Any]
    want: Any


CASES: dict[str, Case] = {
    "a plain job has parameter servers and trainers": Case(
        make_training_job(least=3), workloads, {"pserver": ("ReplicaSet", 2), "trainer": ("Job", 3)}
    ),
    "a fault-tolerant job has a master too": Case(
        make_training_job(fault_tolerant=True),
        workloads,
        {"master": ("ReplicaSet", 1), "pserver": ("ReplicaSet", 2), "trainer": ("Job", 2)},
    ),
    "no parameter servers when none are wanted": Case(
        make_training_job(pservers=0), workloads, {"trainer": ("Job", 2)}
    ),
    "a local job is not elastic, whatever its bounds": Case(
        make_training_job(least=2, most=6, local_job=True, fault_tolerant=True), trainer, (1, 1, 1, "Never", False)
    ),
    "frame_work nccl2": Case(make_training_job(frame_work={"type": "nccl2"}), workloads, {"trainer": ("Job", 2)}),
    "frame_work wins over local_job": Case(
        make_training_job(frame_work={"name": "paddle", "type": "multi"}, local_job=True),
        lambda j: (workloads(j), j.framework),
        ({"pserver": ("ReplicaSet", 2), "trainer": ("Job", 2)}, ""),
    ),
    "the autoscaler moves the trainers of an elastic job": Case(
        make_training_job(least=2, most=6, fault_tolerant=True), trainer, (2, 2, 6, "Auto", True)
    ),
    "people may move those of a fault-tolerant job": Case(
        make_training_job(most=2, fault_tolerant=True), trainer, (2, 2, 2, "Manual", False)
    ),
    "the autoscaler moves none of any other": Case(make_training_job(), trainer, (2, 2, 2, "Never", False)),
    "one failed trainer fails a plain job": Case(
        make_training_job(), ends, {"pserver": ("None", "None"), "trainer": ("Any", "All")}
    ),
    "a fault-tolerant job fails with all its trainers": Case(
        make_training_job(fault_tolerant=True),
        ends,
        {"master": ("None", "None"), "pserver": ("None", "None"), "trainer": ("All", "All")},
    ),
    "walltime is the limit of time": Case(
        make_training_job(annotations={"walltime": 60}), lambda j: j.time_limit_seconds, 60
    ),
    "the setting limits restarts of a parameter server": Case(
        make_training_job(), lambda j: j.role("pserver").restart_limit, None
    ),
    "or an annotation does": Case(
        make_training_job().annotate({ANNOTATION_RESTART_LIMIT: "0"}), lambda j: j.role("pserver").restart_limit, 0
    ),
    "a master may be restarted for as long as the trainers run": Case(
        make_training_job(fault_tolerant=True), lambda j: j.role("master").restart_limit, WITHOUT_LIMIT
    ),
    "or those that run alone, where an annotation says so": Case(
        make_training_job().annotate({ANNOTATION_CLEAN_POD_POLICY: "Running"}), lambda j: j.clean_pod_policy, "Running"
    ),
    "identity, of the older version too": Case(
        make_training_job().version("paddlepaddle.org/v1alpha1"),
        lambda j: (j.key, j.api_version, j.kind),
        ("trainingjobs.paddlepaddle.org/default/digits", "paddlepaddle.org/v1alpha1", "TrainingJob"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_the_parser_makes_of_it(case: Case) -> None:
    assert case.read(case.job.build()) == case.want


@pytest.mark.parametrize(
    ("annotation", "value", "want"),
    [
        (ANNOTATION_RESTART_LIMIT, "many", "'many': must be a number from 0 to 999999999"),
        (ANNOTATION_CLEAN_POD_POLICY, "running", "'running': must be one of All, Running, None"),
        (ANNOTATION_CLEAN_POD_POLICY, "", "'': must be one of All, Running, None"),
    ],
)
def test_an_annotation_that_acts_must_make_sense(annotation: str, value: str, want: str) -> None:
    parsed = make_training_job().annotate({annotation: value}).parse()
    assert isinstance(parsed, InvalidJob)
    assert [str(error) for error in parsed.errors] == [f"metadata.annotations.{annotation}: {want}"]
