"""Why a pod failed: the cause, and for the user the container, its exit code and the node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tjworker.api.model import Role
from tjworker.api.naming import counted_names
from tjworker.api.observed import CONTAINER_STATUS_UNKNOWN, ENDED_PHASES, TAINTED, ContainerRecord, PodRecord
from tjworker.api.status import Cause, Failure
from tjworker.api.timefmt import to_rfc3339

Kind = Literal["exit", "disrupted", "turned_away", "node_lost", "gpu_fault"]

# docs/internals/kubelet.md lists what the kubelet, the scheduler and controllers write into a pod that they end.
_NODE_REASONS = frozenset(
    {"NodeLost", "NodeShutdown", "Terminated", "NodeAffinity", "UnexpectedAdmissionError", "Shutdown"}
)
"""Values of pod.status.reason that blame the node, as OutOf<resource> does. `Evicted` is not among them: a pod that
exceeds its own limits has it, too, but then without the condition DisruptionTarget."""
_PREEMPTION_REASONS = frozenset({"Preempting", "PreemptionByScheduler"})
_REJECTED = "Pod was rejected: "
"""Prefix of the message of a pod that the kubelet does not admit, whatever the reason."""
_LOST = frozenset({(CONTAINER_STATUS_UNKNOWN, 137), ("Unknown", 255)})
"""(reason, exit code) that the kubelet and containerd invent for a container whose end they did not see, as after a
reboot of the node. The program did not exit with that code."""
_CANNOT_START = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a container whose command could not be started, from containerd and cri-dockerd. Its exit code, 126 to
128, comes from the runtime and not from the program."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    kind: Kind
    cause: Cause
    exit_codes: frozenset[int]
    """Non-zero exit codes of the containers that count."""
    failure: Failure
    cannot_start: bool = False
    """The command of a container that counts could not be started. A restart would fail in the same way."""
    main_ended: bool = True
    """A container that counts has ended, with 0 or with another code."""


def counted(pod: PodRecord, main: str | None = None) -> tuple[ContainerRecord, ...]:
    """The containers whose exit codes count; `main` as in `counted_names`.

    In the operator's own kinds, failed init containers count if no other container has ended, as in
    trainingjob-operator. In the kinds of other operators no init container counts: training-operator and KubeDL read
    only containerStatuses (`ReconcilePods`, `reconcileOnePod`)."""
    mains = tuple(c for c in pod.containers if not c.init)
    names = set(counted_names([c.name for c in mains], main))
    chosen = tuple(c for c in mains if c.name in names)
    if main is not None or any(c.state == "terminated" for c in chosen):
        return chosen
    broken = tuple(c for c in pod.containers if c.init and c.state == "terminated" and c.exit_code)
    return broken or chosen


def fails_in_part(role: Role, pod: PodRecord, main: str | None) -> bool:
    """True if the pod's main container has failed, and the role does not wait for the other containers to end."""
    return role.fails_in_part and pod.phase == "Running" and bool(_ended_badly(counted(pod, main)))


def ended_at(pod: PodRecord, main: str | None = None) -> int | None:
    """Unix seconds, by the node's clock, at which the last of the containers that count ended; None if none has."""
    return max((c.finished_at for c in counted(pod, main) if c.finished_at is not None), default=None)


def diagnose(pod: PodRecord, now: str, main: str | None = None) -> Diagnosis:
    """What ended this failed pod, or will end it. `now` replaces a missing time of the end; `main` as in
    `counted_names`."""
    if pod.lost and pod.phase not in ENDED_PHASES:
        return _by_node(pod, "node_lost", "NodeLost", pod.lost, now)
    if pod.gpu_fault and pod.phase != "Failed":
        return _by_node(pod, "gpu_fault", "GPUFault", pod.gpu_fault, now)
    counting = counted(pod, main)
    ended = _ended_badly(counting)
    # Only the containers that count decide. But if another container made the pod fail, the user must see that one.
    bad = ended or _ended_badly(pod.containers)
    first = min(bad, key=lambda c: (c.finished_at is None, c.finished_at or 0, c.name), default=None)
    kind, cause = _find_cause(pod, bad)
    return Diagnosis(
        kind,
        cause,
        frozenset(c.exit_code for c in ended if c.exit_code),
        Failure(
            pod=pod.name,
            node=pod.node,
            container=first.name if first else "",
            exit_code=first.exit_code if first else None,
            reason=pod.disruption or pod.reason or (first.reason if first else "") or "Failed",
            message=(pod.disruption_message or pod.message or (_write_message(first) if first else ""))[:1024],
            time=now if first is None or first.finished_at is None else to_rfc3339(first.finished_at),
        ),
        cannot_start=any(c.reason in _CANNOT_START for c in ended),
        main_ended=any(c.state == "terminated" for c in counting),
    )


def _write_message(container: ContainerRecord) -> str:
    return start_error(container.message) if container.reason in _CANNOT_START else container.message


def start_error(message: str) -> str:
    """The part of the runtime's `message` that says why a command could not be started. The names of the runtime's
    layers, in front, and its protocol's code, at the end, are removed."""
    message = message.strip().removesuffix(": unknown")
    start = message.rfind("exec: ")
    return message[start:] if start >= 0 else message.rpartition(": ")[2]


def _ended_badly(containers: Iterable[ContainerRecord]) -> list[ContainerRecord]:
    return [c for c in containers if c.state == "terminated" and c.exit_code]


def _by_node(pod: PodRecord, kind: Kind, reason: str, why: str, now: str) -> Diagnosis:
    return Diagnosis(
        kind, "node", frozenset(), Failure(pod=pod.name, node=pod.node, reason=reason, message=why, time=now)
    )


def _find_cause(pod: PodRecord, bad: Sequence[ContainerRecord]) -> tuple[Kind, Cause]:
    """`bad`: the containers that made the pod fail."""
    if pod.disruption in _PREEMPTION_REASONS or pod.reason in _PREEMPTION_REASONS:
        return "disrupted", "preemption"
    if pod.disruption == "DeletionByPodGC" or pod.reason == "NodeLost" or (pod.disruption == TAINTED and pod.node_ill):
        return "node_lost", "node"
    if turned_away(pod):
        return "turned_away", "node"
    if not pod.disruption and _is_rejected(pod):
        # A kubelet that was restarted admits its pods again, and ends the containers of a pod that it rejects.
        return "disrupted", "node"
    by_node = pod.disruption or pod.reason in _NODE_REASONS or pod.reason.startswith("OutOf")
    if by_node or (not pod.reason and bad and all((c.reason, c.exit_code) in _LOST for c in bad)):
        return "disrupted", "node"
    return "exit", "application"


def turned_away(pod: PodRecord) -> bool:
    """True if the kubelet rejected the pod before any container ran."""
    return not pod.disruption and _is_rejected(pod) and pod.never_started


def _is_rejected(pod: PodRecord) -> bool:
    """True if the kubelet rejected the pod at admission."""
    # The kubelet then replaces the whole status, so that it has no containers.
    return pod.phase == "Failed" and (pod.message.startswith(_REJECTED) or bool(pod.reason and not pod.containers))


def describe(failure: Failure) -> str:
    """The failure as one sentence, for messages and events."""
    where = f" on node {failure.node}" if failure.node else ""
    what = (
        f"container {failure.container} exited with code {failure.exit_code}" if failure.container else failure.reason
    )
    return f"pod {failure.pod}{where} failed: {what}" + (f" ({failure.message})" if failure.message else "")
