"""Raw objects, as an API server gives them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

OWNER = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "name": "digits",
    "uid": "job-uid",
    "controller": True,
}
KEY = "aitrainingjobs.elasticdeeplearning.ai/default/digits"


def meta(**more: Any) -> dict[str, Any]:
    return {
        "name": "digits-trainer-0",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "42",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [OWNER],
        **more,
    }


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": meta(
        labels={
            "group-name": "elasticdeeplearning.ai",
            "job-name": "digits",
            "replica-type": "trainer",
            "replica-index": "0",
            "restart-attempt": "1",
            "app": "mine",
        },
        annotations={"secret-note": "s3cret"},
        managedFields=[{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}],
    ),
    "spec": {
        "nodeName": "node-a",
        "containers": [
            {
                "name": "aitj-main",
                "image": "x",
                "env": [{"name": "PASSWORD", "value": "s3cret"}],
                "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "2", "memory": "1Gi", "hugepages-2Mi": "4Mi"}},
            },
            {"name": "side", "resources": {"limits": {"nvidia.com/gpu": 1}}},
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.7",
        "startTime": "2026-01-01T00:00:05Z",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "initContainerStatuses": [
            {
                "name": "sync",
                "state": {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:06Z"}},
            }
        ],
        "containerStatuses": [
            {
                "name": "aitj-main",
                "ready": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": "2026-01-01T00:00:07Z"}},
                "allocatedResourcesStatus": [
                    {
                        "name": "nvidia.com/gpu",
                        "resources": [
                            {"resourceID": "GPU-1", "health": "Unhealthy"},
                            {"resourceID": "GPU-2", "health": "Healthy"},
                        ],
                    }
                ],
            },
            {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
        ],
    },
}


JOB: dict[str, Any] = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {
        "name": "digits",
        "namespace": "default",
        "uid": "job-uid",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"team": "a"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{...}", "Preempted": "by hand"},
    },
    "spec": {"replicaSpecs": {"trainer": {"replicas": 2}}, "runPolicy": {"ttlSecondsAfterFinished": 60}},
    "status": {"phase": "Running"},
}


NODE: dict[str, Any] = {
    "metadata": {
        "name": "node-a",
        "uid": "n1",
        "resourceVersion": "9",
        "labels": {"kubernetes.io/hostname": "a", "disk": "ssd"},
    },
    "spec": {
        "unschedulable": True,
        "taints": [
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:40Z"}
        ],
    },
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "8", "ephemeral-storage": "1Gi"},
        "conditions": [
            {
                "type": "Ready",
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "lastTransitionTime": "2026-01-01T00:00:30Z",
                "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            },
            {"type": "MemoryPressure", "status": "False"},
            {"type": "GpuXid", "status": "True", "message": "Xid 79"},
        ],
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    node = deepcopy(NODE)
    target: Any = node
    *way, last = path.split(".")
    for part in way:
        target = target[int(part) if part.isdigit() else part]
    target[last] = value
    return node
