"""The cluster's history goes back under a Redis that is kept: etcd restored from a backup, or another cluster
altogether.

resourceVersions begin lower then. Nothing that Redis remembers may hide an object, and no pod is made or deleted by it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.scenarios.world import CRDS, CountingTransport, World, job, role
from tjworker.api.records_json import decode_view
from tjworker.base import JobKey

NEW_WATCHER = pytest.mark.parametrize("new_watcher", [False, True], ids=["the watcher runs on", "a new watcher"])


def put_on(world: World, folder: Path) -> None:
    """The world's API server is this one from now on."""
    world.cluster.close()
    world.cluster = LocalCluster(clock=world.clock, seed=world.seed, nodes=2, data_dir=folder)
    world.transport = CountingTransport(world.cluster)
    world.api._transport = world.transport
    world.watcher.transport._handle = world.cluster.apiserver.handle
    world.watcher._newest = None  # versions begin anew: what a watch has shown says nothing of them


def begin(folder: Path) -> World:
    world = World()
    put_on(world, folder)
    for crd in CRDS:
        world.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    return world


@NEW_WATCHER
def test_another_cluster_under_the_same_redis(tmp_path: Path, new_watcher: bool) -> None:
    world = (
        begin(tmp_path / "one")
        .apply(job({"trainer": role(2)}, name="same"))
        .apply(job({"trainer": role(1)}, name="old"))
    )
    world.run().advance(120, step_seconds=5)
    assert world.phase("same") == "Running"
    put_on(world, tmp_path / "two")
    if new_watcher:
        world.start_watcher()
    for crd in CRDS:
        world.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    world.apply(job({"trainer": role(2)}, name="same"))
    world.until("a job of an old name runs", lambda: world.phase("same") == "Running", within_seconds=120)
    assert (sorted(world.pods()), world.jobs()) == (["same-trainer-0", "same-trainer-1"], ["same"])
    assert world.store.projection.known_keys() == ["aitrainingjobs.elasticdeeplearning.ai/default/same"]


@NEW_WATCHER
def test_etcd_restored_from_a_backup(tmp_path: Path, new_watcher: bool) -> None:
    world = begin(tmp_path / "live").apply(job({"trainer": role(2)}, name="kept")).run()
    before = world.uids()
    shutil.copytree(tmp_path / "live", tmp_path / "backup")
    # All of this will never have been: a pod replaced, a job, and that job's end.
    world.delete_pod("kept-trainer-0").apply(job({"trainer": role(2)}, name="lost")).run().advance(60)
    world.delete("lost").run().advance(60)
    assert world.uids() != before
    put_on(world, tmp_path / "backup")
    if new_watcher:
        world.start_watcher()
    world.transport.counts.clear()
    world.until("the projection is of the cluster as it is", lambda: _shown(world) == before, within_seconds=120)
    assert (world.transport.counts["POST pods"], world.transport.counts["DELETE pods"]) == (0, 0)
    assert (world.uids(), world.phase("kept"), world.status("kept").get("restarts", 0)) == (before, "Running", 0)
    world.apply(job({"trainer": role(1)}, name="lost"))
    world.until("a job of a lost name runs", lambda: world.phase("lost") == "Running", within_seconds=30)


def test_a_change_whose_history_is_gone_is_seen() -> None:
    world = World().apply(job({"trainer": role(1)}, name="digits")).run()
    world.scale("digits", 2)
    store = world.cluster.apiserver.store
    store.compact(older_than_seconds=-1.0)
    world.until("it is scaled", lambda: len(world.pods()) == 2, within_seconds=30)


def _shown(world: World) -> dict[str, str]:

    view = world.store.projection.view(JobKey("aitrainingjobs.elasticdeeplearning.ai/default/kept"))
    return {p.name: p.uid for p in decode_view(view.job, view.children, seen=view.seen)[1].pods} if view.synced else {}
