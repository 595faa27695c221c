"""What one pass over a Job knows, and two of its pure steps."""

from __future__ import annotations

from dataclasses import dataclass, field

from localcluster.controllers.job_status import INDEX_ANNOTATION, Backoff
from localcluster.wire import Json


@dataclass(slots=True)
class Pass:
    """One sync of one Job: what is there and what has been decided so far."""

    job: Json
    """The Job as last read or written; `status` below is what it shall become."""
    status: Json
    pods: list[Json]
    now: float
    active: list[Json]
    terminating: int
    succeeded: int = 0
    failed: int = 0
    backoff: Backoff = field(default_factory=Backoff)
    verdict: Json | None = None
    """The FailureTarget, SuccessCriteriaMet or end condition that this pass has come to."""
    status_moved: bool = False

    @property
    def spec(self) -> Json:
        spec: Json = self.job["spec"]
        return spec

    @property
    def indexed(self) -> bool:
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def uncounted(self) -> Json:
        uncounted: Json = self.status["uncountedTerminatedPods"]
        return uncounted


def count_settled(status: Json, with_finalizer: set[str], indexed: bool) -> bool:
    """Moves pods whose finalizer is gone from `uncounted` into the counts."""
    moved = False
    for name in ("succeeded", "failed"):
        uids = status["uncountedTerminatedPods"][name]
        left = [u for u in uids if u in with_finalizer]
        if len(left) != len(uids):
            if not (indexed and name == "succeeded"):
                status[name] = status.get(name, 0) + len(uids) - len(left)
            status["uncountedTerminatedPods"][name] = left
            moved = True
    return moved


def indexed_pod(body: Json, job_name: str, index: int) -> Json:
    meta, spec = body["metadata"], body["spec"]
    env = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_ANNOTATION}']"}},
    }
    containers = {
        name: [{**c, "env": [*(c.get("env") or ()), env]} for c in spec[name]]
        for name in ("containers", "initContainers")
        if spec.get(name)
    }
    return {
        **body,
        "spec": {**spec, **containers, "hostname": f"{job_name}-{index}"},
        "metadata": {
            **meta,
            "generateName": f"{job_name}-{index}-",
            "labels": {**meta.get("labels", {}), INDEX_ANNOTATION: str(index)},
            "annotations": {**meta.get("annotations", {}), INDEX_ANNOTATION: str(index)},
        },
    }
