"""`tj convert` of every kind of another operator's: the run policy means the same in the AITrainingJob, zero included,
and what has no place there is reported. The rows are those that say what the job of the kind itself holds.
"""

from __future__ import annotations

import pytest

from tests.support.guests import KIND_OF
from tests.unit.tjworker.api.test_guest_run_policy import GANG, KINDS, OF_KUBEDL, job_of, rows, with_run_policy
from tests.unit.tjworker.convert.manifests import converted, parsed

V1_OF_MPI = "kubeflow.org/v1"


def of_version(kind: str, raw: dict[str, object]) -> dict[str, object]:
    """A manifest has its version where the API server's copy has `manifestVersion`."""
    return {**raw, "apiVersion": V1_OF_MPI} if kind.endswith(", v1") else raw


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_policy_means_the_same(kind: str) -> None:
    for row in rows(kind):
        made = converted(of_version(kind, with_run_policy(kind, row.said)))
        assert getattr(parsed(made.manifest), row.field) == row.want, row
        assert not [one.path for one in made.left if one.path != "kind" and "minFinish" not in one.path], row


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_gang_scheduler_is_asked_is_carried_over_or_reported(kind: str) -> None:
    kubedl = KIND_OF[KINDS[kind][0]].group == "training.kubedl.io"
    for field, name, values in GANG:
        for given, held in values if not kubedl or field in OF_KUBEDL else ():
            policy = {"schedulingPolicy": {OF_KUBEDL[field] if kubedl else name: given}}
            made = converted(of_version(kind, with_run_policy(kind, policy)))
            assert getattr(parsed(made.manifest).gang, field) == held, policy
            assert getattr(job_of(kind, policy).gang, field) == held
    if kubedl:
        made = converted(with_run_policy(kind, {"schedulingPolicy": {"priority": 0}}))
        path = ".".join((*KIND_OF[KINDS[kind][0]].run_policy_path, "schedulingPolicy", "priority"))
        assert path in {one.path for one in made.left}
