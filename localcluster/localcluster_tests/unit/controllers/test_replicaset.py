"""ReplicaSets in virtual time: keeping pods alive, adopting, releasing, and who goes first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from localcluster.controllers.common import deletion_order
from localcluster.wire import Json


def _made(name: str, **facts: object) -> Json:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": str(facts["cost"])} if "cost" in facts else {}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": facts.get("ready", "2026-01-01T00:00:00Z")}]
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "annotations": annotations,
            "creationTimestamp": facts.get("created", "2026-01-01T00:00:00Z"),
        },
        "spec": {"nodeName": facts.get("node", "n")},
        "status": {
            "phase": facts.get("phase", "Running"),
            "conditions": conditions if facts.get("ready", True) else [],
            "containerStatuses": [{"restartCount": facts.get("restarts", 0)}],
        },
    }


@dataclass(frozen=True)
class Order:
    first: Json
    then: Json


ORDERS: dict[str, Order] = {
    "A pod without node goes before one with a node": Order(_made("b", node=""), _made("a")),
    "A pending pod goes before a running one": Order(_made("b", phase="Pending"), _made("a")),
    "A pod that is not ready goes before one that is": Order(_made("b", ready=None), _made("a")),
    "A cheaper pod goes before a dearer one": Order(_made("b", cost=-5), _made("a", cost=3)),
    "A pod that became ready later goes first": Order(_made("b", ready="2026-01-02T00:00:00Z"), _made("a")),
    "A pod that restarted more goes first": Order(_made("b", restarts=3), _made("a")),
    "A younger pod goes first": Order(_made("b", created="2026-01-02T00:00:00Z"), _made("a")),
}


@pytest.mark.parametrize("name", ORDERS)
def test_who_is_deleted_first(name: str) -> None:
    case = ORDERS[name]
    assert deletion_order([case.then, case.first]) == [case.first, case.then]


@pytest.mark.parametrize("neighbour", [{}, {"ready": None}], ids=["a ready neighbour", "one that is not ready"])
def test_of_pods_alike_those_crowded_on_one_node_go_first(neighbour: dict[str, object]) -> None:
    alone, crowded = _made("a", node="one"), _made("b", node="two")
    related = [alone, crowded, _made("c", node="two", **neighbour)]
    assert deletion_order([alone, crowded], related) == [crowded, alone]
