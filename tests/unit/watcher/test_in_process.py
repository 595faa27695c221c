"""The whole watcher on the local cluster's API server, in one process and in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from benchmarks.support.inprocess import InProcessTransport, InProcessWatcher
from localcluster.cluster import LocalCluster
from tests.support import fast_yaml as yaml
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.support.queueing import acquire_one, finish_one
from tjworker.api.kinds import JOB_KINDS
from tjworker.api.records_json import decode_view
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.kube.client import KubeClient
from tjworker.settings import Settings
from watcher.historian import Historian

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")
NOT_INSTALLED = tuple(
    f"/apis/{kind.group}/{kind.versions[0]}/{kind.plural}" for kind in JOB_KINDS if kind.resource != AITRAININGJOBS
)
"""The watcher looks every now and then whether their CRDs are there."""
CRDS = Path(__file__).parents[3] / "k8s" / "crds"
JOB: dict[str, Any] = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {"name": "digits", "namespace": "default"},
    "spec": {
        "replicaSpecs": {
            "trainer": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "aitj-main", "image": "x", "command": ["true"]}]}},
            }
        }
    },
}


class Bench:
    def __init__(self, *, page_size: int = 500, crd: bool = True, seed: int = 1) -> None:
        self.cluster = LocalCluster(nodes=2, seed=seed)
        self.kube = KubeClient(InProcessTransport(self.cluster.apiserver.handle))
        if crd:
            self.install()
        self.store = MemoryStore(clock=self.cluster.clock)
        self.published: list[JobKey] = []
        self.page_size = page_size
        self.token = 0
        self.watcher = self.new_watcher()

    def install(self) -> None:
        definition = yaml.safe_load((CRDS / "aitrainingjobs.elasticdeeplearning.ai.yaml").read_text())
        self.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        self.cluster.run_until_idle()

    def new_watcher(self, historian: Historian | None = None) -> InProcessWatcher:
        self.token += 1
        self.historian = historian
        self.watcher = InProcessWatcher(
            self.cluster.apiserver.handle,
            self.store,
            self.published.extend,
            now=self.cluster.clock,
            token=self.token,
            settings=Settings(list_page_size=self.page_size),
            historian=historian,
        )
        return self.watcher

    def settle(self) -> None:
        """Cluster and watcher until both rest; then a worker lets go of every key."""
        for _ in range(3):
            self.cluster.run_until_idle()
            self.watcher.pump()
            self.cluster.advance(1)
        for key in dict.fromkeys(self.published):
            claim = acquire_one(self.store.queue, key, "w", 30)
            if claim is not None:
                finish_one(self.store.queue, claim)
        self.published.clear()

    def pod(self, name: str, owner: dict[str, Any]) -> dict[str, Any]:
        meta = owner["metadata"]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "ownerReferences": [
                    {
                        "apiVersion": owner["apiVersion"],
                        "kind": owner["kind"],
                        "name": meta["name"],
                        "uid": meta["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "aitj-main", "image": "x", "command": ["sleep", "60"]}],
            },
        }

    def observed(self) -> Any:
        view = self.store.projection.view(KEY)
        return decode_view(view.job, view.children, seen=view.seen)


def test_a_job_and_its_pods_reach_the_projection_and_follow_the_cluster() -> None:
    bench = Bench()
    made = bench.kube.create(AITRAININGJOBS, "default", JOB)
    pod = bench.kube.create(PODS, "default", bench.pod("digits-trainer-0", made))
    bench.settle()
    raw, observed = bench.observed()
    assert raw["metadata"]["uid"] == made["metadata"]["uid"]
    assert bench.store.projection.view(KEY).synced
    assert [(p.name, p.phase) for p in observed.pods] == [("digits-trainer-0", "Running")]
    assert observed.seen["pods"] >= int(pod["metadata"]["resourceVersion"])
    bench.kube.delete(PODS, "default", "digits-trainer-0", uid=pod["metadata"]["uid"], grace_seconds=0)
    bench.watcher.pump()
    assert bench.observed()[1].pods == ()
    assert bench.published == [KEY]


def test_a_pod_of_an_earlier_job_that_goes_after_the_end_of_the_next_is_gone_for_the_third() -> None:
    """Whose slot it would keep: a pod of another owner is waited for."""
    bench = Bench()

    def make() -> dict[str, Any]:
        return bench.kube.create(AITRAININGJOBS, "default", JOB)

    def remove(resource: Any, found: dict[str, Any]) -> None:
        bench.kube.delete(resource, "default", found["metadata"]["name"], uid=found["metadata"]["uid"], grace_seconds=0)
        bench.watcher.pump()

    first = make()
    pod = bench.kube.create(PODS, "default", bench.pod("digits-trainer-0", first))
    bench.watcher.pump()
    remove(AITRAININGJOBS, first)
    second = make()
    ended = {**second, "status": {"phase": "Failed", "observedGeneration": second["metadata"]["generation"]}}
    bench.kube.update_status(AITRAININGJOBS, "default", "digits", ended)
    bench.watcher.pump()
    bench.kube.merge_patch(PODS, "default", "digits-trainer-0", {"metadata": {"labels": {"going": "yes"}}})
    bench.watcher.pump()
    remove(PODS, pod)
    remove(AITRAININGJOBS, second)
    third = make()
    bench.watcher.pump()
    raw, observed = bench.observed()
    assert (raw["metadata"]["uid"], observed.pods) == (third["metadata"]["uid"], ())


def test_a_quiet_cluster_costs_no_task_no_list_and_no_write() -> None:
    bench = Bench()
    bench.kube.create(AITRAININGJOBS, "default", JOB)
    bench.settle()
    requests = len(bench.watcher.transport.requests)
    for _ in range(20):
        bench.cluster.advance(5)
        bench.watcher.pump()
    assert bench.published == []
    assert {method for method, _ in bench.watcher.transport.requests[requests:]} <= {"WATCH", "GET"}
    lists = [
        path
        for method, path in bench.watcher.transport.requests[requests:]
        if method == "GET" and not path.startswith(NOT_INSTALLED)
    ]
    assert lists == []


def test_an_emptied_redis_is_filled_again() -> None:
    bench = Bench()
    made = bench.kube.create(AITRAININGJOBS, "default", JOB)
    bench.kube.create(PODS, "default", bench.pod("digits-trainer-0", made))
    bench.settle()
    before = bench.observed()
    bench.store.flush()
    for _ in range(3):
        bench.cluster.advance(3)
        bench.watcher.pump()
    assert bench.store.projection.view(KEY).synced
    after = bench.observed()
    assert (after[0], after[1].pods) == (before[0], before[1].pods)
    assert bench.published == [KEY]


def test_history_that_is_compacted_away_makes_a_list_with_a_difference() -> None:
    bench = Bench()
    made = bench.kube.create(AITRAININGJOBS, "default", JOB)
    pod = bench.kube.create(PODS, "default", bench.pod("digits-trainer-0", made))
    bench.settle()
    bench.kube.delete(PODS, "default", "digits-trainer-0", uid=pod["metadata"]["uid"], grace_seconds=0)
    bench.cluster.advance(1000)
    for _ in range(3):
        bench.watcher.pump()
        bench.cluster.advance(1)
    assert bench.observed()[1].pods == ()
    assert orjson.loads(bench.store.projection.view(KEY).job or b"{}")["kind"] == "AITrainingJob"
