"""Counts the nodes and pods of a cluster as the autoscaler does: why a role has no more replicas, which jobs have the
room, and how full the cluster is. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tjworker.api import labels
from tjworker.api.labels import of_object
from tjworker.api.model import TrainingJob
from tjworker.api.node_records import node_record
from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests, pod_requests
from tjworker.api.node_room import had, shown_apart, take, wanted
from tjworker.api.observed import ENDED_PHASES, NodeRecord
from tjworker.api.owners import controller
from tjworker.api.pod_records import pod_record
from tjworker.api.status import FULL_SIZE
from tjworker.api.timefmt import to_rfc3339
from tjworker.api.waiting_pods import WaitingPods, waiting_name, waiting_pod
from tjworker.autoscale.cluster import cluster_resource
from tjworker.autoscale.decide import pose, why_no_more
from tjworker.autoscale.policies import POLICIES
from tjworker.autoscale.problem import ElasticRole
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import UnplannedRole
from tjworker.autoscale.rules import AutoscaleRules
from tjworker.autoscale.state import JobState
from tjworker.autoscale.together import WrongPolicyName
from tjworker.base import Json

SHOWN_HOLDERS = 4
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Room:
    """A cluster at one moment."""

    nodes: Mapping[str, NodeRecord]
    requests: Mapping[str, NodeRequests]
    """Node -> the requests of its pods; WAITING -> those of pods without a node."""
    holders: Mapping[str, NodeRequests]
    """`namespace/job` -> the requests of its pods; OTHERS -> those of pods without a job."""
    placed: Mapping[str, NodeRequests] = field(default_factory=dict)
    """Like `holders`, but only of pods that have a node."""
    pods: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """`namespace/job` -> its raw pods."""
    waiting: Sequence[WaitingPods] = ()
    """The pods without a node, grouped by equal requests."""

    def resource(self, gpu_resources: Sequence[str]) -> ClusterResource:
        return cluster_resource(self.nodes, self.requests, gpu_resources)


def room(nodes: Iterable[Json], pods: Iterable[Json]) -> Room:
    requests: dict[str, NodeRequests] = defaultdict(lambda: NOTHING)
    holders: dict[str, NodeRequests] = defaultdict(lambda: NOTHING)
    placed: dict[str, NodeRequests] = defaultdict(lambda: NOTHING)
    by_job: dict[str, list[Json]] = defaultdict(list)
    waiting: dict[str, WaitingPods] = {}
    for pod in pods:
        metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
        marks = of_object(metadata)
        name = marks.get(labels.JOB_NAME) if labels.JOB_UID in marks else None
        holder = f"{metadata['namespace']}/{name}" if name else OTHERS
        if name:
            by_job[holder].append(pod)
        # An ended pod keeps its node and gives back what it requested.
        if status.get("phase") in ENDED_PHASES or (not spec.get("nodeName") and _waits_for_no_node(metadata, spec)):
            continue
        asked = pod_requests(spec, status)
        node = spec.get("nodeName") or WAITING
        requests[node] = requests[node].plus(asked)
        holders[holder] = holders[holder].plus(asked)
        if node != WAITING:
            placed[holder] = placed[holder].plus(asked)
        else:
            one = waiting_pod(f"{metadata['namespace']}/{metadata['name']}", pod, asked)
            alike = waiting.setdefault(waiting_name(one), one)
            waiting[waiting_name(one)] = replace(alike, pods=alike.pods + (alike is not one))
    records = {n["metadata"]["name"]: node_record(n) for n in nodes}
    return Room(records, dict(requests), dict(holders), dict(placed), dict(by_job), tuple(waiting.values()))


def _waits_for_no_node(metadata: Json, spec: Json) -> bool:
    # kube-scheduler places neither: it skips pods that are being deleted (`skipPodSchedule`), and a gate holds a pod
    # back.
    return bool(metadata.get("deletionTimestamp") or spec.get("schedulingGates"))


# -- why a role has no more ------------------------------------------------------------------------
def obstacles(
    job: TrainingJob, jobs: Iterable[TrainingJob], found: Room, now: datetime, rules: AutoscaleRules
) -> dict[str, str]:
    """Role -> why it has no more replicas, of those roles of `job` that could have more. `jobs`: all that there are."""
    # As the autoscaler reads them: a job that it does not scale must not count as one that waits for its room.
    states = [state_of(one, found, decided_by(one)) for one in jobs if one.autoscaled]
    posed = pose(states, found.nodes, found.requests, now.timestamp(), rules, found.waiting)
    said = {
        unplanned.role: str(unplanned)
        for unplanned in posed.problems
        if isinstance(unplanned, UnplannedRole) and unplanned.job == job.key
    }
    why = why_no_more(posed, rules, job.key)
    for role in posed.problem.roles:
        if role.id in why and role.elastic.parallelism + role.refused < role.elastic.max_instance:
            said[role.id.role] = f"{why[role.id]}{_held(role, found)}"
    wrong = [f". {p.why}" for p in posed.problems if isinstance(p, WrongPolicyName) and p.job == job.key]
    return {role: f"{text}{''.join(wrong)}" for role, text in said.items()}


def decided_by(job: TrainingJob) -> str:
    """The policy that decided last, from the job's status; '' if there is none. A user may not know the operator's
    settings, nor be allowed to read the labels of namespaces."""
    condition = job.status.condition(FULL_SIZE)
    policy = condition.reason.lower() if condition is not None else ""
    return policy if policy in POLICIES else ""


def state_of(job: TrainingJob, found: Room, namespace_policy: str = "") -> JobState:
    pods = found.pods.get(f"{job.name.namespace}/{job.name.name}", ())
    records = [
        pod_record(pod, pod["metadata"], str((controller(pod["metadata"]) or {}).get("uid", ""))) for pod in pods
    ]
    # Pods of an earlier job of this name hold room, but are no replicas of this job.
    pods_of_it = tuple(r for r in records if r.labels.get(labels.JOB_UID) == job.uid)
    return JobState.observe(job, pods_of_it, namespace_policy)


def _held(role: ElasticRole, found: Room) -> str:
    """The jobs that hold the resource that the role needs, the largest first."""
    gpu = role.elastic.gpu_limit > 0
    shares = sorted(_shares(found, gpu=gpu), key=lambda share: (-share[1], share[0]))[:SHOWN_HOLDERS]
    held = ", ".join(f"{name} {amount:g}" for name, amount in shares)
    return f". {'GPU' if gpu else 'CPU'} now: {held}" if held else ""


def _shares(found: Room, *, gpu: bool) -> Iterator[tuple[str, float]]:
    for holder, asked in found.placed.items():
        amount = sum(n for _, n in asked.extended) if gpu else asked.cpu_milli / 1000
        if amount:
            yield holder, amount


# -- what fits nowhere -----------------------------------------------------------------------------
def too_large(job: TrainingJob, nodes: Iterable[Json]) -> Iterator[str]:
    """A sentence for each role whose pods would not fit even an empty node; none if the cluster has no nodes, as it may
    add some on demand."""
    # Allocatable, not capacity: kube-scheduler leaves out the share that the kubelet keeps for the system.
    has = [node_record(node).allocatable for node in nodes]
    for role in job.roles if has else ():
        wants = wanted(role.template)
        if take(has, wants):
            continue
        most = {name: max(had(node, name) for node in has) for name in wants}
        over = [name for name, n in wants.items() if n > most[name]]
        numbers = ((name, *shown_apart(name, wants[name], most[name])) for name in over)
        lacking = ", ".join(f"{name} {asked} (a node has at most {there})" for name, asked, there in numbers)
        yield (
            f"a pod of role {role.name} fits no node of the cluster, however empty:"
            f" {lacking or 'no single node has all that it requests'}; it waits for a larger node."
            " Lower its resources.requests"
        )


# -- nodes -----------------------------------------------------------------------------------------
def ill_nodes(nodes: Iterable[Json]) -> dict[str, str]:
    """Node -> why what is on it may be lost, as a clause."""
    found = {}
    for raw in nodes:
        node = node_record(raw)
        if node.ready != "True":
            since = "" if node.ready_since is None else f" since {to_rfc3339(node.ready_since)}"
            found[node.name] = f"is not ready{since}{f' ({node.reason})' if node.reason else ''}"
        elif node.unschedulable:
            found[node.name] = "is cordoned: nothing new comes there"
    return found
