"""Nodes that are lost, and GPUs at fault: what they mean for the pods that are there. Pure.

A node is unhealthy when it is gone, not Ready, or tainted unreachable. For `node_failure_grace` nothing happens, since
most nodes come back; after that its pods are lost: they count as failed through the node, and are deleted with grace 0,
because no kubelet is there to confirm a deletion (jobs of other operators hang on exactly that). A cordoned node is
healthy.

The findings are put on the pod records themselves (`lost`, `gpu_fault`), so that every later decision sees them in one
way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tjworker.api.model import TrainingJob
from tjworker.api.observed import ENDED_PHASES, NodeRecord, Observed, PodRecord
from tjworker.api.ownership import own_pods
from tjworker.api.resources import NODES
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile.rules import Rules

_SETTLED_SECONDS = 5.0
"""A pod may be seen before the new node that it was bound to: for so long an unknown node is not taken for a gone
one."""


@dataclass(frozen=True, slots=True)
class NodeFindings:
    observed: Observed
    """As it was, with `lost` and `gpu_fault` on the pods concerned."""
    status: JobStatus
    next_seconds: float | None = None
    """When the next node's grace is over."""


@dataclass(frozen=True, slots=True)
class _Trouble:
    why: str
    since: float


def mark_node_troubles(
    job: TrainingJob, status: JobStatus, observed: Observed, now: float, rules: Rules
) -> NodeFindings:
    """Look at the nodes that hold pods of this job. `status.missing_nodes` remembers since when a node is gone: nothing
    in the cluster says so."""
    placed = [p for p in own_pods(job, observed) if p.node and _may_hang(p)]
    missing = _missing(placed, status, observed, now)
    if missing != status.missing_nodes:
        status = status.model_copy(update={"missing_nodes": missing})
    troubles = {name: _trouble(name, observed.nodes.get(name), missing) for name in sorted({p.node for p in placed})}
    waits: list[float] = []
    lost: dict[str, str] = {}
    for pod in placed:
        trouble = troubles[pod.node]
        if trouble is None:
            continue
        # A pod that tolerates the node and was put there while it was ill already has its own grace: otherwise it would
        # be replaced as fast as it is made.
        since = max(trouble.since, from_rfc3339(pod.created_at) or 0.0)
        left = since + rules.node_failure_grace_seconds - now
        if left > 0:
            waits.append(left)
        else:
            lost[pod.name] = trouble.why
    if NODES in observed.seen and any(p.node not in observed.nodes and p.node not in missing for p in placed):
        waits.append(_SETTLED_SECONDS)
    in_use = _gpus_in_use(placed)
    names = {p.name for p in placed}
    pods = tuple(_marked(p, lost, observed, in_use, rules) if p.name in names else p for p in observed.pods)
    return NodeFindings(replace(observed, pods=pods), status, min(waits, default=None))


def _missing(placed: list[PodRecord], status: JobStatus, observed: Observed, now: float) -> dict[str, str]:
    """Nodes of pods that the cluster does not have, with when that was first seen. Where nodes may not be read at all
    (an install without cluster-wide rights), none is known and none is missing."""
    found: dict[str, str] = {}
    if NODES not in observed.seen:
        return found
    for pod in placed:
        if pod.node in observed.nodes:
            continue
        started = from_rfc3339(pod.started_at or pod.created_at)
        if pod.node in status.missing_nodes:
            found[pod.node] = status.missing_nodes[pod.node]
        elif started is None or now - started >= _SETTLED_SECONDS:
            found.setdefault(pod.node, to_rfc3339(now))
    return dict(sorted(found.items()))


def _trouble(name: str, node: NodeRecord | None, missing: Mapping[str, str]) -> _Trouble | None:
    if node is None:
        since = from_rfc3339(missing.get(name))
        return None if since is None else _Trouble(f"node {name} is gone since {missing[name]}", since)
    if node.ready != "True":
        since = from_rfc3339(node.ready_since)
        word = "not Ready" if node.ready == "False" else "silent (Ready is Unknown)"
        return _Trouble(f"node {name} is {word} since {node.ready_since}: {node.reason}", since or 0.0)
    if node.unreachable_since:
        since = from_rfc3339(node.unreachable_since)
        return _Trouble(f"node {name} is unreachable since {node.unreachable_since}", since or 0.0)
    return None


def _may_hang(pod: PodRecord) -> bool:
    """An ended pod needs its node no more, unless it is in deletion: the kubelet has to confirm that."""
    return pod.phase not in ENDED_PHASES or bool(pod.deleted_at)


def _gpus_in_use(placed: Iterable[PodRecord]) -> Mapping[tuple[str, str], int]:
    """(node, extended resource) -> how many of it the pods of this job hold there."""
    in_use: Counter[tuple[str, str]] = Counter()
    for pod in placed:
        for resource, count in pod.gpus.items():
            in_use[pod.node, resource] += count
    return in_use


def _marked(
    pod: PodRecord, lost: Mapping[str, str], observed: Observed, in_use: Mapping[tuple[str, str], int], rules: Rules
) -> PodRecord:
    if pod.name in lost:
        return replace(pod, lost=lost[pod.name])
    node = observed.nodes.get(pod.node)
    fault = _gpu_fault(pod, node, in_use, rules) if node is not None else ""
    return replace(pod, gpu_fault=fault) if fault else pod


def _gpu_fault(pod: PodRecord, node: NodeRecord, in_use: Mapping[tuple[str, str], int], rules: Rules) -> str:
    """Why a GPU of this pod is taken to be at fault: what kubelet says of the pod's own devices, a node with fewer GPUs
    than its pods hold, or a condition that a node problem detector has set."""
    sick = [d for c in pod.containers for d in c.unhealthy_devices]
    if sick:
        return f"node {node.name}: device {', '.join(sick)} of the pod is Unhealthy"
    for resource in rules.gpu_resources:
        if not pod.gpus.get(resource):
            continue
        wanted = in_use[node.name, resource]
        room = node.allocatable.get(resource)
        if room is not None and room.isdigit() and int(room) < wanted:
            return f"node {node.name} has {room} {resource}, its pods hold {wanted}"
        for condition in rules.gpu_fault_conditions:
            # Only for pods that were there when it came. A pod that is scheduled onto the node in spite of it (the
            # node has no taint) would otherwise be replaced as fast as it starts, for ever.
            if condition in node.conditions and pod.created_at <= node.condition_since.get(condition, "~"):
                return f"node {node.name}: {condition}: {node.conditions[condition]}".rstrip(": ")
    return ""
