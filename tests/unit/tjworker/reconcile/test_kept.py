"""Of which jobs nothing is taken away at the end without autoclean: those that ReplicaSets and a batch Job keep."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_training_job
from tests.support.builders.job import JobBuilder
from tests.support.guests import guest_job
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import InvalidJob
from tjworker.base import GroupResource
from tjworker.reconcile.policies.clean import cleaning_at
from tjworker.reconcile.rules import keeps_all

KEPT: dict[str, tuple[JobBuilder, bool]] = {
    "an AITrainingJob has pods alone": (make_job().role("trainer"), False),
    "a TrainingJob has a batch Job": (make_training_job(), True),
}


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT.keys())
def test_a_job_without_autoclean(case: tuple[JobBuilder, bool]) -> None:
    """With a spec that cannot be used, too."""
    builder, kept = case
    job, broken = builder.build(), parse(builder.resource, {**builder.object(), "spec": {}})
    assert isinstance(broken, InvalidJob)
    for one in (job, broken):
        assert keeps_all(one, autoclean=False) == kept
        assert not keeps_all(one, autoclean=True)
        assert cleaning_at(one, "Preempted", "", autoclean=False).policy == ("None" if kept else policy(one))


def policy(job: object) -> str:
    """Of an end that is to free what the job holds."""
    return "Running" if isinstance(job, InvalidJob) else "All"


@pytest.mark.parametrize("resource", [name for name, kind in KNOWN_KINDS.items() if kind.guest and not kind.companions])
def test_no_job_of_another_operators_kind_is_kept(resource: GroupResource) -> None:
    broken = parse(resource, {**guest_job(resource), "spec": {}})
    assert isinstance(broken, InvalidJob)
    assert not keeps_all(broken, autoclean=False)
