"""What the internal job holds of each field of the run policy, for every kind of another operator's: where the field is
absent the default that docs/kinds.md and docs/kubedl.md name for the kind; else its value, of which zero is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.guests import GUESTS, KIND_OF
from tests.unit.tjworker.api.guest_cases import Json, manifest, refusal_of, role
from tjworker.api.kinds import parse
from tjworker.api.model import TrainingJob
from tjworker.base import GroupResource

MPI_OF_KUBEFLOW = GroupResource("mpijobs.kubeflow.org")
KINDS: dict[str, tuple[GroupResource, Json]] = {
    **{resource: (resource, {}) for resource in GUESTS},
    "mpijobs.kubeflow.org, v1": (MPI_OF_KUBEFLOW, {"manifestVersion": "v1"}),
}
CLEANED = dict.fromkeys(
    (f"{kind}.training.kubedl.io" for kind in ("tfjobs", "xdljobs", "mpijobs", "elasticdljobs")), "Running"
)
"""The default of cleanPodPolicy; of all others None."""
BACKOFF = {"xdljobs.training.kubedl.io": 20, MPI_OF_KUBEFLOW: 6}
"""The default of backoffLimit; of all others no limit."""
LARGE = 2**31 - 1


@dataclass(frozen=True)
class Row:
    field: str
    """Of the internal job."""
    said: Json
    """The run policy."""
    want: Any


def absent(field: str, name: str, want: Any) -> Iterator[Row]:
    """Go clients write null for it as often as nothing."""
    yield Row(field, {}, want)
    yield Row(field, {name: None}, want)


def rows(kind: str) -> Iterator[Row]:
    yield from absent("clean_pod_policy", "cleanPodPolicy", CLEANED.get(kind, "None"))
    yield Row("clean_pod_policy", {"cleanPodPolicy": ""}, CLEANED.get(kind, "None"))
    yield from (Row("clean_pod_policy", {"cleanPodPolicy": one}, one) for one in ("All", "Running", "None"))
    yield from absent("backoff_limit", "backoffLimit", BACKOFF.get(kind))
    yield from (Row("backoff_limit", {"backoffLimit": n}, n) for n in (0, 1, LARGE))
    yield from absent("ttl_seconds_after_finished", "ttlSecondsAfterFinished", None)
    yield from (Row("ttl_seconds_after_finished", {"ttlSecondsAfterFinished": n}, n) for n in (0, 1, LARGE))
    yield from absent("active_deadline_seconds", "activeDeadlineSeconds", None)
    yield from (Row("active_deadline_seconds", {"activeDeadlineSeconds": n}, n) for n in (1, LARGE))
    yield from absent("suspend", "suspend", False)
    yield from (Row("suspend", {"suspend": value}, value) for value in (False, True))
    yield from absent("min_available", "schedulingPolicy", None)
    yield Row("min_available", {"schedulingPolicy": {}}, None)
    every = sum(GUESTS[KINDS[kind][0]].values())
    yield from (Row("min_available", {"schedulingPolicy": {"minAvailable": n}}, n) for n in {1, every})


def with_run_policy(kind: str, policy: Json) -> Json:
    resource, spec = KINDS[kind]
    made = manifest(resource, {name: role(n) for name, n in GUESTS[resource].items()}, **spec)
    made["spec"] |= KIND_OF[resource].with_run_policy(policy)["spec"]
    return made


def job_of(kind: str, policy: Json) -> TrainingJob:
    job = parse(KINDS[kind][0], with_run_policy(kind, policy))
    assert isinstance(job, TrainingJob), f"{policy}: {job.errors}"
    return job


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_job_holds_of_each_field(kind: str) -> None:
    table = list(rows(kind))
    found = [Row(row.field, row.said, getattr(job_of(kind, row.said), row.field)) for row in table]
    assert found == table


OUT_OF_BOUNDS: tuple[tuple[str, Any], ...] = (
    ("activeDeadlineSeconds", 0),
    ("activeDeadlineSeconds", LARGE + 1),
    ("backoffLimit", -1),
    ("backoffLimit", LARGE + 1),
    ("ttlSecondsAfterFinished", -1),
    ("cleanPodPolicy", "Some"),
    ("suspend", "true"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_out_of_its_bounds_is_refused_where_it_was_written(kind: str) -> None:
    resource = KINDS[kind][0]
    where = ".".join(KIND_OF[resource].run_policy_path)
    for name, value in OUT_OF_BOUNDS:
        assert f"{where}.{name}: " in refusal_of(resource, with_run_policy(kind, {name: value})), (name, value)
    told = refusal_of(resource, with_run_policy(kind, {"schedulingPolicy": {"minAvailable": 0}}))
    assert f"{where}.schedulingPolicy.minAvailable: 0" in told


GANG: tuple[tuple[str, str, tuple[tuple[Any, Any], ...]], ...] = (
    ("queue", "queue", ((None, ""), ("", ""), ("research", "research"))),
    ("priority_class", "priorityClass", ((None, ""), ("", ""), ("high", "high"))),
    ("min_resources", "minResources", ((None, {}), ({}, {}), ({"cpu": "0"}, {"cpu": "0"}))),
    ("schedule_timeout_seconds", "scheduleTimeoutSeconds", ((None, None), (0, 0), (1, 1), (LARGE, LARGE))),
)
"""Field of the gang's policy, name in Kubeflow's manifests, and (given, held). `tj convert` is judged by these."""
OF_KUBEDL = {"queue": "queue", "priority_class": "priorityClassName"}
"""Its name in KubeDL's, where they have it."""
