"""The last number that still fits and the first that does not, of everything that the autoscaler compares; and that a
cluster as decided is the cluster as it will be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest

from tests.support.builders import PodBuilder, make_node, make_pod
from tests.unit.tjworker.autoscale.test_decide import GPU, NOW, an_elastic, running
from tests.unit.tjworker.autoscale.test_obstacle import ROOM, why
from tjworker.api.node_requests import WAITING, NodeRequests, pod_requests
from tjworker.api.status import Attempts, RoleAttempts
from tjworker.autoscale import AutoscaleRules, JobState, cluster_resource, decide
from tjworker.autoscale.outlook import look_ahead
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import auto_roles

AMD = "amd.com/gpu"
RULES = AutoscaleRules(max_load_desired=1.0)


ACCOUNTS: dict[str, tuple[str, str, str, tuple[int, int, int]]] = {
    "all of its pods run": ("RRR", "", "", (3, 0, 0)),
    "one is expected soon": ("RR", "", "", (2, 0, 1)),
    "none is there yet": ("", "", "", (0, 0, 3)),
    "one is beyond the target": ("RRRR", "", "", (3, 1, 0)),
    "one is being deleted, and another will come": ("RRD", "", "", (2, 1, 1)),
    "one has succeeded: nobody makes it again": ("RRS", "2", "", (2, 0, 0)),
    "one has failed for good": ("RRF", "", "2", (2, 0, 0)),
    "all have succeeded": ("SSS", "0-2", "", (0, 0, 0)),
    "one has succeeded, and more run than are left": ("RRRS", "3", "", (3, 0, 0)),
    "one of those that are wanted has succeeded, and more run than are left": ("SRRR", "0", "", (2, 1, 0)),
}
"""Of a role of three replicas: what its pods do (R runs, D is being deleted, S succeeded, F failed), the completed and
the failed ordinals of its status; pods that stay and that leave, and replicas that are missing."""


@pytest.mark.parametrize("sentence", ACCOUNTS)
def test_each_replica_has_a_pod_needs_none_or_is_missing(sentence: str) -> None:
    does, completed, failed, want = ACCOUNTS[sentence]
    attempts = Attempts(roles={"trainer": RoleAttempts(completed=completed, failed=failed)})
    job = an_elastic(3, attempts=attempts).build()
    ways = {"R": "running", "D": "running", "S": "succeeded", "F": "failed"}
    pods = [getattr(make_pod(job, "trainer", i), ways[letter])() for i, letter in enumerate(does)]
    going = [pod.but(deleted_at="2026-01-01T00:59:00Z") if does[i] == "D" else pod for i, pod in enumerate(pods)]
    (auto,), _ = auto_roles([JobState(job, tuple(pod.build() for pod in going))], NOW, RULES)
    assert (len(auto.staying), len(auto.leaving), auto.missing) == want
    assert len(auto.elastic.placed) == want[0]
    assert (auto.elastic.parallelism, auto.refused) == (3, 0)


FILLED: dict[str, tuple[Mapping[str, Any], NodeRequests]] = {
    "CPU": ({"requests": {"cpu": "2"}}, NodeRequests(cpu_milli=6000)),
    "memory": ({"requests": {"memory": "4G"}}, NodeRequests(memory_bytes=60 * 10**9)),
    "GPU": ({"limits": {GPU: "2"}}, NodeRequests(extended=((GPU, 2),))),
    "pods": ({}, NodeRequests(pods=9)),
}
"""What one replica asks for, and what is asked for already where just one more fits."""
ONE_MORE = {
    "CPU": NodeRequests(cpu_milli=1),
    "memory": NodeRequests(memory_bytes=10**6),
    "GPU": NodeRequests(extended=((GPU, 1),)),
    "pods": NodeRequests(pods=1),
}


@pytest.mark.parametrize("what", FILLED)
def test_the_last_room_is_given_and_none_beyond_and_that_is_what_is_said(what: str) -> None:
    resources, asked = FILLED[what]
    node = make_node("a", cpu="8", memory="64G", pods="10", **{GPU: "4"})
    state = running(an_elastic(1, resources=resources), 1)
    for requests, fits in ((asked, True), (asked.plus(ONE_MORE[what]), False)):
        told = {"a": requests}
        moves = decide([state], {"a": node.build()}, told, NOW, RULES).moves
        assert [(m.from_, m.to) for m in moves] == ([(1, 2)] if fits else [])
        assert (why(state, (node,), told, RULES) == ROOM) is fits


# -- the cluster as it will be -----------------------------------------------------------------------

TEMPLATE = {"limits": {GPU: "2", AMD: "1"}, "requests": {"cpu": "1500m", "memory": "3G"}}
NODES = {
    "a": make_node("a", cpu="16", memory="64G", pods="20", **{GPU: "8", AMD: "8"}).build(),
    "b": make_node("b", cpu="16", memory="64G", pods="20", **{GPU: "8", AMD: "8"}).build(),
    "ill": make_node("ill", cpu="16", memory="64G", **{GPU: "8"}).cordoned().build(),
}
DOES = {
    "runs on a": lambda pod: pod.on("a").running(),
    "goes from b": lambda pod: pod.on("b").running().deleting(),
    "goes from a node that is ill": lambda pod: pod.on("ill").running().deleting(),
    "goes, and had no node": lambda pod: pod.deleting(),
}


def _requests(pods: Sequence[PodBuilder], asks: NodeRequests) -> dict[str, NodeRequests]:
    """As the watcher counts them: a pod without a node waits for one, unless it is being deleted."""
    requests: dict[str, NodeRequests] = {}
    for pod in (pod.build() for pod in pods):
        if pod.node or not pod.deleted_at:
            place = pod.node or WAITING
            requests[place] = requests.get(place, NodeRequests()).plus(asks)
    return requests


def _seen(pods: Sequence[PodBuilder], asks: NodeRequests, kinds: Sequence[str]) -> ClusterResource:
    return cluster_resource(NODES, _requests(pods, asks), kinds)


@pytest.mark.parametrize("kinds", [(GPU, AMD), (AMD, GPU)])
def test_the_cluster_as_decided_is_the_cluster_without_the_pods_that_go(kinds: Sequence[str]) -> None:
    """Whatever each of three trainers does, and where the target is below the pods that there are."""
    for does, target in product(product(DOES, repeat=3), range(1, 4)):
        builder = an_elastic(target, resources=TEMPLATE, most=10)
        job = builder.build()
        made = [DOES[what](make_pod(job, "trainer", i)) for i, what in enumerate(does)]
        staying = [pod for pod in made if not pod.build().deleted_at][:target]
        asks = pod_requests(job.role("trainer").template["spec"])
        rules = AutoscaleRules(gpu_resources=tuple(kinds))
        roles, problems = auto_roles([JobState(job, tuple(pod.build() for pod in made))], NOW, rules)
        assert (len(roles), problems) == (1, [])
        got = look_ahead(NODES, _requests(made, asks), (), roles, rules).resource
        missing = [make_pod(job, "trainer", 9)] * (target - len(staying))
        want = _seen([*staying, *missing], asks, kinds)
        sums = ("cpu_request_milli", "memory_request_mega", "gpu_request", "gpu_limit")
        assert [getattr(got, n) for n in sums] == [getattr(want, n) for n in sums], (does, target)
        # Those that are missing are placed on the first node with room.
        placed = [pod.on("a") for pod in missing]
        assert got.nodes == _seen([*staying, *placed], asks, kinds).nodes, (does, target)
