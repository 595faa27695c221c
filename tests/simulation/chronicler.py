"""The chronicle of a simulated world, for the model (`tests/model`) to judge: each write that the API server takes,
with its time and who asked for it."""

from __future__ import annotations

from localcluster.client import InProcessClient
from localcluster.cluster import LocalCluster
from localcluster.storage import Event
from tests.model.chronicle import Chronicle
from tests.model.reader import NAMED

_TOLD = ("pods", "services", "apps/replicasets", "batch/jobs", "scheduling.k8s.io/podgroups", "nodes")


def chronicle_of(cluster: LocalCluster, jobs: frozenset[str]) -> Chronicle:
    """From now on. `jobs`: the buckets of job kinds. Who calls by `cluster.client` is the user; the operator's
    processes say themselves who they are (`transport.py`); all others are the cluster's own."""
    chronicle, store = Chronicle(), cluster.apiserver.store
    tell, told = store.on_event, {*_TOLD, *NAMED, *jobs}

    def see(event: Event) -> None:
        if event.bucket in told:
            before = None if event.previous is None else event.previous.obj
            chronicle.note(event.at, event.type, event.bucket, event.key[1], event.item.obj, before)
        tell(event)

    store.on_event = see
    for (_, name), item in store.items("nodes"):
        chronicle.note(cluster.clock(), "ADDED", "nodes", name, item.obj, None)
    cluster.client = InProcessClient(chronicle.by("user", cluster.apiserver.handle), user="kubernetes-admin")
    return chronicle
