"""Two operators over one cluster: the first serves every namespace but team-a, the second serves team-a. Each has its
own watcher, store and workers; they share the API server, the nodes and the scheduler.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.elastic import COOLDOWN_SECONDS, TICK_SECONDS, elastic
from tests.scenarios.world import World, job, role
from tests.support.clocks import shared
from tests.support.kinds import AITRAININGJOBS
from tests.support.tiers import one_in
from tjworker.api.resources import PODS
from tjworker.autoscale.policies import POLICIES
from tjworker.controllers.autoscaler import Autoscaler
from tjworker.controllers.orphans import OrphanCollector
from tjworker.kube.resources import RESOURCES
from tjworker.settings import Settings

FIRST: dict[str, Any] = {"namespaces_excluded": "team-a"}
SECOND: dict[str, Any] = {"namespaces": "team-a"}
TEAMS = ("team-a", "team-b")
Json = dict[str, Any]


class Cluster:
    """Two operators that work by turns until nothing moves any more."""

    def __init__(self, first: Json, second: Json, *, nodes: int = 2, **both: Any) -> None:
        self.first = World(nodes=nodes, **first, **both)
        self.second = World(beside=self.first, **second, **both)
        self.both = both
        for team in TEAMS:
            self.first.cluster.client.create("/api/v1/namespaces", {"metadata": {"name": team}})

    def restart(self, operator: World, settings: Json) -> Cluster:
        """New processes with other settings, over the Redis that is there."""
        operator.settings = Settings(write_concurrency=1, **settings, **self.both)
        operator.worker = operator.make_worker("restarted")
        operator.start_watcher()
        return self

    def run(self) -> Cluster:
        for _ in range(100):
            before = self.first._revision()
            self.first.run()
            self.second.run()
            if self.first._revision() == before:
                return self
        raise AssertionError("the two operators do not come to rest")

    def advance(self, seconds: int) -> Cluster:
        for _ in range(seconds):
            self.first.cluster.advance(1)
            self.run()
        return self

    def apply(self, namespace: str, manifest: Json) -> Cluster:
        manifest = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
        self.first.apply(manifest)
        return self

    def phase(self, namespace: str, name: str = "digits") -> str:
        found = self.first.cluster.client.get(RESOURCES[AITRAININGJOBS].path(namespace, name))
        return str((found.get("status") or {}).get("phase", ""))

    def pods(self, namespace: str) -> dict[str, Json]:
        found = self.first.cluster.client.get(RESOURCES[PODS].path(namespace))["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def uids(self, namespace: str) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods(namespace).items()}

    def delete_pod(self, namespace: str, name: str) -> Cluster:
        self.first.cluster.client.delete(f"{RESOURCES[PODS].path(namespace)}/{name}", {"gracePeriodSeconds": 0})
        return self


def touched(operator: World, since: int = 0) -> set[str]:
    """The namespaces of TEAMS in which this operator's worker has asked for anything."""
    paths = [path for _, path in operator.transport.requests[since:]]
    return {team for team in TEAMS if any(f"/namespaces/{team}/" in path for path in paths)}


def known(operator: World) -> set[str]:
    """The namespaces of the jobs in this operator's Redis."""
    return {key.split("/")[1] for key in operator.store.projection.known_keys()}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(FIRST, SECOND)


def test_each_operator_serves_its_own_namespaces_and_touches_no_other(cluster: Cluster) -> None:
    for team in TEAMS:
        cluster.apply(team, job({"trainer": role(2)}))
    cluster.run().advance(10)
    assert {team: cluster.phase(team) for team in TEAMS} == dict.fromkeys(TEAMS, "Running")
    assert (touched(cluster.first), touched(cluster.second)) == ({"team-b"}, {"team-a"})
    assert (known(cluster.first), known(cluster.second)) == ({"team-b"}, {"team-a"})


MOVES: dict[str, list[tuple[Json, Json]]] = {
    "The second operator starts first; for a while both serve the namespace.": [({}, SECOND), (FIRST, SECOND)],
    "The first operator lets go first; for a while nobody serves the namespace.": [
        (FIRST, {"namespaces": "team-c"}),
        (FIRST, SECOND),
    ],
    "Both change at once.": [(FIRST, SECOND)],
    "The namespace goes to the second operator and comes back.": [
        (FIRST, SECOND),
        ({}, SECOND),
        ({}, {"namespaces": "team-c"}),
    ],
}


