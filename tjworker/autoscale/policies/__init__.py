"""The autoscaling policies: one file a policy, one row here, chosen by the setting `autoscale_policy`. Pure.

A policy says by how many replicas each elastic job should change, for all jobs at once; a job that it does not name
keeps its number. It changes none of its arguments, plans no replica that fits on no node, and stays between a job's
minimum and its maximum or ceiling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tjworker.autoscale.policies import fulfillment
from tjworker.autoscale.problem import Problem

Policy = Callable[[Problem], Mapping[str, int]]

POLICIES: Mapping[str, Policy] = {"fulfillment": fulfillment.plan}
"""By the setting's value."""
