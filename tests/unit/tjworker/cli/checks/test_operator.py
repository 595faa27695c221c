"""What `tj doctor` says of the operator's processes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from benchmarks.support.inprocess import InProcessTransport
from localcluster.apiserver import ApiServer
from tests.support.memory_store import MemoryStore
from tjworker.api.resources import LEASES
from tjworker.cli.checks import operator
from tjworker.cli.checks.check import State
from tjworker.kube.client import KubeClient
from tjworker.scope import PART_OF, Scope
from tjworker.settings import Settings
from tjworker.store.keys import BY_NAME
from tjworker.store.work_queue import QueueStats

NOW = datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC)


def lease(
    renewed: str = "2026-01-01T12:00:25.000000Z", holder: str = "vm_1", name: str = "tj-watcher"
) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }


@dataclass(frozen=True)
class Case:
    want_state: State
    want_detail: str
    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By namespace."""
    settings: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "a Lease that is renewed": Case("ok", "vm_1 holds Lease default/tj-watcher, renewed 5 s ago", {"default": lease()}),
    "of two, the one that lives": Case(
        "ok", "tj-system/tj-watcher", {"default": lease("2026-01-01T11:00:00.000000Z"), "tj-system": lease()}
    ),
    "one that is not renewed any more": Case(
        "failed", "vm_1 has not renewed it for 60 s (it lasts 15 s)", {"default": lease("2026-01-01T11:59:30.000000Z")}
    ),
    "one that a renewal may be under way for": Case(
        "ok", "renewed 17 s ago", {"default": lease("2026-01-01T12:00:13.000000Z")}
    ),
    "one whose time is ahead of the server's": Case(
        "ok", "renewed 0 s ago", {"default": lease("2026-01-01T12:00:31.000000Z")}
    ),
    "none": Case("failed", "there is no Lease tj-watcher in default or tj-system"),
    "that of another operator is none of ours": Case(
        "failed", "no Lease mine-watcher", {"default": lease()}, {"key_prefix": "mine"}
    ),
    "without election there is nothing to look at": Case(
        "skipped", "TJ_LEADER_ELECT", settings={"leader_elect": False}
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_who_leads(case: Case) -> None:
    api = KubeClient(InProcessTransport(ApiServer(clock=lambda: 1e9, rng=random.Random(1)).handle))
    for namespace, body in case.leases.items():
        if namespace != "default":
            api._transport.request(
                "POST", "/api/v1/namespaces", body=b'{"metadata": {"name": "%s"}}' % namespace.encode()
            )
        api.create(LEASES, namespace, body)
    found = operator.leader(api, Settings(**case.settings), NOW)
    assert (found.state, bool(found.advice)) == (case.want_state, case.want_state == "failed")
    assert case.want_detail in found.detail


STATS: dict[str, tuple[QueueStats, State]] = {
    "an empty queue": (QueueStats(0, 0, 0, 0.0, 0, 0), "ok"),
    "a queue without a worker": (QueueStats(5, 0, 0, 300.0, 5, 0), "failed"),
    "a long queue that is young": (QueueStats(5000, 0, 2, 60.0, 5000, 0), "ok"),
    "one key that is just too old": (QueueStats(1, 0, 0, 60.1, 1, 0), "failed"),
    "keys that fail": (QueueStats(0, 2, 0, 0.0, 5, 2), "warning"),
}


@pytest.mark.parametrize("name", STATS)
def test_whether_the_queue_moves(name: str) -> None:
    stats, want = STATS[name]
    found = operator.work_queue(stats)
    assert (found.state, bool(found.advice)) == (want, want != "ok")
    assert f"{stats.unfinished} unfinished" in found.detail


def test_a_worker_that_answers_and_takes_no_task_is_a_failure() -> None:
    consumes = [{"name": "tj"}]
    found = operator.workers(lambda: {"w1@vm": consumes, "w2@vm": [], "w3@vm": [{"name": "other"}]}, "tj")
    assert (found.state, found.detail) == (
        "failed",
        "w2@vm, w3@vm answer and take no task: the queue tj is not consumed",
    )
    found = operator.workers(lambda: {"w1@vm": []}, "tj")
    assert found.detail.startswith("w1@vm answers and takes no task")


def test_beat_is_seen_by_what_its_resync_leaves_behind() -> None:
    settings = Settings()
    keys = [BY_NAME["once"].of(settings.key_prefix, name) for name in ("resync", "full-resync")]
    for there in keys:
        assert operator.beat(settings, lambda key, there=there: key == there).state == "ok"  # type: ignore[misc]
    assert operator.beat(settings, lambda key: False).state == "warning"


def test_a_projection_is_whole_once_the_watcher_says_so() -> None:
    store = MemoryStore()
    assert operator.projection(store.projection).state == "failed"
    store.projection.lead(1)
    assert operator.projection(store.projection).state == "failed"
    store.projection.mark_children(1)
    early = operator.projection(store.projection)
    assert (early.state, "is whole" in early.detail) == ("warning", False), "lists of jobs are under way"
    store.projection.mark_synced(1)
    assert operator.projection(store.projection).state == "ok"


CLOCKS: dict[str, tuple[dict[str, float], str, str]] = {
    "workers that agree with Redis": ({"a": 1000.2, "b": 1000.9}, "ok", "agree"),
    "a worker that is a little off": ({"a": 996.0, "b": 1005.0}, "ok", "agree"),
    "a worker that is five minutes ahead": ({"a": 1301.0, "b": 1000.5}, "warning", "a 300 s ahead"),
    "no worker that answers": ({}, "ok", "agree"),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_the_clocks_of_workers_are_compared_with_redis(name: str) -> None:
    told, state, part = CLOCKS[name]
    readings = iter((1000.0, 1001.0))
    found = operator.clocks(lambda: [{worker: {"seconds": at}} for worker, at in told.items()], lambda: next(readings))
    assert (found.state, part in found.detail) == (state, True), found


# -- other operators -------------------------------------------------------------------------------
def told(scope: Scope, holder: str = "vm_1", renewed: str = "2026-01-01T12:00:15.000000Z") -> dict[str, Any]:
    found = lease(renewed)
    found["metadata"] |= {"annotations": dict(scope.annotations()), "labels": dict(PART_OF)}
    found["spec"]["holderIdentity"] = holder
    return found


@dataclass
class Beside:
    want_state: State
    want_detail: str
    leases: dict[str, dict[str, Any]]
    """By namespace; this operator lives in tj-system."""
    settings: dict[str, Any] = field(default_factory=dict)


ALL_BUT_A, ONLY_A = Scope(excluded=("team-a",)), Scope(only=("team-a",))
DIVIDED = {"namespaces_excluded": "team-a"}
BESIDE: dict[str, Beside] = {
    "One operator serves everything.": Beside("ok", "serves every namespace", {"tj-system": told(Scope())}),
    "Two divide the cluster.": Beside(
        "ok",
        "serves every namespace but team-a; Lease tj-second/tj-watcher serves team-a",
        {"tj-system": told(ALL_BUT_A), "tj-second": told(ONLY_A)},
        DIVIDED,
    ),
    "An excluded namespace that no operator serves is only mentioned.": Beside(
        "ok", "no operator serves team-a", {"tj-system": told(ALL_BUT_A)}, DIVIDED
    ),
    "Two serve the same namespace.": Beside(
        "warning",
        "the operator of Lease tj-second/tj-watcher serves team-a, and so does this one",
        {"tj-system": told(Scope()), "tj-second": told(ONLY_A)},
    ),
    "An operator whose Lease was given back serves nothing.": Beside(
        "ok", "serves every namespace", {"tj-system": told(Scope()), "tj-second": told(ONLY_A, holder="")}
    ),
}


@pytest.mark.parametrize("case", BESIDE.values(), ids=BESIDE)
def test_which_operators_serve_a_namespace(case: Beside) -> None:
    api = KubeClient(InProcessTransport(ApiServer(clock=lambda: 1e9, rng=random.Random(1)).handle))
    for namespace, body in case.leases.items():
        api._transport.request("POST", "/api/v1/namespaces", body=b'{"metadata": {"name": "%s"}}' % namespace.encode())
        api.create(LEASES, namespace, body)
    (found,) = operator.others(api, Settings(own_namespace="tj-system", **case.settings), NOW)
    assert (found.state, bool(found.advice)) == (case.want_state, case.want_state == "warning")
    assert case.want_detail in found.detail