@pytest.mark.parametrize("steps", MOVES.values(), ids=MOVES)
def test_a_namespace_moves_between_operators_and_no_healthy_pod_is_touched(steps: list[tuple[Json, Json]]) -> None:
    cluster = Cluster({}, {"namespaces": "team-c"})
    for team in TEAMS:
        cluster.apply(team, job({"trainer": role(2, restartPolicy="OnFailure")}))
    cluster.run().advance(5)
    before = {team: cluster.uids(team) for team in TEAMS}
    assert [len(uids) for uids in before.values()] == [2, 2]
    for first, second in steps:
        cluster.restart(cluster.first, first).restart(cluster.second, second)
        cluster.run().advance(15)
        assert {team: cluster.uids(team) for team in TEAMS} == before
        assert {team: cluster.phase(team) for team in TEAMS} == dict.fromkeys(TEAMS, "Running")


def test_the_new_operator_of_a_namespace_replaces_what_is_lost_after_the_move(cluster: Cluster) -> None:
    cluster.restart(cluster.first, {}).restart(cluster.second, {"namespaces": "team-c"})
    cluster.apply("team-a", job({"trainer": role(2)})).run().advance(5)
    before = cluster.uids("team-a")
    cluster.restart(cluster.first, FIRST).restart(cluster.second, SECOND).run()
    since = len(cluster.first.transport.requests)
    cluster.delete_pod("team-a", "digits-trainer-1").run().advance(40)
    after = cluster.uids("team-a")
    assert after["digits-trainer-0"] == before["digits-trainer-0"]
    assert after["digits-trainer-1"] != before["digits-trainer-1"]
    assert touched(cluster.first, since) == set()


def test_an_operator_that_gets_a_namespace_back_decides_on_nothing_old(cluster: Cluster) -> None:
    """Its Redis still knows the versions up to which it had watched. A watch from there shows of the namespace only
    what changes, and a job without its pods looks as if they were lost."""
    cluster.restart(cluster.first, {}).restart(cluster.second, {"namespaces": "team-c"})
    cluster.apply("team-a", job({"trainer": role(2, restartPolicy="OnFailure")})).run().advance(5)
    cluster.restart(cluster.first, FIRST).restart(cluster.second, SECOND).run()
    cluster.delete_pod("team-a", "digits-trainer-1").run().advance(40)
    before, status = cluster.uids("team-a"), cluster.phase("team-a")
    cluster.restart(cluster.second, {"namespaces": "team-c"}).restart(cluster.first, {})
    cluster.first.watcher.lists = False  # resumed watches come before the lists
    path = RESOURCES[AITRAININGJOBS].path("team-a", "digits")
    cluster.first.cluster.client.patch(path, {"metadata": {"annotations": {"a": "b"}}})
    cluster.run()
    assert not cluster.first.watcher.resumed_watches
    cluster.first.watcher.lists = True
    cluster.run().advance(10)
    assert (cluster.uids("team-a"), cluster.phase("team-a")) == (before, status)


LEFT: dict[str, tuple[Json, Json]] = {
    "the operator now excludes": ({}, FIRST),
    "was taken off the operator's list": ({"namespaces": "team-a,team-b"}, {"namespaces": "team-b"}),
}


@pytest.mark.parametrize(("before", "after"), LEFT.values(), ids=LEFT)
def test_redis_forgets_the_jobs_of_a_namespace_that(before: Json, after: Json) -> None:
    """No watch keeps them up to date any more, and each full resync would decide on them."""
    cluster = Cluster(before, {"namespaces": "team-c"})
    for team in TEAMS:
        cluster.apply(team, job({"trainer": role(1)}))
    cluster.run()
    assert known(cluster.first) == set(TEAMS)
    cluster.restart(cluster.first, after).run()
    assert known(cluster.first) == {"team-b"}


