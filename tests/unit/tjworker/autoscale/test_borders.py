"""Where a decision turns: room that is just enough, GPUs of replicas that are still to come or to go, and pods whose
ordinal cannot be read."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_node, make_pod
from tests.unit.tjworker.autoscale.test_decide import an_elastic, running
from tjworker.api import labels
from tjworker.api.node_requests import WAITING, NodeRequests
from tjworker.api.status import ScaleCause, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.autoscale import AutoscaleRules, JobState, cluster_resource, decide
from tjworker.autoscale.outlook import look_ahead
from tjworker.autoscale.roles import auto_roles

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


def _gpu_job(replicas: int, made: int, waiting: int = 0, leaving: int = 0) -> JobState:
    """So many pods were made for it, of which the last have no node, or go."""
    job = an_elastic(replicas, least=0, resources={"requests": {GPU: "2"}, "limits": {GPU: "2"}}).build()
    pods = [make_pod(job, "trainer", i) for i in range(made)]
    placed = [pod.on("a").running() for pod in pods[: made - waiting]] + pods[made - waiting :]
    gone = [pod.deleting("2026-01-01T00:59:59Z") for pod in placed[made - leaving :]]
    return JobState(job, tuple(pod.build() for pod in placed[: made - leaving] + gone))


GPUS: dict[str, tuple[JobState, int, int]] = {
    "each has its pod: nothing changes": (_gpu_job(3, 3), 6, 6),
    "one has no pod yet: it will ask for its GPUs": (_gpu_job(3, 2), 4, 6),
    "one waits for a node: it asks already, and will have them": (_gpu_job(3, 3, waiting=1), 6, 6),
    "one is being deleted: it gives its GPUs back": (_gpu_job(2, 3, leaving=1), 6, 4),
    "one is beyond the target: so will it": (_gpu_job(2, 3), 6, 4),
    "one has no node and is beyond the target: what it asks for is nobody's": (_gpu_job(2, 3, waiting=1), 6, 4),
}


@pytest.mark.parametrize(("state", "asked", "want"), GPUS.values(), ids=GPUS.keys())
def test_the_gpus_of_a_cluster_are_those_of_the_decisions_so_far(state: JobState, asked: int, want: int) -> None:
    """Of 16, of which pods ask for so many now."""
    on_node = 2 * sum(bool(pod.node) for pod in state.pods)
    requests = {
        "a": NodeRequests(extended=((GPU, on_node),)),
        WAITING: NodeRequests(extended=((GPU, asked - on_node),)),
    }
    nodes = {"a": make_node("a", **{GPU: "16"}).build()}
    assert cluster_resource(nodes, requests, (GPU,)).gpu_limit == asked
    roles, _ = auto_roles([state], NOW, AutoscaleRules())
    then = look_ahead(nodes, requests, (), roles, AutoscaleRules()).resource
    assert (then.gpu_limit, then.gpu_request) == (want, want)
    assert then.nodes.gpu_free == {"a": 16 - want}


def test_the_pods_that_go_last_have_the_lowest_ordinals_and_those_without_one_go_first() -> None:
    """Five digits are an ordinal; six, a word, digits of another script or nothing are none."""
    by_ordinal = ["0", "2", "10", "99999"]
    unread = ["", "100000", "-1", "two", "\u0663"]
    job = make_job().role("trainer", 9).build()
    names = {text: f"pod-{place}" for place, text in enumerate(unread)}
    pods = [
        make_pod(job, "trainer", 0)
        .but(name=names.get(text, f"z-{text}"), labels={labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: text})
        .build()
        for text in (*unread[::-1], *by_ordinal[::-1])
    ]
    found = [pod.labels[labels.REPLICA_INDEX] for pod in JobState(job, tuple(pods)).of_role(job.role("trainer"))]
    assert found == [*by_ordinal, *unread]


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
