"""Lost nodes and faulty GPUs: what they mean for the job's pods. Pure.

A node is unhealthy if it is gone, not Ready, or tainted unreachable. During `node_failure_grace` nothing happens, since
most nodes come back. After it the node's pods are lost: they count as failed through the node, and are deleted with
grace period 0, because no kubelet can confirm the deletion (jobs of other operators wait for that for ever). A cordoned
node is healthy. Missing GPUs have the same grace period: a device plugin that restarts removes them for a moment, and
containers run on. A GPU may be faulty before its pod comes, and often nothing says since when. So a pod that replaces
another one is given time, longer with each attempt, before a fault replaces it, too.

The view comes by a watch, which may be a minute late. So trouble in the view of a node only makes the plan need that
node as the API server has it (`NodeNow`), and the job is decided again on the answer. Without an answer the node counts
as healthy.

The findings are set on the pod records (`lost`, `node_ill`, `gpu_fault`), so that all later decisions agree on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tjworker.api.model import TrainingJob
from tjworker.api.needs import NodeNow
from tjworker.api.observed import ENDED_PHASES, TAINTED, NodeRecord, Observed, PodRecord
from tjworker.api.ownership import own_pods
from tjworker.api.resources import NODES
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile.replicas import pod_attempt
from tjworker.reconcile.rests import rest_seconds
from tjworker.reconcile.rules import Rules

_SETTLED_SECONDS = 5.0
"""How long an unknown node does not count as gone: the watch may show a pod before the new node that holds it."""
ASK_AGAIN_SECONDS = 10.0
"""Before a node is read again that the API server did not show: no answer, no permission, or too many nodes."""
Shortage = tuple[str, str]
"""(node, extended resource)"""


@dataclass(frozen=True, slots=True)
class NodeFindings:
    observed: Observed
    """With `lost`, `node_ill` and `gpu_fault` on the affected pods."""
    status: JobStatus
    next_seconds: float | None = None
    """Seconds until the next node's grace period is over."""
    needs: tuple[NodeNow, ...] = ()
    """Nodes that are in trouble by the view, and must be read from the API server before pods suffer for it."""


@dataclass(frozen=True, slots=True)
class _Trouble:
    why: str
    since: float


def mark_node_troubles(
    job: TrainingJob, status: JobStatus, observed: Observed, now: float, rules: Rules
) -> NodeFindings:
    """Look at the nodes that hold pods of this job. `status.missing_nodes` and `status.short_nodes` record since when a
    node is gone or lacks GPUs: the cluster does not record that."""
    placed = [p for p in own_pods(job, observed) if p.node and _may_hang(p)]
    missing = _find_missing(placed, status, observed, now)
    in_use = _gpus_in_use(placed)
    short = _find_short(in_use, status, observed, now)
    if (missing, short) != (status.missing_nodes, status.short_nodes):
        status = status.model_copy(update={"missing_nodes": missing, "short_nodes": short})
    look = _Look(observed, missing, short, in_use, now, rules)
    names = {p.name for p in placed}
    pods = tuple(look.mark(p) if p.name in names else p for p in observed.pods)
    if NODES in observed.seen and any(not _is_known(p.node, observed) and p.node not in missing for p in placed):
        # The pod was placed a moment ago, and the watch of nodes may be behind that of pods.
        look.waits.append(_SETTLED_SECONDS)
    if look.ask:
        look.waits.append(ASK_AGAIN_SECONDS)
    if observed.nodes_now:
        # The watch may still be late, and what it shows then may not begin a pass.
        look.waits.append(rules.node_failure_grace_seconds)
    next_seconds = min(look.waits, default=None)
    if pods != observed.pods:
        observed = replace(observed, pods=pods)
    return NodeFindings(observed, status, next_seconds, tuple(NodeNow(name) for name in sorted(look.ask)))


def _is_known(node: str, observed: Observed) -> bool:
    return _find_node(node, observed) is not None


def _find_node(name: str, observed: Observed) -> NodeRecord | None:
    return observed.nodes_now[name] if name in observed.nodes_now else observed.nodes.get(name)


def _find_missing(placed: list[PodRecord], status: JobStatus, observed: Observed, now: float) -> dict[str, str]:
    """Node -> since when the view lacks it, for nodes that hold pods."""
    found: dict[str, str] = {}
    if NODES not in observed.seen:
        # The operator may not read nodes (an install without cluster-wide permissions): none is missing.
        return found
    for pod in placed:
        if pod.node in observed.nodes:
            continue
        bound = pod.placed_at
        if observed.nodes_now.get(pod.node) is not None:
            # The watch is late: the node exists. It is read again after a grace period.
            found[pod.node] = to_rfc3339(now)
        elif pod.node in status.missing_nodes:
            found[pod.node] = status.missing_nodes[pod.node]
        elif bound is None or now - bound >= _SETTLED_SECONDS:
            found.setdefault(pod.node, to_rfc3339(now))
    return dict(sorted(found.items()))


def _gpus_in_use(placed: Iterable[PodRecord]) -> Mapping[Shortage, int]:
    """(node, extended resource) -> how many of it the pods of this job hold there."""
    in_use: Counter[Shortage] = Counter()
    for pod in placed:
        for resource, count in pod.gpus.items():
            in_use[pod.node, resource] += count
    return in_use


