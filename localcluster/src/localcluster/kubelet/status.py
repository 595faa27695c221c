"""What a kubelet writes into a pod's status: the phase from the containers, and the conditions. Pure.

Follows kubernetes v1.36 `pkg/kubelet/kubelet_pods.go` (getPhase) and `pkg/kubelet/status/generate.go`. Conditions of
others (DisruptionTarget, PodScheduled) are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from localcluster.objects import qos_class, timestamp, with_condition
from localcluster.wire import Json


def is_sidecar(container: Json) -> bool:
    """A restartable init container."""
    return container.get("restartPolicy") == "Always"


def compute_phase(spec: Json, containers: Sequence[Json], inits: Sequence[Json], *, final: bool = False) -> str:
    """`final`: nothing is started any more (the pod is being deleted, or past its deadline)."""
    restart = "Never" if final else spec.get("restartPolicy", "Always")
    by_name = {s["name"]: s for s in inits}
    # `getPhase`: an init container that has failed and will not run again fails the pod.
    if restart == "Never" and any(
        _exit_code(by_name.get(c["name"])) for c in spec.get("initContainers") or () if not is_sidecar(c)
    ):
        return "Failed"
    kinds = [_kind(status) for status in containers]
    stopped = [kind for kind in kinds if kind in ("succeeded", "failed")]
    well = all(kind == "succeeded" for kind in stopped)
    if final and "running" not in kinds:
        # A kubelet also ends a pod that never started, or that was deleted.
        return "Succeeded" if len(stopped) == len(kinds) and well else "Failed"
    begun = "running" in kinds or stopped
    # `getPhase`: one container that has never run keeps the whole pod Pending.
    if not begun or "waiting" in kinds:
        return "Pending"
    sidecar_up = any(
        "running" in (by_name.get(c["name"], {}).get("state") or {})
        for c in spec.get("initContainers") or ()
        if is_sidecar(c)
    )
    if "running" in kinds or restart == "Always" or sidecar_up:
        return "Running"
    return "Succeeded" if well else "Failed" if restart == "Never" else "Running"


def _kind(status: Json) -> str:
    """running, waiting, succeeded or failed; one that waits to run again counts by how it last ended."""
    state, last = status.get("state") or {}, status.get("lastState") or {}
    if "running" in state:
        return "running"
    # A container in CrashLoopBackOff has run: its pod is Running, not Pending.
    ended = state.get("terminated") or last.get("terminated")
    return "waiting" if ended is None else "succeeded" if ended["exitCode"] == 0 else "failed"


def _exit_code(status: Json | None) -> int:
    ended = ((status or {}).get("state") or {}).get("terminated")
    return int(ended["exitCode"]) if ended is not None else 0


def compute_conditions(
    pod: Json, new_phase: str, containers: Sequence[Json], inits: Sequence[Json], now: float
) -> list[Json]:
    when = timestamp(now)
    spec = pod["spec"]
    generation = pod["metadata"].get("generation")
    seen = {"observedGeneration": generation} if generation else {}
    result = list((pod.get("status") or {}).get("conditions") or ())

    def set_to(kind: str, value: bool, reason: str = "", message: str = "") -> None:
        nonlocal result
        new: Json = {"type": kind, "status": "True" if value else "False", "lastProbeTime": None, **seen}
        result = with_condition(
            result, {**new, **({"reason": reason} if reason else {}), **({"message": message} if message else {})}, when
        )

    by_name = {s["name"]: s for s in inits}
    unfinished = [
        c["name"] for c in spec.get("initContainers") or () if not _initialized(c, by_name.get(c["name"]) or {})
    ]
    started = any("running" in (s.get("state") or {}) for s in (*containers, *inits))
    set_to("PodReadyToStartContainers", started or (new_phase == "Pending" and bool(containers)))
    if new_phase == "Succeeded":
        set_to("Initialized", True, "PodCompleted")
    # `GeneratePodInitializedCondition`: a pod whose main containers have started stays initialized.
    elif unfinished and new_phase in ("Pending", "Failed"):
        set_to(
            "Initialized",
            False,
            "ContainersNotInitialized",
            f"containers with incomplete status: [{' '.join(unfinished)}]",
        )
    else:
        set_to("Initialized", True)
    # Sidecars count for Ready as main containers do, other init containers do not.
    watched = [*(c for c in spec.get("initContainers") or () if is_sidecar(c)), *spec["containers"]]
    ready = {s["name"]: bool(s.get("ready")) for s in (*inits, *containers)}
    unready = [c["name"] for c in watched if not ready.get(c["name"])]
    # `generateContainersReadyConditionForTerminalPhase`: an ended pod says how it ended, not which container is
    # unready.
    for kind in ("Ready", "ContainersReady"):
        if new_phase == "Succeeded":
            set_to(kind, False, "PodCompleted")
        elif new_phase == "Failed":
            set_to(kind, False, "PodFailed")
        elif unready:
            set_to(kind, False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]")
        else:
            set_to(kind, True)
    set_to("PodScheduled", True)
    return result


def _initialized(container: Json, status: Json) -> bool:
    # `isInitContainerInitialized`: a sidecar counts once it has started, as it never completes.
    if is_sidecar(container):
        return bool(status.get("started"))
    ended = (status.get("state") or {}).get("terminated")
    return ended is not None and ended["exitCode"] == 0


def pod_status(
    pod: Json,
    new_phase: str,
    containers: Sequence[Json],
    inits: Sequence[Json],
    now: float,
    *,
    host_ip: str,
    pod_ip: str,
) -> Json:
    """The whole status; what others wrote into it is kept."""
    old = pod.get("status") or {}
    generation = pod["metadata"].get("generation")
    status: Json = {
        **{
            k: v for k, v in old.items() if k not in ("reason", "message", "initContainerStatuses", "nominatedNodeName")
        },
        **({"observedGeneration": generation} if generation else {}),
        "phase": new_phase,
        "startTime": old.get("startTime") or timestamp(now),
        "conditions": compute_conditions(pod, new_phase, containers, inits, now),
        "containerStatuses": list(containers),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "qosClass": old.get("qosClass") or qos_class(pod["spec"]),
    }
    if pod_ip:
        status.update(podIP=pod_ip, podIPs=[{"ip": pod_ip}])
    if inits:
        status["initContainerStatuses"] = list(inits)
    return status


def container_status(
    container: Json, state: Json, *, ready: bool, restarts: int, last: Json | None = None, container_id: str = ""
) -> Json:
    status: Json = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "state": state,
        "lastState": {"terminated": last} if last else {},
        "ready": ready,
        "restartCount": restarts,
        "started": "running" in state,
    }
    if container_id:
        status["containerID"] = container_id
    return status


def waiting_state(reason: str, message: str = "") -> Json:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def terminated_state(
    exit_code: int, started: float, finished: float, *, reason: str = "", message: str = "", container_id: str = ""
) -> Json:
    ended: Json = {
        "exitCode": exit_code,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": timestamp(started),
        "finishedAt": timestamp(finished),
    }
    if message:
        ended["message"] = message
    if container_id:
        ended["containerID"] = container_id
    return ended
