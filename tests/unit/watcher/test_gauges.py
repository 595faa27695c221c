"""What the leading watcher shows of the whole operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.builders.cluster import make_node
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.unit.watcher.writing import job
from tjworker.api.node_requests import WAITING, NodeRequests, encode_node_requests
from tjworker.api.records_json import encode
from tjworker.base import JobKey, Transient
from watcher.books import Jobs
from watcher.gauges import Gauges
from watcher.health import Pulse, WatcherReport
from watcher.projection import Projected

KEY = "aitrainingjobs.elasticdeeplearning.ai/default/{}"
LEADING = WatcherReport(
    True,
    True,
    reflectors={
        "pods/a": Pulse("watching", True, 3.0, objects=2, skipped={"a/x": "broken"}, skipped_times=4),
        "pods/b": Pulse("watching", True, 61.0, objects=5),
        "nodes": Pulse("watching", True, 1.0, objects=3),
    },
)


def shown(
    store: Any, report: WatcherReport = LEADING, jobs: Any = None, each: Any = None, most: int = 0
) -> dict[str, float]:
    samples = Gauges(store, lambda: report, lambda: jobs or {}, lambda: each or {}, most).samples()
    return {f"{m.name}{{{','.join(map(str, labels.values()))}}}": value for m, labels, value in samples}


@pytest.mark.parametrize("turned", [False, True], ids=["the oldest last", "the oldest first"])
def test_sources_of_several_namespaces_are_one_resource_as_old_as_its_oldest_watch(turned: bool) -> None:
    watches = list((LEADING.reflectors or {}).items())
    found = shown(MemoryStore(), replace(LEADING, reflectors=dict(watches[::-1] if turned else watches)))
    assert found["tj_watch_age_seconds{pods}"] == 61.0
    assert found["tj_projection_objects{pods}"] == 7
    assert (found["tj_unreadable_objects{pods}"], found["tj_objects_skipped_total{pods}"]) == (1, 4)


def test_so_many_jobs_as_the_setting_says_have_series_of_their_own_live_ones_first() -> None:
    jobs = {"done": ("Succeed", 9), "old": ("Running", 2), "new": ("", 0)}
    each = {KEY.format(name): state for name, state in jobs.items()}

    def of_jobs(most: int) -> dict[str, float]:
        found = shown(MemoryStore(), each=each, most=most)
        return {name.removeprefix("tj_job"): value for name, value in found.items() if name.startswith("tj_job")}

    assert of_jobs(0) == {}
    assert of_jobs(2) == {
        "_restarts_total{AITrainingJob,default,old}": 2,
        "_phase{AITrainingJob,default,old,Running}": 1,
        "_restarts_total{AITrainingJob,default,new}": 0,
        "_phase{AITrainingJob,default,new,New}": 1,
        "s_left_out{}": 1,
    }
    assert of_jobs(3)["_restarts_total{AITrainingJob,default,done}"] == 9


def test_the_clusters_load_counts_usable_nodes_and_what_waits_for_them() -> None:
    store = MemoryStore()
    store.projection.lead(1)
    ready, cordoned = make_node("a", cpu="4", **{"nvidia.com/gpu": "2"}).build(), make_node("b", cpu="8").build()
    nodes = {"a": encode(ready), "b": encode(replace(cordoned, unschedulable=True))}
    store.projection.apply_nodes(1, nodes)
    asked = {
        "a": NodeRequests(cpu_milli=1500, pods=1, extended=(("nvidia.com/gpu", 1),)),
        "b": NodeRequests(cpu_milli=4000, pods=1),
        WAITING: NodeRequests(cpu_milli=500, pods=1),
    }
    store.projection.apply_node_requests(1, {node: encode_node_requests(its) for node, its in asked.items()})
    assert "tj_cluster_requested{cpu,core}" not in shown(store), "half a list would look like an empty cluster"
    store.projection.mark_synced(1)
    found = shown(store)
    assert (found["tj_cluster_nodes{true}"], found["tj_cluster_nodes{false}"]) == (1, 1)
    assert (found["tj_cluster_allocatable{cpu,core}"], found["tj_cluster_requested{cpu,core}"]) == (4, 2)
    units = {name.partition("{")[2] for name in found if name.startswith(("tj_cluster_all", "tj_cluster_req"))}
    assert units == {"cpu,core}", "memory,byte}", "pods,integer}", "nvidia.com/gpu,integer}"}
    gpus = "tj_cluster_allocatable{nvidia.com/gpu,integer}", "tj_cluster_requested{nvidia.com/gpu,integer}"
    assert [found[gpu] for gpu in gpus] == [2, 1]


class Away:
    @property
    def queue(self) -> Any:
        raise Transient("away")


@pytest.mark.parametrize("report", [LEADING, replace(LEADING, store_away=True)])
def test_while_redis_is_away_the_rest_is_shown_and_nothing_waits(report: WatcherReport) -> None:
    found = shown(Away(), report)
    assert found["tj_watcher_redis_up{}"] == 0
    assert found["tj_watch_age_seconds{nodes}"] == 1.0
    assert not [name for name in found if name.startswith(("tj_queue", "tj_cluster"))]


def test_a_list_takes_out_what_it_does_not_show_of_its_own_namespace_and_kind() -> None:
    jobs = Jobs()
    for name in ("a", "b"):
        jobs.take(named(name, job(1)))
    jobs.keep(f"{AITRAININGJOBS}/other", set())
    jobs.keep("trainingjobs.paddlepaddle.org", set())
    assert jobs.counts() == {(AITRAININGJOBS, "Running"): 2}
    jobs.keep(AITRAININGJOBS, {JobKey(KEY.format("b"))})
    assert jobs.counts() == {(AITRAININGJOBS, "Running"): 1}


def named(name: str, projected: Projected) -> Projected:
    return replace(projected, change=replace(projected.change, key=JobKey(KEY.format(name)), name=name))
