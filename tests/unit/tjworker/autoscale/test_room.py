"""What every decision keeps to, in any cluster: room is given once, and nobody leaves the bounds of the spec."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.support.builders import make_job, make_node, make_pod
from tests.support.seeds import the_seed
from tjworker.api.node_requests import WAITING, NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.api.quantity import milli, whole
from tjworker.autoscale import AutoscaleRules, JobState, cluster_resource, decide

NOW = 1767229200.0
KINDS = ("nvidia.com/gpu", "amd.com/gpu")
GB = 10**9
RUNS = 100
Room = Counter[str]


class Cluster:
    """Nodes, strangers' pods and elastic jobs, drawn: some nodes hold more than they have."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.nodes = {f"n{i}": self._node(f"n{i}") for i in range(draw.randint(1, 4))}
        crowd = draw.choice((1, 1, 3))
        self.asked = {name: self._strangers(crowd) for name in (*self.nodes, WAITING) if draw.random() < 0.7}
        self.states = [self._state(f"job-{i}") for i in range(draw.randint(1, 5))]
        self.load = draw.choice((0.5, 0.97, 1.0))

    def _node(self, name: str) -> NodeRecord:
        has = {kind: str(self.draw.randint(0, 6)) for kind in KINDS if self.draw.random() < 0.7}
        node = make_node(name, cpu=str(self.draw.randint(1, 16)), memory=f"{self.draw.randint(2, 64)}G", **has)
        return (node.cordoned() if self.draw.random() < 0.1 else node).build()

    def _strangers(self, crowd: int) -> NodeRequests:
        gpus = tuple(sorted((kind, self.draw.randint(1, 5)) for kind in KINDS if self.draw.random() < 0.4))
        return NodeRequests(
            crowd * self.draw.randint(0, 9000), crowd * self.draw.randint(0, 20) * GB, pods=1, extended=gpus
        )

    def _state(self, name: str) -> JobState:
        least = self.draw.randint(0, 3)
        most, now = self.draw.randint(least + 1, 12), self.draw.randint(max(1, least), 8)
        self.cost = {"cpu": 1000 * self.draw.randint(0, 3), "memory": self.draw.randint(0, 4)}
        asked: dict[str, str] = {"cpu": f"{self.cost['cpu']}m", "memory": f"{self.cost['memory']}G"}
        gpu = {self.draw.choice(KINDS): "1"} if self.draw.random() < 0.6 else {}
        container = {"name": "aitj-main", "image": "x", "resources": {"requests": asked | gpu, "limits": gpu}}
        template = {"spec": {"containers": [container]}}
        # An edit of the spec may leave a role above its maximum until the autoscaler looks.
        job = make_job(name).role("trainer", now, least=least, most=max(most, now), edl="Auto", template=template)
        built = job.status(phase="Running").build()
        pods = []
        for index in range(now):
            node = self.draw.choice([*self.nodes, ""])
            pod = make_pod(built, "trainer", index)
            pods.append((pod.on(node).running() if node else pod).build())
            own = NodeRequests(
                self.cost["cpu"], self.cost["memory"] * GB, pods=1, extended=tuple((kind, 1) for kind in gpu)
            )
            where = node or WAITING
            self.asked[where] = self.asked.get(where, NodeRequests()).plus(own)
        return JobState(built, tuple(pods))

    def usable(self) -> list[str]:
        return [name for name, node in self.nodes.items() if not node.unschedulable]

    def has(self, node: str, what: str) -> int:
        amount = self.nodes[node].allocatable.get(what, "0")
        return milli(amount) if what == "cpu" else whole(amount)

    def free(self, kind: str) -> int:
        """On whole nodes: what one node lacks is no debt of another."""
        none = NodeRequests()
        return sum(max(0, self.has(n, kind) - self.asked.get(n, none).amount(kind)) for n in self.usable())


def per_replica(state: JobState) -> Room:
    asked = state.job.role("trainer").template["spec"]["containers"][0]["resources"]["requests"]
    return Counter({what: milli(n) if what == "cpu" else whole(n) for what, n in asked.items()})


@pytest.mark.parametrize("policy", ["fulfillment"])
def test_no_more_is_given_than_there_is_and_nobody_leaves_its_bounds(policy: str) -> None:
    seed = the_seed()
    grew = shrank = 0
    for run in range(RUNS):
        cluster = Cluster(random.Random(f"{seed}/{run}"))
        again = f"TJ_TEST_SEED={seed}, run {run}"
        rules = AutoscaleRules(policy, max_load_desired=cluster.load, gpu_resources=KINDS)
        moves = decide(cluster.states, cluster.nodes, cluster.asked, NOW, rules).moves
        assert len({(m.state.job.key, m.role) for m in moves}) == len(moves), again
        given, taken = Counter[str](), Counter[str]()
        for move in moves:
            role = move.state.job.role(move.role)
            assert move.from_ == role.replicas != move.to, again
            assert (role.min_replicas or 0) <= move.to <= (role.max_replicas or 0), again
            cost = per_replica(move.state)
            for what, amount in cost.items():
                (given if move.to > move.from_ else taken)[what] += abs(move.to - move.from_) * amount
            grew, shrank = grew + (move.to > move.from_), shrank + (move.to < move.from_)
        for kind in KINDS:
            assert given[kind] <= cluster.free(kind) + taken[kind], f"{again}: {kind}"
        asked = [cluster.asked.get(name, NodeRequests()) for name in (*cluster.usable(), WAITING)]
        if given["cpu"]:
            has = int(cluster.load * sum(cluster.has(n, "cpu") for n in cluster.usable()))
            assert sum(a.cpu_milli for a in asked) + given["cpu"] - taken["cpu"] <= has, again
        if given["memory"]:
            has = sum(cluster.has(n, "memory") for n in cluster.usable())
            assert sum(a.memory_bytes for a in asked) + given["memory"] - taken["memory"] <= has, again
    assert grew, "of these clusters some have room"
    assert shrank, "and some have too little"


def test_what_one_kind_of_gpu_lacks_is_no_debt_of_the_others() -> None:
    """A node has lost two of its GPUs, whose pods still stand there; those of the other kind are as free as before."""
    node = make_node("a", **{KINDS[0]: "2", KINDS[1]: "3"}).build()
    asked = NodeRequests(extended=((KINDS[1], 1), (KINDS[0], 4)))
    resource = cluster_resource({"a": node}, {"a": asked}, KINDS)
    assert resource.nodes.gpu_free == {"a": 2}
    assert (resource.nodes.others_free[KINDS[1]], resource.nodes.others_free[KINDS[0]]) == ({"a": 2}, {"a": -2})
