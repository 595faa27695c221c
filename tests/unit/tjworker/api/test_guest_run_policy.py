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
from tjworker.api.model import GangPolicy, Ignored, TrainingJob
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


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_moves_another(kind: str) -> None:
    names = ("clean_pod_policy", "backoff_limit", "ttl_seconds_after_finished", "active_deadline_seconds", "suspend")
    plain, given = job_of(kind, {}), {"cleanPodPolicy": "All", "backoffLimit": 3, "ttlSecondsAfterFinished": 4}
    given |= {"activeDeadlineSeconds": 5, "suspend": True}
    for name, (said, value) in zip(names, given.items(), strict=True):
        job = job_of(kind, {said: value})
        assert {n: getattr(job, n) for n in names} == {n: getattr(plain, n) for n in names} | {name: value}


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


@pytest.mark.parametrize("kind", KINDS)
def test_more_pods_at_once_than_there_are_is_a_matter_of_the_gang_scheduler(kind: str) -> None:
    """Without one the field counts for nothing, with one the job waits until it is mended."""
    every = sum(GUESTS[KINDS[kind][0]].values())
    assert job_of(kind, {"schedulingPolicy": {"minAvailable": every + 1}}).min_available == every + 1


GANG: tuple[tuple[str, str, tuple[tuple[Any, Any], ...]], ...] = (
    ("queue", "queue", ((None, ""), ("", ""), ("research", "research"))),
    ("priority_class", "priorityClass", ((None, ""), ("", ""), ("high", "high"))),
    ("min_resources", "minResources", ((None, {}), ({}, {}), ({"cpu": "0"}, {"cpu": "0"}))),
    ("schedule_timeout_seconds", "scheduleTimeoutSeconds", ((None, None), (0, 0), (1, 1), (LARGE, LARGE))),
)
"""Field of the gang's policy, name in Kubeflow's manifests, and (given, held)."""
OF_KUBEDL = {"queue": "queue", "priority_class": "priorityClassName"}
"""Its name in KubeDL's, where they have it."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_job_asks_of_a_gang_scheduler(kind: str) -> None:
    made = KIND_OF[KINDS[kind][0]]
    path = ".".join((*made.run_policy_path, "schedulingPolicy"))
    kubedl = made.group == "training.kubedl.io"
    called = "priorityClassName" if kubedl else "priorityClass"
    for field, name, values in GANG:
        for given, held in values if not kubedl or field in OF_KUBEDL else ():
            said = {OF_KUBEDL[field] if kubedl else name: given}
            job = job_of(kind, {"schedulingPolicy": said})
            want = {f: getattr(GangPolicy(), f) for f, _, _ in GANG} | {field: held}
            assert {f: getattr(job.gang, f) for f in want} == want, said
            assert job.gang.path == path
            assert job.gang.priority_class_field == (called if said.get(called) is not None else "priorityClass")
            assert job.ignored == (), said


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("kubedl.io")])
def test_a_priority_of_kubedl_is_told_as_not_acted_on_and_zero_is_one(kind: str) -> None:
    path = ".".join((*KIND_OF[KINDS[kind][0]].run_policy_path, "schedulingPolicy", "priority"))
    for value, want in ((None, ()), (0, (path,)), (1, (path,))):
        assert job_of(kind, {"schedulingPolicy": {"priority": value}}).ignored == tuple(map(Ignored, want)), value


@pytest.mark.parametrize("kind", KINDS)
def test_the_replicas_of_each_role(kind: str) -> None:
    """Absent is one, but for the workers of Kubeflow's MPIJob (docs/kinds.md)."""
    resource = KINDS[kind][0]
    for name, usual in GUESTS[resource].items():
        counts: list[tuple[int | None, int]] = [(None, 1)] if resource != MPI_OF_KUBEFLOW or name != "Worker" else []
        counts += [(1, 1), (10_000, 10_000)] if usual > 1 else [(1, 1)]
        counts += [(0, 0)] if name == "PS" else []
        for given, want in counts:
            raw = with_run_policy(kind, {})
            raw["spec"][KIND_OF[resource].roles_field][name]["replicas"] = given
            job = parse(resource, raw)
            assert isinstance(job, TrainingJob), f"{name} {given}: {job.errors}"
            assert job.role(name).replicas == want
