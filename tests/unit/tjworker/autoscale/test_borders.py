"""Where a decision turns: room that is just enough, and how long a role rests that has shrunk."""

from __future__ import annotations

import pytest

from tests.support.builders import make_node
from tests.unit.tjworker.autoscale.test_decide import an_elastic, running
from tjworker.api.node_requests import NodeRequests
from tjworker.api.status import ScaleCause, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.autoscale import AutoscaleRules, decide

NOW = 1767229200.0
GPU = "nvidia.com/gpu"
GB = 10**9
AMPLE = {"cpu": "64", "memory": "640G", GPU: "64"}
ONE_EACH = {"requests": {"cpu": "1", "memory": "1G", GPU: "1"}, "limits": {GPU: "1"}}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a job that asks for nothing"])
@pytest.mark.parametrize("scarce", AMPLE)
@pytest.mark.parametrize("there", [2, 3, 4, 5])
def test_what_is_just_enough_is_enough(scarce: str, there: int, beside: bool) -> None:
    """Three replicas run and take one of everything each. Of one thing there is as much as they take, one too little,
    or more."""
    has = {**AMPLE, scarce: f"{there}G" if scarce == "memory" else str(there)}
    node = make_node("a", cpu=has["cpu"], memory=has["memory"], **{GPU: has[GPU]}).build()
    asked = {"a": NodeRequests(3000, 3 * GB, pods=4, extended=((GPU, 3),))}
    states = [running(an_elastic(3, most=10, resources=ONE_EACH))]
    if beside:
        states.append(running(an_elastic(1, most=9, name="other", resources={})))
    moves = decide(states, {"a": node}, asked, NOW, AutoscaleRules(max_load_desired=1.0, gpu_resources=(GPU,))).moves
    found = {move.state.job.name.name: move.to for move in moves}
    assert found.get("digits", 3) == there


COOLDOWN_SECONDS = 30.0
RESTS: dict[str, tuple[ScaleCause, float]] = {
    "a user has scaled it down": ("user", 30),
    "the policy gave its room to another job": ("shared", 30),
    "maxReplicas was lowered and raised again": ("bounds", 30),
    "the cluster has refused replicas": ("refused", 300),
    "an older worker shrank it, and wrote no cause": ("", 30),
    "a cause that only a growth has stands beside it": ("room", 30),
}
"""Why a role has shrunk -> for how many seconds it does not grow (docs/autoscaler.md)."""


def changed(from_: int, to: int, seconds_ago: float, cause: ScaleCause) -> ScaleRecord:
    return ScaleRecord(role="trainer", from_=from_, to=to, time=to_rfc3339(NOW - seconds_ago), cause=cause)


def grown_to(*newest_first: ScaleRecord) -> int:
    """Of two trainers with room for eight."""
    state = running(an_elastic(2, scale_records=newest_first))
    node = make_node("a", cpu="8", memory="64G").build()
    rules = AutoscaleRules(max_load_desired=1.0, cooldown_seconds=COOLDOWN_SECONDS)
    moves = decide([state], {"a": node}, {"a": NodeRequests(2000, 2 * GB, pods=2)}, NOW, rules).moves
    return next((move.to for move in moves), 2)


@pytest.mark.parametrize(("cause", "rest_seconds"), RESTS.values(), ids=RESTS.keys())
def test_a_role_that_has_shrunk_rests_whatever_the_cause(cause: ScaleCause, rest_seconds: float) -> None:
    assert grown_to(changed(4, 2, rest_seconds - 1, cause)) == 2
    assert grown_to(changed(4, 2, rest_seconds, cause)) == 8
