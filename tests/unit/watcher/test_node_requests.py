"""What the pods of each node ask for: sums that follow every change and never drift from a recount."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks.support.inprocess import InProcessWatcher
from localcluster.cluster import LocalCluster
from tests.scenarios.world import play
from tests.support.builders import make_node
from tests.support.memory_store import MemoryStore
from tests.support.seeds import the_seed
from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests, decode_node_requests, pod_requests
from tjworker.api.placement import may_go_to
from tjworker.api.waiting_pods import WaitingPods, decode_waiting_pods, is_waiting_name
from tjworker.settings import Settings
from watcher.node_requests import RequestBook

Json = dict[str, Any]
ONE = NodeRequests(1000, 5, 0, 0, 1)


def a_pod(node: str = "n", cpu: str = "1", *, phase: str = "Running", gates: bool = False, going: bool = False) -> Json:
    gate = {"schedulingGates": [{"name": "g"}]} if gates else {}
    container = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "5"}}}
    return {
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {},
        "status": {"phase": phase},
        "spec": {**({"nodeName": node} if node else {}), **gate, "containers": [container]},
    }


PODS = {
    "a pod on a node": (a_pod(), {"n": ONE}),
    "a pod that waits for a node": (a_pod("", phase="Pending"), {WAITING: ONE}),
    "a pod with a node that has not started": (a_pod(phase="Pending"), {"n": ONE}),
    "a pod that is going, on its node until it has gone": (a_pod(going=True), {"n": ONE}),
    "a pod that is going and never had one": (a_pod("", going=True, phase="Pending"), {}),
    "a pod that may not be scheduled yet": (a_pod("", gates=True, phase="Pending"), {}),
    "a pod that has succeeded": (a_pod(phase="Succeeded"), {}),
    "a pod that no API server lets in takes its place all the same": (a_pod(cpu="one"), {"n": NodeRequests(pods=1)}),
}


@pytest.mark.parametrize("sentence", PODS)
def test_where_a_pod_counts(sentence: str) -> None:
    pod, want = PODS[sentence]
    book = RequestBook()
    book.put(("default", "p"), pod, 1)
    found = book.touched()
    assert {name: sum_ for name, sum_ in found.items() if not is_waiting_name(name)} == want
    assert any(map(is_waiting_name, found)) is (WAITING in want)
    book.remove(("default", "p"))
    assert book.touched() == dict.fromkeys(found, NOTHING)


def waiting(book: RequestBook) -> list[WaitingPods]:
    return [sum_ for sum_ in book.touched().values() if isinstance(sum_, WaitingPods)]


def test_pods_that_wait_and_are_alike_stand_together_under_the_name_of_the_first() -> None:
    book = RequestBook()
    for name in ("a", "b", "c"):
        book.put(("default", name), a_pod("", phase="Pending"), 1)
    assert waiting(book) == [WaitingPods(ONE, 3, "default/a")]
    book.remove(("default", "a"))
    assert waiting(book) == [WaitingPods(ONE, 2, "default/b")]
    book.put(("default", "b"), a_pod(), 2)
    assert waiting(book) == [WaitingPods(ONE, 1, "default/c")]


def test_a_pod_that_says_too_much_about_where_it_may_go_can_go_nowhere() -> None:
    pod = a_pod("", phase="Pending")
    pod["spec"]["nodeSelector"] = {f"key-{i}": "x" * 60 for i in range(100)}
    book = RequestBook()
    book.put(("default", "p"), pod, 1)
    (found,) = waiting(book)
    assert not may_go_to(make_node("a").build(), found.constraints)


def random_pod(rng: random.Random, name: str) -> Json:
    annotations = play(run_seconds=rng.randint(1, 30), exit_code=rng.randint(0, 1))
    requests = {"cpu": rng.choice(["100m", "1", "40"])}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}],
        },
    }


def recount(pods: list[Json]) -> dict[str, NodeRequests]:
    sums: dict[str, NodeRequests] = {}
    for pod in pods:
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        node = pod["spec"].get("nodeName") or ("" if pod["metadata"].get("deletionTimestamp") else WAITING)
        if node:
            sums[node] = sums.get(node, NOTHING).plus(pod_requests(pod["spec"], pod["status"]))
    return sums


@pytest.mark.parametrize("seed", [None, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3))])
def test_whatever_happens_the_sums_are_those_of_a_recount(seed: int | None) -> None:
    """Pods come, are bound, run, end and go; watches break, watchers are replaced, Redis is emptied."""
    seed = the_seed() if seed is None else seed
    rng = random.Random(seed)
    cluster = LocalCluster(seed=seed, nodes=3)
    store = MemoryStore(clock=cluster.clock)
    tokens = iter(range(1, 1000))

    def a_watcher() -> InProcessWatcher:
        return InProcessWatcher(
            cluster.apiserver.handle,
            store,
            lambda keys: None,
            now=cluster.clock,
            token=next(tokens),
            settings=Settings(list_page_size=rng.choice([2, 500]), namespaces=rng.choice(["", "default,other"])),
        )

    cluster.client.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    watcher, made = a_watcher(), 0
    for _ in range(60):
        what = rng.choice(["make", "make", "make", "delete", "wait", "wait", "wait", "restart", "flush"])
        namespace = rng.choice(["default", "other"])
        folder = f"/api/v1/namespaces/{namespace}/pods"
        if what == "make":
            made += 1
            cluster.client.create(folder, random_pod(rng, f"p{made}"))
        elif what == "delete" and (there := cluster.client.get(folder)["items"]):
            cluster.client.delete(f"{folder}/{rng.choice(there)['metadata']['name']}")
        elif what == "wait":
            cluster.advance(rng.choice([1, 5, 20]))
        elif what == "restart":
            watcher = a_watcher()
        elif what == "flush":
            store.flush()
        cluster.run_until_idle()
        watcher.pump()
        if rng.random() < 0.5:
            continue
        # An emptied Redis is noticed by one step, listed again by the next, and written by the third.
        for _ in range(3):
            cluster.advance(2)
            watcher.pump()
        written = store.projection.cluster().node_requests
        told = {node: decode_node_requests(data) for node, data in written.items() if not is_waiting_name(node)}
        assert store.projection.cluster().synced, f"seed {seed}"
        assert told == recount(cluster.client.get("/api/v1/pods")["items"]), f"seed {seed}, after {what}"
        alike = [decode_waiting_pods(data) for name, data in written.items() if is_waiting_name(name)]
        assert sum(one.pods for one in alike) == told.get(WAITING, NOTHING).pods, f"seed {seed}, after {what}"
