"""The autoscaling policies. Each has a file, and a row in the table here; the setting `autoscale_policy` names a row.
Pure.

A policy plans all elastic roles at once, within their bounds, and explains the number of replicas of each role. It
changes none of its arguments. `fitting.check_plan` rejects a plan that leaves the bounds, requests more than the
cluster has, or adds a replica that no node has room for. `tests/unit/tjworker/autoscale/test_policies.py` tests every
row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tjworker.autoscale.policies import fair, fulfillment, goodput, throughput
from tjworker.autoscale.problem import ElasticRole, Problem, Reason, ScalePlan


@dataclass(frozen=True, slots=True)
class Policy:
    plan: Callable[[Problem], ScalePlan]
    explain: Callable[[Problem, ScalePlan, ElasticRole], Reason]
    """Why the plan gives a role its number of replicas. Called for roles that move or are explained."""


POLICIES: Mapping[str, Policy] = {
    "fulfillment": Policy(fulfillment.plan, fulfillment.explain),
    "fair": Policy(fair.plan, fair.explain),
    "throughput": Policy(throughput.plan, throughput.explain),
    "goodput": Policy(goodput.plan, goodput.explain),
}
"""Value of the setting -> policy."""
