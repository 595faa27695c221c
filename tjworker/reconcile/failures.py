"""Why a pod failed, in the words a user needs: cause, exit code, container, node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tjworker.api.model import Role
from tjworker.api.naming import counted_names
from tjworker.api.observed import CONTAINER_STATUS_UNKNOWN, ENDED_PHASES, TAINTED, ContainerRecord, PodRecord
from tjworker.api.status import Cause, Failure
from tjworker.api.timefmt import from_rfc3339

Kind = Literal["exit", "disrupted", "turned_away", "node_lost", "gpu_fault"]

# What kubelet, scheduler and controllers write into a pod that they end: docs/internals/kubelet.md.
_NODE_REASONS = frozenset(
    {"NodeLost", "NodeShutdown", "Terminated", "NodeAffinity", "UnexpectedAdmissionError", "Shutdown"}
)
"""pod.status.reason of a pod that did nothing wrong. And OutOf<resource>. `Evicted` alone does not tell: for the
program's own limits it comes without DisruptionTarget."""
_PREEMPTION_REASONS = frozenset({"Preempting", "PreemptionByScheduler"})
_REJECTED = "Pod was rejected: "
"""How the message of a pod begins that the kubelet does not admit, for whichever reason."""
_LOST = frozenset({(CONTAINER_STATUS_UNKNOWN, 137), ("Unknown", 255)})
"""Reason and exit code that the kubelet and containerd make up for a container whose end nobody saw, as after a reboot
of its node. The program exited with neither."""
_CANNOT_START = frozenset({"StartError", "ContainerCannotRun"})
"""Reason of a container whose command could not be started: containerd's, and cri-dockerd's. Its exit code, 126 to 128,
is the runtime's and not the program's."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    kind: Kind
    cause: Cause
    exit_codes: frozenset[int]
    """Non-zero exit codes of the containers that count."""
    failure: Failure
    cannot_start: bool = False
    """The command of a container that counts could not be started: another try would end in the same way."""
    main_ended: bool = True
    """A container that counts has ended, with 0 or with another code."""


def counted(pod: PodRecord, main: str | None = None) -> tuple[ContainerRecord, ...]:
    """The containers whose exit codes count; `main` as in `counted_names`.

    In kinds of our own, failed init containers count when none of the others has ended (trainingjob-operator). In kinds
    of other operators an init container never counts: training-operator and KubeDL read containerStatuses alone
    (`ReconcilePods`, `reconcileOnePod`)."""
    mains = tuple(c for c in pod.containers if not c.init)
    names = set(counted_names([c.name for c in mains], main))
    chosen = tuple(c for c in mains if c.name in names)
    if main is not None or any(c.state == "terminated" for c in chosen):
        return chosen
    broken = tuple(c for c in pod.containers if c.init and c.state == "terminated" and c.exit_code)
    return broken or chosen


def fails_in_part(role: Role, pod: PodRecord, main: str | None) -> bool:
    """The pod's main container has failed, and the role does not wait for the other containers of the pod to end."""
    return role.fails_in_part and pod.phase == "Running" and bool(_ended_badly(counted(pod, main)))


def ended_at(pod: PodRecord, main: str | None = None) -> float | None:
    """When the last of its containers that count ended, by its node's clock."""
    return max((t for c in counted(pod, main) if (t := from_rfc3339(c.finished_at)) is not None), default=None)


def diagnose(pod: PodRecord, now: str, main: str | None = None) -> Diagnosis:
    """What ended this failed pod, or what will. `now` stands in where the pod itself has no time; `main` as in
    `counted_names`."""
    if pod.lost and pod.phase not in ENDED_PHASES:
        return _by_node(pod, "node_lost", "NodeLost", pod.lost, now)
    if pod.gpu_fault and pod.phase != "Failed":
        return _by_node(pod, "gpu_fault", "GPUFault", pod.gpu_fault, now)
    counting = counted(pod, main)
    ended = _ended_badly(counting)
    # Exit codes are those of the containers that count; but a pod that another one fails is told with that one.
    bad = ended or _ended_badly(pod.containers)
    first = min(bad, key=lambda c: (c.finished_at or "~", c.name), default=None)
    kind, cause = _cause(pod, bad)
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
            message=(pod.disruption_message or pod.message or (_message(first) if first else ""))[:1024],
            time=(first.finished_at if first else "") or now,
        ),
        cannot_start=any(c.reason in _CANNOT_START for c in ended),
        main_ended=any(c.state == "terminated" for c in counting),
    )


def _message(container: ContainerRecord) -> str:
    return start_error(container.message) if container.reason in _CANNOT_START else container.message


def start_error(message: str) -> str:
    """Of a command that could not be started, what is wrong with it: the runtime puts the names of its layers in front,
    and the code of its protocol behind."""
    message = message.strip().removesuffix(": unknown")
    found = message.rfind("exec: ")
    return message[found:] if found >= 0 else message.rpartition(": ")[2]


def _ended_badly(containers: Iterable[ContainerRecord]) -> list[ContainerRecord]:
    return [c for c in containers if c.state == "terminated" and c.exit_code]


def _by_node(pod: PodRecord, kind: Kind, reason: str, why: str, now: str) -> Diagnosis:
    return Diagnosis(
        kind, "node", frozenset(), Failure(pod=pod.name, node=pod.node, reason=reason, message=why, time=now)
    )


def _cause(pod: PodRecord, bad: Sequence[ContainerRecord]) -> tuple[Kind, Cause]:
    """`bad`: the containers that made the pod fail."""
    if pod.disruption in _PREEMPTION_REASONS or pod.reason in _PREEMPTION_REASONS:
        return "disrupted", "preemption"
    if pod.disruption == "DeletionByPodGC" or pod.reason == "NodeLost" or (pod.disruption == TAINTED and pod.node_ill):
        return "node_lost", "node"
    if turned_away(pod):
        return "turned_away", "node"
    if not pod.disruption and _rejected(pod):
        return "disrupted", "node"  # a kubelet that is started anew admits its pods once more, and ends what has run
    by_node = pod.disruption or pod.reason in _NODE_REASONS or pod.reason.startswith("OutOf")
    if by_node or (not pod.reason and bad and all((c.reason, c.exit_code) in _LOST for c in bad)):
        return "disrupted", "node"
    return "exit", "application"


def turned_away(pod: PodRecord) -> bool:
    """By its kubelet, before any of its containers ran."""
    return not pod.disruption and _rejected(pod) and pod.never_started


def _rejected(pod: PodRecord) -> bool:
    """By the kubelet, at its admission. It then writes the whole status anew, without any container."""
    return pod.phase == "Failed" and (pod.message.startswith(_REJECTED) or bool(pod.reason and not pod.containers))


def describe(failure: Failure) -> str:
    """One sentence for messages and events."""
    where = f" on node {failure.node}" if failure.node else ""
    what = (
        f"container {failure.container} exited with code {failure.exit_code}" if failure.container else failure.reason
    )
    return f"pod {failure.pod}{where} failed: {what}" + (f" ({failure.message})" if failure.message else "")
