"""The fields of each watched kind that matter to the operator, and neighbours of theirs: written down from the API
reference of Kubernetes 1.36, so that `make` can fill them with whatever their types allow. PURE data.

A dict is an object, a list a list of its one item, `{"*": item}` a map. A leaf names its type in `values.py`; `!` marks
a field that the API server always has, so it is never left out and never null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.guests import GUESTS, KIND_OF
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tjworker.api.kinds.base import MEMORY
from tjworker.api.resources import BATCH_JOBS, NODES, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource

Tree = Mapping[str, Any]

META: Tree = {"labels": {"*": "label"}, "annotations": {"*": "text"}, "generation": "count", "creationTimestamp": "now"}
AMOUNTS: Tree = {"cpu": "quantity", "memory": "quantity", "ephemeral-storage": "quantity", "example.com/gpu": "pieces"}
RESOURCES: Tree = {"requests": AMOUNTS, "limits": AMOUNTS}
ENV: Tree = {"name!": "variable", "value": "text"}
PORT: Tree = {"name": "port-name", "containerPort!": "port", "protocol": "protocol"}
CONTAINER: Tree = {
    "name!": "name",
    "image!": "image",
    "command": ["text"],
    "env": [ENV],
    "ports": [PORT],
    "resources": RESOURCES,
    "terminationMessagePath": "text",
}
INIT_CONTAINER: Tree = {**CONTAINER, "restartPolicy": "always"}
CONDITION: Tree = {
    "type!": "condition",
    "status!": "status",
    "reason": "text",
    "message": "text",
    "lastTransitionTime": "time",
    "lastProbeTime": "time",
    "observedGeneration": "int64",
}
STATE: Tree = {
    "waiting": {"reason": "text", "message": "text"},
    "running": {"startedAt": "time"},
    "terminated": {
        "exitCode!": "int32",
        "signal": "int32",
        "reason": "text",
        "message": "text",
        "startedAt": "time",
        "finishedAt": "time",
        "containerID": "text",
    },
}
CONTAINER_STATUS: Tree = {
    "name!": "name",
    "image!": "image",
    "imageID!": "text",
    "ready!": "bool",
    "restartCount!": "count",
    "started": "bool",
    "state": STATE,
    "lastState": STATE,
    "resources": RESOURCES,
    "allocatedResourcesStatus": [{"name!": "name", "resources": [{"resourceID!": "text", "health": "health"}]}],
}
POD: Tree = {
    "metadata": META,
    "spec": {
        "containers!": [CONTAINER],
        "initContainers": [INIT_CONTAINER],
        "nodeName": "node",
        "terminationGracePeriodSeconds": "seconds",
        "activeDeadlineSeconds": "deadline",
        "restartPolicy": "restart",
        "schedulerName": "domain",
        "schedulingGates": [{"name!": "domain"}],
        "resources": {"requests": {"cpu": "quantity", "memory": "quantity"}},
        "tolerations": [
            {"key": "domain", "operator": "operator", "effect": "no-execute", "tolerationSeconds": "int64"}
        ],
    },
    "status": {
        "phase": "pod-phase",
        "reason": "text",
        "message": "text",
        "podIP": "ip",
        "startTime": "time",
        "nominatedNodeName": "node",
        "qosClass": "qos",
        "conditions": [CONDITION],
        "containerStatuses": [CONTAINER_STATUS],
        "initContainerStatuses": [CONTAINER_STATUS],
    },
}
SERVICE: Tree = {
    "metadata": META,
    "spec": {
        "clusterIP": "none",
        "selector": {"*": "label"},
        "ports": [{"name": "port-name", "port!": "port", "protocol": "protocol"}],
        "publishNotReadyAddresses": "bool",
    },
    "status": {"conditions": [CONDITION], "loadBalancer": {}},
}
TEMPLATE: Tree = {"metadata": {"annotations": {"*": "text"}}, "spec": {"containers!": [CONTAINER]}}
REPLICASET: Tree = {
    "metadata": META,
    "spec": {"replicas": "count", "minReadySeconds": "zero-or-so"},
    "status": {
        "replicas!": "count",
        "fullyLabeledReplicas": "count",
        "readyReplicas": "count",
        "availableReplicas": "count",
        "observedGeneration": "int64",
        "conditions": [CONDITION],
    },
}
BATCH_JOB: Tree = {
    "metadata": META,
    "spec": {
        "parallelism": "count",
        "completions": "count",
        "backoffLimit": "count",
        "activeDeadlineSeconds": "deadline",
        "ttlSecondsAfterFinished": "count",
        "suspend": "yes",
    },
    "status": {
        "active": "count",
        "ready": "count",
        "succeeded": "count",
        "failed": "count",
        "terminating": "count",
        "startTime": "time",
        "completionTime": "time",
        "completedIndexes": "indexes",
        "conditions": [CONDITION],
    },
}
NODE: Tree = {
    "metadata": META,
    "spec": {
        "unschedulable": "yes",
        "providerID": "text",
        "taints": [{"key!": "domain", "value": "label", "effect!": "effect", "timeAdded": "time"}],
    },
    "status": {
        "capacity": {**AMOUNTS, "pods": "pieces"},
        "allocatable": {**AMOUNTS, "pods": "pieces"},
        "phase": "text",
        "conditions": [{**CONDITION, "lastHeartbeatTime": "time"}],
        "addresses": [{"type!": "domain", "address!": "text"}],
        "images": [{"names": ["text"], "sizeBytes": "int64"}],
    },
}
JOB_STATUS: Tree = {
    "phase": "job-phase",
    "message": "text",
    "startTime": "time",
    "completionTime": "time",
    "lastReconcileTime": "time",
    "observedGeneration": "int64",
    "conditions": [CONDITION],
    "targets": {"*": "count"},
}
ROLE: Tree = {
    "replicas": "few",
    "minReplicas": "few",
    "maxReplicas": "few",
    "edlPolicy": "edl",
    "restartLimit": "count",
    "template!": {
        "metadata": {"labels": {"*": "label"}, "annotations": {"*": "text"}},
        # No nodeName: pods on a node that does not exist are deleted and made again for ever, on purpose.
        "spec!": {**{name: tree for name, tree in POD["spec"].items() if name != "nodeName"}, "zzz": "anything"},
    },
}
AITRAININGJOB: Tree = {
    "metadata": META,
    "spec!": {
        "replicaSpecs!": {"*": ROLE},
        "suspend": "yes",
        "timeLimit": "deadline",
        "schedulerName": "domain",
        "runPolicy": {"ttlSecondsAfterFinished": "count", "backoffLimit": "count"},
    },
    "status": JOB_STATUS,
}
TRAININGJOB: Tree = {
    "metadata": META,
    "spec!": {
        "image!": "image",
        "fault_tolerant": "bool",
        "passes": "some",
        "trainer!": {"entrypoint!": "command", "min-instance!": "some", "resources": RESOURCES},
        "pserver": {"min-instance!": "some", "resources": RESOURCES},
    },
    "status": JOB_STATUS,
}
GUEST_ROLE: Tree = {"replicas": "few", "restartPolicy": "restart", "template!": ROLE["template!"]}
GUEST_STATUS: Tree = {
    "startTime": "time",
    "completionTime": "time",
    "lastReconcileTime": "time",
    "conditions": [{**CONDITION, "lastUpdateTime": "time"}],
    "replicaStatuses": {"*": {"active": "count", "succeeded": "count", "failed": "count"}},
    MEMORY: JOB_STATUS,
}
RUN_POLICY: Tree = {
    "ttlSecondsAfterFinished": "count",
    "backoffLimit": "count",
    "activeDeadlineSeconds": "deadline",
    "suspend": "yes",
}


def _guest(resource: GroupResource) -> Tree:
    kind = KIND_OF[resource]
    spec = dict(kind.with_run_policy(RUN_POLICY)["spec"])
    spec[f"{kind.roles_field}!"] = {f"{name}!": GUEST_ROLE for name in GUESTS[resource]}
    return {"metadata": META, "spec!": spec, "status": GUEST_STATUS}


GUEST_TREES: Mapping[GroupResource, Tree] = {resource: _guest(resource) for resource in GUESTS}
TREES: Mapping[GroupResource, Tree] = {
    PODS: POD,
    SERVICES: SERVICE,
    REPLICASETS: REPLICASET,
    BATCH_JOBS: BATCH_JOB,
    NODES: NODE,
    AITRAININGJOBS: AITRAININGJOB,
    TRAININGJOBS: TRAININGJOB,
}
"""Of what is watched where no guest is served."""
