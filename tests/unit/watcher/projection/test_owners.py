"""Which job an object belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.watcher.projection.objects import KEY, OWNER, meta
from tjworker.api.resources import PODS, SERVICES
from tjworker.base import GroupResource
from watcher.projection import project


@dataclass(frozen=True)
class OwnerCase:
    resource: GroupResource
    owners: list[dict[str, Any]]
    labels: dict[str, str] = field(default_factory=dict)
    want_key: str | None = None
    want_job_uid: str = ""


RS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "rs", "controller": True}
OURS = {"group-name": "paddlepaddle.org", "job-name": "mnist", "elasticdeeplearning.ai/job-uid": "ju"}
OWNERS: dict[str, OwnerCase] = {
    "A controlling owner of our kind names the job.": OwnerCase(
        SERVICES, [OWNER], want_key=KEY, want_job_uid="job-uid"
    ),
    "An owner that does not control is none.": OwnerCase(PODS, [{**OWNER, "controller": False}], OURS),
    "A kind of the same name in another group is a stranger.": OwnerCase(
        PODS, [{**OWNER, "apiVersion": "example.com/v1"}]
    ),
    "Labels alone make nothing ours.": OwnerCase(PODS, [], OURS),
    "A pod of a ReplicaSet belongs to the job of its labels.": OwnerCase(
        PODS, [RS], OURS, want_key="trainingjobs.paddlepaddle.org/default/mnist", want_job_uid="ju"
    ),
    "A pod of a stranger's ReplicaSet is a stranger.": OwnerCase(PODS, [RS], {"app": "web"}),
    "Of several owners the controlling one counts.": OwnerCase(
        PODS, [{**RS, "controller": False}, OWNER], want_key=KEY, want_job_uid="job-uid"
    ),
}


@pytest.mark.parametrize("name", OWNERS)
def test_whose(name: str) -> None:
    case = OWNERS[name]
    projected = project(case.resource, {"metadata": meta(ownerReferences=case.owners, labels=case.labels)})
    if case.want_key is None:
        assert projected is None
    else:
        assert projected is not None
        assert (projected.change.key, projected.change.job_uid) == (case.want_key, case.want_job_uid)
