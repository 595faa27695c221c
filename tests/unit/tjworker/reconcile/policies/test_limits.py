"""A limit that ends the job is named in its message."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_pod
from tests.support.builders.job import JobBuilder
from tests.support.builders.training_job import make_training_job
from tests.unit.tjworker.reconcile.passes import ago, decide, everything, status_of
from tjworker.api.status import JobStatus

LIMITS = {
    "of the role": (
        make_job().role("trainer", 1, restart="Always", limit=0),
        "restartLimit 0 of role trainer is used up",
    ),
    "of the job": (
        make_job().role("trainer", 1, restart="Always").run_policy(backoffLimit=0),
        "backoffLimit 0 of the job is used up",
    ),
}


@pytest.mark.parametrize(("builder", "want"), LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_that_ends_the_job_is_named(builder: JobBuilder, want: str) -> None:
    job = builder.build()
    ending = status_of(decide(job, everything(job, make_pod(job, "trainer", 0).failed(1)))).ending
    assert ending is not None
    assert ending.message.endswith(f"; {want}")


RAN = JobStatus(phase="Running", start_time=ago(90), start_running_time=ago(61))
FIELDS = {
    "of an AITrainingJob": (make_job().role("trainer", 1).spec(timeLimit=60).status(RAN), "spec.timeLimit 60 s"),
    "of a TrainingJob": (make_training_job(annotations={"walltime": 60}).status(RAN), "spec.annotations.walltime 60 s"),
}


@pytest.mark.parametrize(("builder", "want"), FIELDS.values(), ids=FIELDS.keys())
def test_a_limit_of_time_is_named_by_the_field_that_the_manifest_has(builder: JobBuilder, want: str) -> None:
    ending = status_of(decide(builder.build())).ending
    assert ending is not None
    assert ending.message == f"the job has run for longer than {want}"
