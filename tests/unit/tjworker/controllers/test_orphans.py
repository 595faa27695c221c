"""The orphan collector when single objects cannot be read or deleted. What is an orphan: scenarios/test_orphans.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tests.scenarios.test_orphans import Field, owned_by
from tests.support.clocks import Alone
from tjworker.base import Transient
from tjworker.kube.port import HttpResponse


def answer(code: int, message: str) -> HttpResponse:
    return HttpResponse(code, orjson.dumps({"kind": "Status", "status": "Failure", "code": code, "message": message}))


DENIED = answer(403, 'admission webhook "protect" denied the request: no')
BROKEN = answer(500, "etcdserver: request is too large")
Answers = Callable[[str, str], HttpResponse | None]


def with_answers(field: Field, answers: Answers) -> Field:
    """The API server's answer to (method, path), where it is not its own."""
    request = field.world.transport.request

    def replaced(method: str, path: str, **more: Any) -> HttpResponse:
        return answers(method, path) or request(method, path, **more)

    field.world.transport.request = replaced  # type: ignore[method-assign]
    return field


def with_three_orphans() -> Field:
    field = Field()
    for name in ("a-first", "b", "c"):
        field.pod(name, owner=owned_by("another-uid"))
    return field


@pytest.mark.parametrize("refusal", [DENIED, BROKEN], ids=["denied", "500"])
def test_an_orphan_whose_deletion_is_refused_keeps_no_other(refusal: HttpResponse) -> None:
    field = with_answers(with_three_orphans(), lambda m, p: refusal if (m, p[-8:]) == ("DELETE", "/a-first") else None)
    assert (field.collect(), field.failed) == (2, 1)
    assert [field.going(name) for name in ("a-first", "b", "c")] == [False, True, True]
    # The next run begins with it again, and counts it again.
    assert (field.collect(), field.failed) == (0, 1)


def test_an_orphan_whose_deletion_hangs_until_the_time_limit_keeps_the_others_for_one_run() -> None:
    def hangs(method: str, path: str) -> HttpResponse | None:
        if (method, path[-8:]) == ("DELETE", "/a-first"):
            raise SoftTimeLimitExceeded
        return None

    field = with_answers(with_three_orphans(), hangs)
    for _ in range(2):
        with pytest.raises(SoftTimeLimitExceeded):
            field.collect()
    assert [field.going(name) for name in ("a-first", "b", "c")] == [False, True, True]


def test_the_result_of_the_task_counts_what_failed() -> None:
    field = with_answers(with_three_orphans(), lambda m, p: DENIED if (m, p[-8:]) == ("DELETE", "/a-first") else None)
    field.collector._clock = Alone(lambda: field.world.clock() + 61)
    assert field.collector.run() == "2 deleted, 1 failed"
    assert field.collector.run() == "another beat was first"


def test_a_job_that_cannot_be_read_is_unknown_and_keeps_its_objects() -> None:
    field = Field()
    field.pod("of-an-unreadable-job", owner=owned_by("another-uid", name="unreadable"))
    field.pod("left", owner=owned_by("another-uid"))
    with_answers(field, lambda m, p: BROKEN if p.endswith("/unreadable") else None)
    assert (field.collect(), field.failed) == (1, 1)
    assert (field.going("of-an-unreadable-job"), field.going("left")) == (False, True)


def test_a_kind_that_cannot_be_listed_keeps_no_other() -> None:
    field = with_answers(with_three_orphans(), lambda m, p: BROKEN if p.endswith("/services") else None)
    assert (field.collect(), field.failed) == (3, 1)


def test_a_list_of_one_namespace_that_expires_keeps_no_other_namespace() -> None:
    """410 between two pages: what the list has not shown is for the next run, what others show is for this one."""
    field = Field(namespaces="aaa,default")
    field.pod("left", owner=owned_by("another-uid"))
    expired = answer(410, "The provided continue parameter is too old")
    with_answers(field, lambda m, p: expired if m == "GET" and "/namespaces/aaa/" in p else None)
    assert field.collect() == 1
    assert field.going("left")


def test_pods_of_a_replicaset_that_could_not_be_listed_are_not_touched() -> None:
    field = Field()
    uid = field.make("ReplicaSet", "workload", owner=owned_by(field.uid), uid_label=field.uid)
    workload = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "workload", "uid": uid, "controller": True}
    field.make("Pod", "kept", owner=workload, uid_label="another-uid")
    with_answers(field, lambda m, p: BROKEN if p.endswith("/replicasets") else None)
    assert field.collect() == 0
    assert field.there("Pod", "kept")


def test_an_api_server_that_is_away_ends_the_run() -> None:
    def away(method: str, path: str) -> HttpResponse | None:
        raise Transient("connection refused")

    field = with_answers(with_three_orphans(), away)
    with pytest.raises(Transient):
        field.collect()
