"""The table of resources: complete for what is projected, and nothing in it that the operator must not touch."""

from __future__ import annotations

from tjworker.api.observed import RECORD_TYPES
from tjworker.kube.resources import JOB_GROUPS, JOB_PLURALS, RESOURCES, WATCHED


def test_every_watched_resource_is_a_job_or_has_a_record() -> None:
    assert {row.plural for row in WATCHED if not row.is_job} == set(RECORD_TYPES)


def test_what_is_watched_may_be_listed_and_watched_by_the_watcher() -> None:
    for row in WATCHED:
        assert {"list", "watch"} <= set(row.verbs["watcher"]), row.plural


def test_no_secrets_and_no_wildcards() -> None:
    for row in RESOURCES.values():
        words = {row.plural, row.group, *(verb for verbs in row.verbs.values() for verb in verbs)}
        assert not words & {"*", "secrets"}


def test_jobs_are_found_by_owner_and_by_group() -> None:
    assert JOB_PLURALS["elasticdeeplearning.ai", "AITrainingJob"] == "aitrainingjobs"
    assert JOB_GROUPS["paddlepaddle.org"] == "trainingjobs"


def test_paths() -> None:
    assert RESOURCES["pods"].path() == "/api/v1/pods"
    assert (
        RESOURCES["leases"].path("kube-system", "x") == "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
    )
    assert RESOURCES["nodes"].path("ignored", "n") == "/api/v1/nodes/n"
    assert RESOURCES["replicasets"].path("a", "b", "scale") == "/apis/apps/v1/namespaces/a/replicasets/b/scale"
