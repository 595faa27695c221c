"""What the orphan collector deletes, and what it must never touch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lives.world import World, job, role
from tjworker.collector import Collector


class Field:
    """A world with one running job, and a collector."""

    def __init__(self) -> None:
        self.world = World().apply(job({"trainer": role(1)})).run()
        self.uid = self.world.get("aitrainingjobs", "digits")["metadata"]["uid"]
        self.collector = Collector(self.world.api, self.world.settings, clock=self.world.clock)

    def pod(self, name: str, *, owner: dict[str, Any] | None, labelled: bool = True, node: str = "node-0") -> None:
        labels = {"elasticdeeplearning.ai/job-uid": "gone", "job-name": "old"} if labelled else {}
        meta: dict[str, Any] = {"name": name, "labels": labels}
        if owner:
            meta["ownerReferences"] = [owner]
        spec = {"nodeName": node, "containers": [{"name": "a", "image": "b"}]}
        self.world.cluster.client.create(
            "/api/v1/namespaces/default/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def going(self, name: str) -> bool:
        """Gone, or on its way: this pod has a node, so it has its grace."""
        pod = self.world.pods().get(name)
        return pod is None or "deletionTimestamp" in pod["metadata"]

    def collect(self, after_seconds: float = 61) -> int:
        # Time passes for the collector alone: the cluster's own garbage collector would be faster.
        self.collector._clock = lambda: self.world.clock() + after_seconds
        return self.collector.collect()


def owned_by(uid: str, kind: str = "AITrainingJob", api: str = "elasticdeeplearning.ai/v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": "digits", "uid": uid, "controller": True, **more}


LEFT: dict[str, tuple[dict[str, Any], bool]] = {
    "a pod of an earlier job of the same name": ({"owner": owned_by("another-uid")}, True),
    "a pod without a controller": ({"owner": None}, False),
    "a pod of another controller": ({"owner": owned_by("x", "Workflow", "argoproj.io/v1alpha1")}, False),
    "a pod with an owner that does not control it": ({"owner": owned_by("another-uid", controller=False)}, False),
    "a pod without our labels": ({"owner": owned_by("another-uid"), "labelled": False}, False),
}


@pytest.mark.parametrize(("pod", "want_gone"), LEFT.values(), ids=LEFT.keys())
def test_what_is_an_orphan(pod: dict[str, Any], want_gone: bool) -> None:
    field = Field()
    field.pod("left", **pod)
    assert field.collect() == int(want_gone)
    assert field.going("left") is want_gone
    assert "digits-trainer-0" in field.world.pods()


def test_nothing_younger_than_a_minute_is_touched() -> None:
    field = Field()
    field.pod("left", owner=owned_by("another-uid"))
    assert field.collect(after_seconds=59) == 0


def test_a_second_run_does_nothing() -> None:
    field = Field()
    field.pod("left", owner=owned_by("another-uid"))
    assert (field.collect(), field.collect()) == (1, 0)


def test_the_objects_of_living_jobs_are_never_touched() -> None:
    field = Field()
    assert field.collect(after_seconds=10_000) == 0
    assert field.world.phase() == "Running"


def test_a_pod_that_hangs_in_deletion_on_a_node_that_is_gone_is_forced_out() -> None:
    field = Field()
    field.pod("hanging", owner=owned_by(field.uid), node="no-such-node")
    field.world.cluster.client.patch(
        "/api/v1/namespaces/default/pods/hanging", {"metadata": {"finalizers": ["example.com/hold"]}})
    field.world.delete_pod("hanging", grace_seconds=5)
    field.world.cluster.client.patch("/api/v1/namespaces/default/pods/hanging", {"metadata": {"finalizers": None}})
    if "hanging" in field.world.pods():
        assert field.collect(after_seconds=70) == 1
    assert "hanging" not in field.world.pods()
