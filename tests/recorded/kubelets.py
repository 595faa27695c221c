"""What happens to pods and nodes between two passes of a drawn life: kubelets, schedulers, controllers, people."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from tjworker.api.labels import TRACKING_FINALIZER
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, PODS, REPLICASETS
from tjworker.api.timefmt import to_rfc3339

if TYPE_CHECKING:
    from tests.recorded.lives import Life

Json = dict[str, Any]
WAITS = ("ContainerCreating", "ContainerCreating", "ErrImagePull", "ImagePullBackOff", "CreateContainerError")
CODES = (1, 1, 2, 126, 127, 128, 137, 139, 143, 255)
DISRUPTIONS = ("PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC")

TO_A_NODE = ("is silent", "is not ready", *("is well",) * 4, "loses GPUs", "has a fault", "goes", "is tainted")


def happen(life: Life) -> str:
    draw = life.draw
    pods = sorted(name for resource, name in life.objects if resource == PODS)
    if not pods or draw.random() < 0.1:
        return _to_a_node(life) if draw.random() < 0.7 else _to_a_group(life)
    if draw.random() < (0.6 if life.calm else 0.25):  # all of them come to run, as most do
        for name in pods:
            _start(life, life.objects[PODS, name])
        return "all that wait start"
    name = draw.choice(pods)
    raw = life.objects[PODS, name]
    if "deletionTimestamp" in raw["metadata"]:
        return _leave(life, name, raw)
    words = _to_a_pod(life, name, raw)
    if (PODS, name) in life.objects:
        life.touch(raw)
    return f"{name} {words}"


def keep_count(life: Life) -> None:
    """As the controllers of ReplicaSets and batch Jobs do, without their back-off."""
    for (resource, name), raw in list(life.objects.items()):
        if resource not in (REPLICASETS, BATCH_JOBS) or "deletionTimestamp" in raw["metadata"]:
            continue
        field = "replicas" if resource == REPLICASETS else "parallelism"
        mine = [
            (pod, one)
            for (kind, pod), one in life.objects.items()
            if kind == PODS and one["metadata"]["ownerReferences"][0]["uid"] == raw["metadata"]["uid"]
        ]
        ends = [one.get("status", {}).get("phase") for _, one in mine]
        live = [pod for pod, one in mine if one.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
        wanted = raw["spec"][field] - (ends.count("Succeeded") if resource == BATCH_JOBS else 0)
        for number in range(len(live), wanted):
            _make(life, resource, raw, f"{name}-{life.rv}-{number}")
        for pod in sorted(live)[max(0, wanted) :]:
            life.delete(PODS, pod)
        ready = sum(_is_ready(one) for _, one in mine)
        status: Json = {"observedGeneration": raw["metadata"]["generation"]}
        counts = {"active": len(live), "succeeded": ends.count("Succeeded"), "failed": ends.count("Failed")}
        status |= {"replicas": len(live), "readyReplicas": ready} if resource == REPLICASETS else counts
        if resource == BATCH_JOBS and not live and counts["succeeded"]:
            done = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "done"}
            status |= {"conditions": [done], "completionTime": to_rfc3339(life.now)}
        raw["status"] = status
        life.touch(raw)


def _make(life: Life, resource: str, owner: Json, name: str) -> None:
    kind, group = ("ReplicaSet", "apps/v1") if resource == REPLICASETS else ("Job", "batch/v1")
    template = copy.deepcopy(owner["spec"]["template"])
    reference = {"apiVersion": group, "kind": kind, "name": owner["metadata"]["name"], "controller": True}
    template["metadata"] |= {"name": name, "ownerReferences": [reference | {"uid": owner["metadata"]["uid"]}]}
    if kind == "Job":
        template["metadata"]["finalizers"] = [TRACKING_FINALIZER]
    life.add(PODS, template)  # type: ignore[arg-type, unused-ignore]


# -- pods ------------------------------------------------------------------------------------------
def _leave(life: Life, name: str, raw: Json) -> str:
    """A pod in deletion."""
    word = life.draw.choice(("goes", "goes", "goes", "goes", "goes", "fails on its way", "is confirmed", "stays"))
    if word == "goes":
        life.gone(PODS, name)
    elif word == "fails on its way":
        _end(life, raw, life.draw.choice((0, 1, 143)))
    elif word == "is confirmed":
        raw["metadata"] |= {"deletionGracePeriodSeconds": 0, "deletionTimestamp": to_rfc3339(life.now)}
    if word not in ("stays", "goes"):
        life.touch(raw)
    return f"{name} {word}"


def _to_a_pod(life: Life, name: str, raw: Json) -> str:
    draw, status = life.draw, raw.setdefault("status", {})
    if status.get("phase") in ("Succeeded", "Failed"):
        if draw.random() < 0.7:
            return "stays ended"
        life.gone(PODS, name)
        return "is collected"
    word = draw.choices(
        ("starts", "waits", "waits for a node", "ends", "is disrupted", "is deleted", "is turned away", "restarts"),
        (30, 8, 5, 14, 4, 5, 2, 6),
    )[0]
    if word == "starts":
        _start(life, raw)
    elif word == "waits":
        _place(life, raw)
        waiting = {"waiting": {"reason": draw.choice(WAITS), "message": "it is so"}}
        status |= {"phase": "Pending", "containerStatuses": _containers(raw, waiting, ready=False)}
    elif word == "waits for a node" and "nodeName" not in raw["spec"]:
        why = {"reason": "Unschedulable", "message": "0/3 nodes are available"}
        status["conditions"] = [{"type": "PodScheduled", "status": "False", **why}]
    elif word == "waits for a node":
        word = "has its node"
    elif word == "ends":
        _start(life, raw)
        _end(life, raw, draw.choice((0, 0, 0, *CODES)))
    elif word == "is disrupted":
        _start(life, raw)
        _end(life, raw, draw.choice((143, 137)))
        target = {"type": "DisruptionTarget", "status": "True", "reason": draw.choice(DISRUPTIONS), "message": "so"}
        status["conditions"] = [*status.get("conditions", ()), target]
    elif word == "is deleted":
        life.delete(PODS, name)
    elif word == "is turned away":
        _place(life, raw)
        raw["status"] = {"phase": "Failed", "reason": draw.choice(("UnexpectedAdmissionError", "Evicted", "OutOfcpu"))}
    else:
        _restart(life, raw)
    return word


def _restart(life: Life, raw: Json) -> None:
    """Of containers, by its kubelet."""
    _start(life, raw)
    every = raw["status"]["containerStatuses"]
    for one in every:
        one["restartCount"] += life.draw.choice((1, 1, 5))
    if life.draw.random() < 0.5:
        every[0] |= {"ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}


def _place(life: Life, raw: Json) -> None:
    if "nodeName" not in raw["spec"] and life.nodes:
        raw["spec"]["nodeName"] = life.draw.choice(sorted(life.nodes))
        at = to_rfc3339(life.now)
        raw.setdefault("status", {})["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        ]
        raw["status"]["startTime"] = at


def _start(life: Life, raw: Json) -> None:
    status = raw.setdefault("status", {})
    if status.get("phase") in ("Succeeded", "Failed", "Running") or "deletionTimestamp" in raw["metadata"]:
        return
    _place(life, raw)
    running = {"running": {"startedAt": to_rfc3339(life.now)}}
    status |= {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": _containers(raw, running, ready=True)}
    ready = {"type": "Ready", "status": "True" if life.draw.random() < 0.9 else "False"}
    status["conditions"] = [*(c for c in status.get("conditions", ()) if c["type"] != "Ready"), ready]
    life.touch(raw)


def _end(life: Life, raw: Json, code: int) -> None:
    """The first container ends so, the others with 0, mostly."""
    status = raw.setdefault("status", {})
    reason = {0: "Completed", 137: "OOMKilled"}.get(code, "Error")
    times = {"startedAt": to_rfc3339(life.now - 5), "finishedAt": to_rfc3339(life.now)}
    every = _containers(raw, {"terminated": {"exitCode": 0, "reason": "Completed", **times}}, ready=False)
    culprit = life.draw.randrange(len(every)) if life.draw.random() < 0.3 else 0
    every[culprit]["state"] = {"terminated": {"exitCode": code, "reason": reason, "message": "said", **times}}
    status |= {"phase": "Failed" if code else "Succeeded", "containerStatuses": every}
    status["conditions"] = [c for c in status.get("conditions", ()) if c["type"] != "Ready"]


def _containers(raw: Json, state: Json, *, ready: bool) -> list[Json]:
    before = {one["name"]: one["restartCount"] for one in raw.get("status", {}).get("containerStatuses", ())}
    return [
        {"name": c["name"], "restartCount": before.get(c["name"], 0), "ready": ready, "state": copy.deepcopy(state)}
        for c in raw["spec"]["containers"]
    ]


def _is_ready(raw: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in raw.get("status", {}).get("conditions", ()))


# -- nodes, gangs ----------------------------------------------------------------------------------
def _to_a_node(life: Life) -> str:
    draw, at = life.draw, to_rfc3339(life.now)
    if not life.nodes:
        return "there are no nodes"
    name = draw.choice(sorted(life.nodes))
    raw = life.nodes[name]
    ready = raw["status"]["conditions"][0]
    word = draw.choice(
        ("is silent", "is not ready", "is well", "is well", "loses GPUs", "has a fault", "goes", "taint")
    )
    if word in ("is silent", "is not ready", "is well"):
        said = {"is silent": "Unknown", "is not ready": "False", "is well": "True"}[word]
        if ready["status"] != said:
            ready |= {"status": said, "lastTransitionTime": at, "reason": "KubeletSaysSo"}
        if said == "True":
            raw["spec"], raw["status"]["conditions"] = {}, [ready]
            raw["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    elif word == "loses GPUs":
        raw["status"]["allocatable"]["nvidia.com/gpu"] = draw.choice(("0", "1", "3"))
    elif word == "has a fault":
        fault = {"type": draw.choice(life.rules.gpu_fault_conditions or ("GPUUnhealthy",)), "status": "True"}
        raw["status"]["conditions"] = [ready, fault | {"lastTransitionTime": at, "message": "Xid 79"}]
    elif word == "goes":
        del life.nodes[name]
    else:
        raw["spec"] = {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": at}]}
    life.touch(raw)
    return f"{name} {word}"


def _to_a_group(life: Life) -> str:
    groups = sorted(key for key in life.objects if key[0] in ALL_POD_GROUPS)
    if not groups:
        return "nothing"
    resource, name = life.draw.choice(groups)
    if life.draw.random() < 0.3:
        life.gone(resource, name)
        return "its PodGroup is deleted"
    raw = life.objects[resource, name]
    why = {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": "no room for all"}
    raw["status"] = {"conditions": [why]} if life.draw.random() < 0.7 else {}
    life.touch(raw)
    return "its scheduler speaks of its PodGroup"