def test_a_worker_leaves_the_key_of_another_operators_namespace_alone() -> None:
    """During a rollout the watcher may have the settings of before, and queue it."""
    cluster = Cluster({}, {"namespaces": "team-c"})
    cluster.apply("team-a", job({"trainer": role(1)}))
    cluster.first.settings = Settings(write_concurrency=1, **FIRST)
    cluster.first.worker = cluster.first.make_worker("new")
    cluster.run().advance(5)
    assert (cluster.pods("team-a"), touched(cluster.first)) == ({}, set())
    assert "another operator serves the job's namespace" in cluster.first.results[-1]


def test_each_operator_collects_the_orphans_of_its_own_namespaces(cluster: Cluster) -> None:
    owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": "gone", "uid": "u"}
    labels = {"elasticdeeplearning.ai/job-uid": "u", "job-name": "gone", "group-name": "elasticdeeplearning.ai"}
    meta = {"name": "left", "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
    spec = {"containers": [{"name": "a", "image": "b"}]}
    for team in TEAMS:
        cluster.first.cluster.client.create(
            RESOURCES[PODS].path(team), {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        )
    left = []
    for operator in (cluster.first, cluster.second):
        clock = shared(lambda: cluster.first.clock() + 61)
        OrphanCollector(operator.store, operator.api, operator.settings, clock=clock).collect()
        left.append({team for team in TEAMS if cluster.pods(team)})
    assert left == [{"team-a"}, set()]


# -- shared nodes ------------------------------------------------------------------------------------
class Autoscaled(Cluster):
    """One node of eight CPUs. Each operator's autoscaler runs every TICK_SECONDS, the second one half a tick later."""

    def __init__(self, policies: tuple[str, str] = ("fulfillment", "fulfillment")) -> None:
        super().__init__(
            FIRST | {"autoscale_policy": policies[0]},
            SECOND | {"autoscale_policy": policies[1]},
            nodes=1,
            autoscale_seconds=TICK_SECONDS,
            autoscale_cooldown_seconds=COOLDOWN_SECONDS,
        )
        self.scalers = [
            Autoscaler(one.store, one.api, one.settings, clock=shared(one.clock)) for one in (self.first, self.second)
        ]
        self._ran = -1

    def advance(self, seconds: int) -> Cluster:
        for _ in range(seconds):
            super().advance(1)
            at = int(self.first.clock())
            for number, scaler in enumerate(self.scalers):
                if (at + number * TICK_SECONDS // 2) % TICK_SECONDS == 0:
                    scaler.run()
            self.run()
        return self

    def targets(self) -> dict[str, int]:
        return {
            team: sum(not pod["metadata"].get("deletionTimestamp") for pod in self.pods(team).values())
            for team in TEAMS
        }

    def waiting(self) -> int:
        return sum(not pod["spec"].get("nodeName") for team in TEAMS for pod in self.pods(team).values())


def test_an_autoscaler_counts_the_pods_of_the_other_operator_as_used() -> None:
    cluster = Autoscaled()
    cluster.apply("team-b", elastic("first", 1, 1, 10)).advance(60)
    full = cluster.targets()["team-b"]
    cluster.apply("team-a", elastic("second", 1, 1, 10)).advance(120)
    targets = cluster.targets()
    assert cluster.waiting() == 0
    assert sum(targets.values()) == full, "they share what one has filled"
    assert targets["team-a"] >= 1


PAIRS = [*((name, name) for name in POLICIES), *(("fulfillment", name) for name in POLICIES if name != "fulfillment")]


@pytest.mark.parametrize("policies", one_in(4, PAIRS))
def test_two_autoscalers_come_to_rest(policies: tuple[str, str]) -> None:
    """Both see the same room and both take it. The pods that then find no node are taken back, and nothing moves any
    more."""
    cluster = Autoscaled(policies)
    cluster.apply("team-a", elastic("mine", 1, 1, 10)).apply("team-b", elastic("yours", 1, 1, 10))
    cluster.advance(8 * COOLDOWN_SECONDS)
    rested = {team: cluster.uids(team) for team in TEAMS}
    assert cluster.waiting() == 0
    cluster.advance(11 * COOLDOWN_SECONDS)  # a replica that was taken back is tried again after ten
    assert {team: cluster.uids(team) for team in TEAMS} == rested
