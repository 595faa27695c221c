"""Kueue admits a job of a kind that it knows. Its part is played here: what its integration of Kubeflow's kinds reads
and writes (`pkg/controller/jobs/kubeflow/kubeflowjob`): spec.runPolicy.suspend, the templates, conditions and
replicaStatuses (ADR 36)."""

from __future__ import annotations

from typing import Any

from localcluster.kubelet.play import Play
from tests.scenarios.world import World
from tests.unit.tjworker.convert.manifests import example
from tjworker.base import GroupResource

KIND = GroupResource("pytorchjobs.kubeflow.org")
NAME = "pytorchjob"
Json = dict[str, Any]


class Kueue:
    def __init__(self, world: World) -> None:
        self._world = world

    def job(self) -> Json:
        return self._world.get(KIND, NAME)

    def admit(self, **selector: str) -> None:
        """`RunWithPodSetsInfo`."""
        self._write(suspend=False, nodeSelector=selector)

    def evict(self) -> None:
        """`Suspend` and `RestorePodSetsInfo`."""
        self._write(suspend=True, nodeSelector=None)

    def _write(self, *, suspend: bool, **pod: Any) -> None:
        roles = self.job()["spec"]["pytorchReplicaSpecs"]
        changed = {name: {"template": {"spec": pod}} for name in roles}
        patch = {"spec": {"runPolicy": {"suspend": suspend}, "pytorchReplicaSpecs": changed}}
        self._world.patch_job(NAME, patch).run()

    def is_true(self, condition: str) -> bool:
        conditions = (self.job().get("status") or {}).get("conditions") or []
        return any(c["type"] == condition and c["status"] == "True" for c in conditions)

    def is_active(self) -> bool:
        statuses = (self.job().get("status") or {}).get("replicaStatuses") or {}
        return any(role.get("active") for role in statuses.values())


def test_a_job_waits_for_kueue_runs_where_it_says_and_makes_room_again() -> None:
    world = World(kinds=KIND)
    world.cluster.kubelet.script = lambda pod, attempt: Play(run_seconds=60, exit_code=0)
    for node in ("node-0", "node-1"):
        world.cluster.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"pool": "a"}}})
    raw = example("pytorchjob.yaml")
    raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    raw["spec"]["runPolicy"]["suspend"] = True  # Kueue's webhook
    world.apply(raw).run()
    kueue = Kueue(world)
    assert (world.pods(), kueue.is_active(), kueue.is_true("Suspended")) == ({}, False, True)
    assert "queue-name" not in str(kueue.job()["status"]["conditions"][0])

    kueue.admit(pool="a")
    world.until("it runs", lambda: kueue.is_true("Running"))
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in world.pods().values()} == {"a"}
    assert (len(world.pods()), kueue.is_active()) == (3, True)

    kueue.evict()
    world.until("its pods are gone", lambda: not world.pods())
    assert (kueue.is_active(), kueue.is_true("Running"), kueue.is_true("Succeeded")) == (False, False, False)

    kueue.admit(pool="a")
    world.until("it has succeeded", lambda: kueue.is_true("Succeeded"))
    assert not kueue.is_true("Failed")
