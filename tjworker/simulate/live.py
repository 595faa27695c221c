"""What each policy would do with a cluster as it is now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tjworker.api.node_requests import NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.api.waiting_pods import WaitingPods
from tjworker.autoscale import POLICIES, Decision, JobState, Rules, decide
from tjworker.simulate.scenario import ScenarioError


def decide_once(
    policy: str,
    states: Sequence[JobState],
    nodes: Mapping[str, NodeRecord],
    requests: Mapping[str, NodeRequests],
    now: float,
    rules: Rules,
    waiting: Sequence[WaitingPods],
) -> Decision:
    """`now` is in Unix seconds. Raises ScenarioError for a policy that does not exist."""
    if policy not in POLICIES:
        raise ScenarioError(f"policy {policy!r} does not decide about a live cluster; there are {', '.join(POLICIES)}")
    return decide(states, nodes, requests, now, replace(rules, policy=policy), waiting)
