"""The autoscaling policies: one file a policy, one row here, chosen by the setting `autoscale_policy`. Pure.

A policy plans all elastic roles at once, within their bounds, and says of each role why it has what it has. It changes
none of its arguments. `fitting.check_plan` rejects a plan that leaves the bounds, requests more than there is, or adds
a replica that no node has room for; `tests/unit/tjworker/autoscale/test_policies.py` tries every row of this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tjworker.autoscale.policies import fair, fulfillment, goodput, throughput
from tjworker.autoscale.problem import ElasticRole, Plan, Problem, Reason


@dataclass(frozen=True, slots=True)
class Policy:
    plan: Callable[[Problem], Plan]
    explain: Callable[[Problem, Plan, ElasticRole], Reason]
    """Why the plan gives a role what it gives it; asked for roles that move, and for those that a user asks about."""


POLICIES: Mapping[str, Policy] = {
    "fulfillment": Policy(fulfillment.plan, fulfillment.explain),
    "fair": Policy(fair.plan, fair.explain),
    "throughput": Policy(throughput.plan, throughput.explain),
    "goodput": Policy(goodput.plan, goodput.explain),
}
"""By the setting's value."""
