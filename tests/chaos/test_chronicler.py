"""What is seen of an API server by several watches, brought into the order in which it was written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.chronicler import Seen, chronicle_of
from tests.model.chronicle import Kind
from tests.support.kinds import AITRAININGJOBS
from tjworker.api.resources import PODS, REPLICASETS
from tjworker.base import GroupResource

Json = dict[str, Any]
JOB = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "digits", "controller": True}
KEEPER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "digits-pserver", "controller": True}


def seen(
    version: int, at: float, name: str, kind: Kind = "ADDED", resource: GroupResource = PODS, owner: Json | None = None
) -> Seen:
    owners = [] if owner is None else [owner]
    meta = {"name": name, "uid": name, "resourceVersion": str(version), "ownerReferences": owners}
    return Seen(version, at, kind, resource, {"metadata": meta})


def test_the_order_is_that_of_the_versions_whichever_watch_was_behind() -> None:
    told = chronicle_of([seen(7, 10.0, "c"), seen(5, 30.0, "a", resource=AITRAININGJOBS), seen(6, 12.0, "b")])
    assert [write.name for write in told.writes] == ["a", "b", "c"]
    assert [round(write.at, 3) for write in told.writes] == [10.0, 10.0, 10.0], "none is later than the one after it"


def test_a_write_has_the_version_before_it() -> None:
    told = chronicle_of([seen(5, 1.0, "a"), seen(8, 2.0, "a", "MODIFIED"), seen(9, 3.0, "a", "DELETED")])
    versions = [write.before and write.before["metadata"]["resourceVersion"] for write in told.writes]
    assert versions == [None, "5", "8"]


def test_a_job_that_a_list_has_shown_has_its_kind() -> None:
    told = chronicle_of([seen(5, 1.0, "digits", resource=AITRAININGJOBS)])
    assert told.writes[0].obj["kind"] == "AITrainingJob"
    assert told.writes[0].bucket == "elasticdeeplearning.ai/aitrainingjobs"


@pytest.mark.parametrize(
    ("one", "author"),
    [
        pytest.param(seen(1, 1.0, "p", owner=JOB), "operator", id="a pod that a job controls was made by the operator"),
        pytest.param(seen(1, 1.0, "p", "MODIFIED", owner=JOB), "unknown", id="who has changed it does not show"),
        pytest.param(seen(1, 1.0, "p", "DELETED", owner=JOB), "unknown", id="nor who has deleted it"),
        pytest.param(seen(1, 1.0, "p", owner=KEEPER), "unknown", id="a pod of a ReplicaSet is its controller's"),
        pytest.param(
            seen(1, 1.0, "r", resource=REPLICASETS, owner=JOB), "operator", id="a ReplicaSet of a job is the operator's"
        ),
    ],
)
def test_who_asked_for_a_write(one: Seen, author: str) -> None:
    assert chronicle_of([one]).writes[0].author == author
