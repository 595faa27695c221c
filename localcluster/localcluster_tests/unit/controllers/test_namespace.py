"""A namespace that is deleted: what goes, and what may hold it."""

from __future__ import annotations

from localcluster.cluster import LocalCluster

PATH = "/api/v1/namespaces"


def test_a_namespace_that_another_holds_waits_for_it_and_does_nothing_meanwhile() -> None:
    cluster = LocalCluster(nodes=0)
    cluster.client.create(PATH, {"metadata": {"name": "held"}, "spec": {"finalizers": ["example.com/mine"]}})
    cluster.client.delete(f"{PATH}/held")
    cluster.advance(5)
    before = cluster.apiserver.store.revision
    cluster.advance(60)
    assert cluster.apiserver.store.revision == before
    held = cluster.client.get(f"{PATH}/held")
    cluster.client.update(f"{PATH}/held/finalize", {**held, "spec": {"finalizers": []}})
    cluster.run_until_idle()
    assert "held" not in [one["metadata"]["name"] for one in cluster.client.get(PATH)["items"]]
