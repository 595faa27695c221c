"""Manifests -> the internal model."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.support import fast_yaml as yaml
from tests.support.builders import JobBuilder, make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.seeds import the_seed
from tests.support.tiers import drawn
from tjworker.api.kinds import KINDS, parse
from tjworker.api.model import InvalidJob, RestartPolicy, TrainingJob
from tjworker.api.status import END_PHASES


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    read: Callable[[TrainingJob], Any]
    want: Any


def plain() -> JobBuilder:
    return make_job().role("trainer", 2)


CASES: dict[str, Case] = {
    "what is not said has the documented default": Case(
        plain(),
        lambda j: (
            j.fail_policy,
            j.complete_policy,
            j.clean_pod_policy,
            j.suspend,
            j.time_limit_seconds,
            j.backoff_limit,
            j.min_available,
            j.ttl_seconds_after_finished,
            j.active_deadline_seconds,
            j.framework,
            j.priority,
        ),
        ("Any", "All", "All", False, None, None, None, None, None, "", ""),
    ),
    "what a role does not say has the documented default": Case(
        make_job().spec(replicaSpecs={"a": {"template": {"spec": {"containers": [{"name": "x"}]}}}}),
        lambda j: (
            j.roles[0].replicas,
            j.roles[0].restart_policy,
            j.roles[0].restart_scope,
            j.roles[0].fail_policy,
            j.roles[0].complete_policy,
            j.roles[0].edl_policy,
            j.roles[0].restart_limit,
        ),
        (1, "Never", "All", "Any", "All", "Manual", None),
    ),
    "runPolicy reaches the job": Case(
        plain().run_policy(
            cleanPodPolicy="None",
            ttlSecondsAfterFinished=0,
            activeDeadlineSeconds=5,
            backoffLimit=0,
            schedulingPolicy={"minAvailable": 1},
        ),
        lambda j: (
            j.clean_pod_policy,
            j.ttl_seconds_after_finished,
            j.active_deadline_seconds,
            j.backoff_limit,
            j.min_available,
        ),
        ("None", 0, 5, 0, 1),
    ),
    "an elastic role": Case(
        make_job().role("trainer", 2, least=1, most=6, edl="Auto"),
        lambda j: (j.roles[0].elastic, j.roles[0].min_replicas, j.roles[0].max_replicas, j.roles[0].edl_policy),
        (True, 1, 6, "Auto"),
    ),
    "the scale subresource moves the trainers": Case(plain(), lambda j: j.scale_role, "trainer"),
    "a job without trainers has no role to scale": Case(make_job().role("worker"), lambda j: j.scale_role, None),
    "of two roles that are elastic none is scaled by default": Case(
        make_job().role("a", 1, most=3).role("b", 1, most=3), lambda j: j.scale_role, None
    ),
    "spec.replicas wins over the role's own": Case(
        make_job().role("Worker", 1, most=3).role("ps", 2).spec(replicas=3),
        lambda j: {r.name: (r.replicas, r.spec_path) for r in j.roles},
        {"Worker": (3, "spec.replicas"), "ps": (2, "spec.replicaSpecs.ps.replicas")},
    ),
    "a role with maxReplicas alone is elastic from its replicas on": Case(
        make_job().role("trainer", 2, most=6, edl="Auto"),
        lambda j: (j.roles[0].autoscaled, j.roles[0].min_replicas, j.roles[0].max_replicas),
        (True, 2, 6),
    ),
    "the template stays as the user wrote it": Case(
        make_job().role(
            "trainer", template={"spec": {"containers": [{"name": "x", "resources": {"limits": {"cpu": 1.0}}}]}}
        ),
        lambda j: j.roles[0].template,
        {"spec": {"containers": [{"name": "x", "resources": {"limits": {"cpu": 1.0}}}]}},
    ),
    "annotations and labels": Case(
        plain().annotate({"Preempted": "by hand"}).labels(team="a"),
        lambda j: (j.annotations, j.labels),
        ({"Preempted": "by hand"}, {"team": "a"}),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_the_job_says(case: Case) -> None:
    assert case.read(case.job.build()) == case.want


def test_an_invalid_job_names_field_value_and_rule() -> None:
    job = make_job().role("trainer", 3, most=2, restart="Sometimes").parse()
    assert isinstance(job, InvalidJob)
    *others, last = (str(policy) for policy in get_args(RestartPolicy))
    assert [str(e) for e in job.errors] == [
        f"spec.replicaSpecs.trainer.restartPolicy: 'Sometimes': must be {', '.join(others)} or {last}"
    ]
    job = make_job().role("trainer", 3, most=2).parse()
    assert isinstance(job, InvalidJob)
    assert [str(e) for e in job.errors] == ["spec.replicaSpecs.trainer.replicas: 3: must be at most maxReplicas (2)"]


# Everything JSON can hold, at any place: the API server keeps most of it out, an old CRD or none does not.
JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    float("inf"),
    "",
    "x",
    "9" * 5000,
    "\x00",
    "ünï",
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": [1]}},
    [{"name": 1}],
)


@pytest.mark.wide
def test_garbage_anywhere_never_raises() -> None:
    seed = the_seed()
    rng = random.Random(seed)
    for i in range(drawn(800)):
        raw = _full().object()
        for _ in range(rng.randint(1, 3)):
            _spoil(raw, rng)
        where = f"seed {seed}, round {i}: {raw}"
        try:
            parsed = parse(AITRAININGJOBS, raw)
        except Exception as error:
            error.add_note(where)
            raise
        status = raw.get("status")
        if isinstance(status, dict) and status.get("phase") in tuple(END_PHASES):
            assert parsed.status.phase == status["phase"], where
        if isinstance(parsed, InvalidJob):
            assert parsed.errors, where


@pytest.mark.parametrize("raw", JUNK, ids=lambda value: repr(value)[:20])
def test_what_is_no_object_is_an_invalid_job(raw: Any) -> None:
    assert isinstance(parse(AITRAININGJOBS, raw), InvalidJob)


def _full() -> JobBuilder:
    status = {
        "phase": "Failed",
        "restarts": 2,
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"}
        ],
        "replicaStatuses": {"trainer": {"active": 1}},
        "restartCounts": {"trainer": {"node": 2}},
        "attempts": {"job": 1, "roles": {"trainer": {"all": 1, "pods": {"0": 1}}}},
        "failures": [{"pod": "p", "time": "2026-01-01T00:00:00Z"}],
        "scaleRecords": [{"role": "trainer", "from": 1, "to": 2, "time": "2026-01-01T00:00:00Z"}],
        "ending": {"phase": "Failed", "reason": "R", "time": "2026-01-01T00:00:00Z"},
    }
    job = make_job().role("trainer", 2, least=1, most=4).role("pserver").spec(restartingExitCode="1")
    job = job.run_policy(cleanPodPolicy="All", schedulingPolicy={"minAvailable": 1}).annotate({"a": "b"}).labels(c="d")
    return job.status(job.parse().status.model_validate(status))


def _spoil(value: Any, rng: random.Random) -> None:
    """Replace or remove something at a random depth."""
    while True:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            value = inner
        elif rng.random() < 0.2:
            del value[key]
            return
        else:
            value[key] = rng.choice(JUNK)
            return


PEER_MANIFESTS = os.environ.get("TJ_PEER_MANIFESTS", "")


@pytest.mark.skipif(
    not PEER_MANIFESTS, reason="TJ_PEER_MANIFESTS names no folder with manifests written for other operators"
)
def test_manifests_written_for_other_operators_are_accepted() -> None:
    kinds = {job_kind.kind: resource for resource, job_kind in KINDS.items()}
    found = [
        (path.name, document)
        for path in sorted(Path(PEER_MANIFESTS).glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document and document.get("kind") in kinds
    ]
    assert found, f"no manifest of a known kind in {PEER_MANIFESTS}"
    for name, document in found:
        parsed = parse(kinds[document["kind"]], document)
        assert isinstance(parsed, TrainingJob), f"{name}: {parsed.errors}"
