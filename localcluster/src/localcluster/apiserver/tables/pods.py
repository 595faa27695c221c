"""The pod's row: kubectl's STATUS column is a small language of its own (`printPod` in Kubernetes' printers). Pure."""

from __future__ import annotations

from typing import Any

from localcluster.apiserver.meta import parse_time
from localcluster.apiserver.tables.base import NONE, Printer, Row, age_of, make_columns
from localcluster.apiserver.tables.durations import format_duration
from localcluster.wire import Json

_DONE = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def _condition(pod: Json, kind: str) -> Json:
    return next((c for c in pod.get("status", {}).get("conditions") or () if c.get("type") == kind), {})


def _end_reason(state: Json, prefix: str = "") -> str:
    if state.get("reason"):
        return f"{prefix}{state['reason']}"
    if state.get("signal"):
        return f"{prefix}Signal:{state['signal']}"
    return f"{prefix}ExitCode:{state.get('exitCode', 0)}"


class _Restarts:
    def __init__(self) -> None:
        self.count = 0
        self.last: float | None = None

    def add(self, status: Json) -> None:
        self.count += status.get("restartCount", 0)
        ended = parse_time(((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
        if ended is not None and (self.last is None or ended > self.last):
            self.last = ended

    def text(self, now: float) -> str:
        if self.count and self.last is not None:
            return f"{self.count} ({format_duration(now - self.last)} ago)"
        return str(self.count)


def _init_reason(status: Json, index: int, total: int) -> str:
    state = status.get("state") or {}
    if state.get("terminated"):
        return _end_reason(state["terminated"], "Init:")
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _main_reason(pod: Json, reason: str, restarts: _Restarts) -> tuple[str, int]:
    """(reason, ready containers) from the main containers, the first one's word counting last."""
    ready, has_running, error = 0, False, ""
    for status in reversed(pod.get("status", {}).get("containerStatuses") or ()):
        restarts.add(status)
        state = status.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _end_reason(state["terminated"])
            if state["terminated"].get("exitCode"):
                error = reason
        elif status.get("ready") and state.get("running") is not None:
            has_running = True
            ready += 1
    if reason == "Completed":
        if has_running and _condition(pod, "Ready").get("status") == "True":
            reason = "Running"
        elif error:
            reason = error
        elif has_running:
            reason = "NotReady"
    return reason, ready


def _pod_row(pod: Json, now: float) -> tuple[Row, Any]:
    spec, status, metadata = pod.get("spec", {}), pod.get("status", {}), pod["metadata"]
    phase = status.get("phase", "")
    reason = status.get("reason") or phase
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    inits = {c["name"]: c for c in spec.get("initContainers", ())}
    sidecars = {name for name, container in inits.items() if container.get("restartPolicy") == "Always"}
    restarts, sidecar_restarts = _Restarts(), _Restarts()
    ready, initializing = 0, False
    for index, init in enumerate(status.get("initContainerStatuses") or ()):
        restarts.add(init)
        if init["name"] in sidecars:
            sidecar_restarts.add(init)
        terminated = (init.get("state") or {}).get("terminated")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if init["name"] in sidecars and init.get("started"):
            ready += 1 if init.get("ready") else 0
            continue
        reason, initializing = _init_reason(init, index, len(inits)), True
        break
    if not initializing or _condition(pod, "Initialized").get("status") == "True":
        restarts = sidecar_restarts
        reason, main_ready = _main_reason(pod, reason, restarts)
        ready += main_ready
    if "deletionTimestamp" in metadata:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            reason = "Terminating"
    total = len(spec.get("containers", ())) + len(sidecars)
    addresses = status.get("podIPs") or [{}]
    cells = [
        metadata["name"],
        f"{ready}/{total}",
        reason,
        restarts.text(now),
        age_of(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(pod),
    ]
    if phase in _DONE:
        return cells, [{"type": "Completed", "status": "True", "reason": phase, "message": _DONE[phase]}]
    return cells, None


def _readiness_gates(pod: Json) -> str:
    gates = pod.get("spec", {}).get("readinessGates", ())
    if not gates:
        return NONE
    passed = sum(_condition(pod, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    return f"{passed}/{len(gates)}"


POD = Printer(
    make_columns(
        "Name:name", "Ready", "Status", "Restarts", "Age", "IP+", "Node+", "Nominated Node+", "Readiness Gates+"
    ),
    _pod_row,
)
