"""Which nodes a pod may go to, as the scheduler reads its spec."""

from __future__ import annotations

from typing import Any

import pytest

from tjworker.api.observed import NodeRecord
from tjworker.api.placement import constraints_of, may_go_to

NODE = NodeRecord("a", "u", 1, labels={"zone": "z1", "cores": "8"})
TAINTED = NodeRecord("a", "u", 1, taints=(("gpu", "yes", "NoSchedule"),))


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def by_label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


CASES: dict[str, tuple[NodeRecord, dict[str, Any], bool]] = {
    "nothing said": (NODE, {}, True),
    "a node selector that matches": (NODE, {"nodeSelector": {"zone": "z1"}}, True),
    "one of two labels of the selector is another": (NODE, {"nodeSelector": {"zone": "z1", "cores": "9"}}, False),
    "a label that no node has": (NODE, {"nodeSelector": {"nowhere": "at-all"}}, False),
    "In": (NODE, affinity(by_label("zone", "In", "z0", "z1")), True),
    "In, of others": (NODE, affinity(by_label("zone", "In", "z2")), False),
    "NotIn": (NODE, affinity(by_label("zone", "NotIn", "z1")), False),
    "NotIn, of a label that is not there": (NODE, affinity(by_label("rack", "NotIn", "r1")), True),
    "Exists": (NODE, affinity(by_label("rack", "Exists")), False),
    "DoesNotExist": (NODE, affinity(by_label("rack", "DoesNotExist")), True),
    "Gt": (NODE, affinity(by_label("cores", "Gt", "7")), True),
    "Gt, the same": (NODE, affinity(by_label("cores", "Gt", "8")), False),
    "Lt": (NODE, affinity(by_label("cores", "Lt", "9")), True),
    "Lt of what is no number": (NODE, affinity(by_label("zone", "Lt", "9")), False),
    "an operator that does not exist yet": (NODE, affinity(by_label("zone", "Near", "z1")), False),
    "one of two terms is enough": (NODE, affinity(by_label("zone", "In", "z2"), by_label("cores", "Exists")), True),
    "a term needs all that it says": (
        NODE,
        affinity({"matchExpressions": [{"key": key, "operator": "Exists"} for key in ("zone", "x")]}),
        False,
    ),
    "an empty term matches nothing": (NODE, affinity({}), False),
    "no terms match nothing": (NODE, affinity(), False),
    "the node's own name": (
        NODE,
        affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}),
        False,
    ),
    "a taint": (TAINTED, {}, False),
    "a taint that is tolerated": (
        TAINTED,
        {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]},
        True,
    ),
    "tolerated with another value": (TAINTED, {"tolerations": [{"key": "gpu", "value": "no"}]}, False),
    "tolerated for another effect": (
        TAINTED,
        {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]},
        False,
    ),
    "everything is tolerated": (TAINTED, {"tolerations": [{"operator": "Exists"}]}, True),
}


@pytest.mark.parametrize(("node", "spec", "want"), CASES.values(), ids=CASES.keys())
def test_whether_a_pod_may_go_to_a_node(node: NodeRecord, spec: dict[str, Any], want: bool) -> None:
    assert may_go_to(node, constraints_of(spec)) is want