def _find_short(
    in_use: Mapping[Shortage, int], status: JobStatus, observed: Observed, now: float
) -> dict[str, dict[str, str]]:
    """Node -> resource -> since when the node has fewer of it than this job's pods hold there."""
    found: dict[str, dict[str, str]] = {}
    for (name, resource), wanted in sorted(in_use.items()):
        if not _lacks(observed.nodes.get(name), resource, wanted):
            continue
        since = status.short_nodes.get(name, {}).get(resource)
        if since is None or (name in observed.nodes_now and not _lacks(observed.nodes_now[name], resource, wanted)):
            # New, or the watch is late and the node has enough. Then it is read again after a grace period.
            since = to_rfc3339(now)
        found.setdefault(name, {})[resource] = since
    return found


def _lacks(node: NodeRecord | None, resource: str, wanted: int) -> bool:
    room = None if node is None else node.allocatable.get(resource)
    return room is not None and room.isdigit() and int(room) < wanted


@dataclass(slots=True)
class _Look:
    """Marks one pod after another. Collects the nodes to read and when to look again."""

    observed: Observed
    missing: Mapping[str, str]
    short: Mapping[str, Mapping[str, str]]
    in_use: Mapping[Shortage, int]
    now: float
    rules: Rules
    waits: list[float] = field(default_factory=list)
    ask: set[str] = field(default_factory=set)

    def mark(self, pod: PodRecord) -> PodRecord:
        trouble = self._find_trouble(pod.node)
        if trouble is not None:
            # The taint manager deletes pods of an unhealthy node by itself, maybe before the grace period is over.
            if pod.disruption == TAINTED and self._is_confirmed(pod.node):
                pod = replace(pod, node_ill=trouble.why)
            # A pod that tolerates the unhealthy node and was placed there has its own grace period. Otherwise it would
            # be replaced as fast as it is created.
            since = max(trouble.since, pod.placed_at or 0)
            if not _forced_out(pod) and self._is_over(since) and self._is_confirmed(pod.node):
                return replace(pod, lost=trouble.why)
        device = _unhealthy_device(pod)
        fault = device if device and self._has_rested(pod) else self._gpu_fault(pod)
        return replace(pod, gpu_fault=fault) if fault else pod

    def _has_rested(self, pod: PodRecord) -> bool:
        """True if a successor has existed for as long as a rejected pod rests. The scheduler may have placed it on the
        same GPUs, and would place the next one there, too."""
        attempt = pod_attempt(pod)
        if not attempt:
            return True
        rest = rest_seconds(attempt - 1)
        left = (pod.placed_at or 0) + rest - self.now
        if left > 0:
            self.waits.append(min(left, rest))
        return left <= 0

    def _is_over(self, since: float) -> bool:
        left = since + self.rules.node_failure_grace_seconds - self.now
        if left > 0:
            self.waits.append(left)
        return left <= 0

    def _is_confirmed(self, node: str) -> bool:
        """True if the API server has shown the node in this pass. If not, the plan will need it."""
        if node not in self.observed.nodes_now:
            self.ask.add(node)
        return node in self.observed.nodes_now

    def _find_trouble(self, name: str) -> _Trouble | None:
        node = _find_node(name, self.observed)
        if node is None:
            since = from_rfc3339(self.missing.get(name))
            return None if since is None else _Trouble(f"node {name} is gone since {self.missing[name]}", since)
        if node.ready != "True":
            word = "not Ready" if node.ready == "False" else "silent (Ready is Unknown)"
            at = "" if node.ready_since is None else f" since {to_rfc3339(node.ready_since)}"
            return _Trouble(f"node {name} is {word}{at}: {node.reason}", node.ready_since or 0)
        if node.unreachable_since is not None:
            at = to_rfc3339(node.unreachable_since)
            return _Trouble(f"node {name} is unreachable since {at}", node.unreachable_since)
        return None

    def _gpu_fault(self, pod: PodRecord) -> str:
        """Why a GPU of this pod counts as faulty: the node has fewer GPUs than its pods hold, or a node problem
        detector has set a condition. '' if none does."""
        node = _find_node(pod.node, self.observed)
        if node is None:
            return ""
        for resource in sorted(self.rules.gpu_resources):
            if not pod.gpus.get(resource):
                continue
            wanted = self.in_use[node.name, resource]
            since = from_rfc3339(self.short.get(node.name, {}).get(resource))
            if (
                since is not None
                and _lacks(node, resource, wanted)
                and self._is_over(since)
                and self._has_rested(pod)
                and self._is_confirmed(node.name)
            ):
                room = node.allocatable[resource]
                return f"node {node.name} has {room} {resource} since {to_rfc3339(since)}, its pods hold {wanted}"
            for condition in self.rules.gpu_fault_conditions:
                # Only for pods that are older than the condition. A newer pod was placed there in spite of it (the node
                # has no taint), and would be replaced as fast as it starts, for ever.
                came = node.condition_since.get(condition)
                there = condition in node.conditions and (came is None or (pod.placed_at or 0) <= came)
                if there and self._has_rested(pod) and self._is_confirmed(node.name):
                    return f"node {node.name}: {condition}: {node.conditions[condition]}".rstrip(": ")
        return ""


def _may_hang(pod: PodRecord) -> bool:
    """True if the pod needs its node: it runs, or the kubelet must confirm its deletion."""
    return pod.phase not in ENDED_PHASES or pod.deleted_at is not None


def _forced_out(pod: PodRecord) -> bool:
    """True if the pod was deleted with grace period 0 already: only a finalizer still holds it, whatever its node
    does."""
    return pod.deleted_at is not None and not pod.deletion_grace_seconds


def _unhealthy_device(pod: PodRecord) -> str:
    """The kubelet's report about unhealthy devices of the pod; '' if there are none."""
    sick = [d for c in pod.containers for d in c.unhealthy_devices]
    return f"node {pod.node}: device {', '.join(sick)} of the pod is Unhealthy" if sick else ""
