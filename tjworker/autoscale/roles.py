"""The roles that the autoscaler scales, with what one replica requests, and the cluster as it will be when every
decision so far is carried out. Pure.

Without the second half each run would repeat the decision of the one before: a trainer that is to be deleted requests
its room until it is gone, and one that is to be created requests none until it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tjworker.api.model import Role
from tjworker.api.node_requests import NodeRequests, pod_requests
from tjworker.api.observed import PodRecord
from tjworker.api.quantity import mega
from tjworker.autoscale.cluster import MOST, PODS, kinds_of
from tjworker.autoscale.fleet import reserve
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.state import JobState


@dataclass(frozen=True, slots=True)
class AutoRole:
    """One role of one job, and its pods as the autoscaler counts them."""

    state: JobState
    role: Role
    elastic: ElasticJob
    staying: tuple[PodRecord, ...]
    leaving: tuple[PodRecord, ...]
    """Being deleted, or beyond the target."""
    missing: int
    """Replicas of the target without a pod."""

    @property
    def waiting(self) -> tuple[PodRecord, ...]:
        """Replicas that have no node yet."""
        return tuple(pod for pod in self.staying if not pod.node)


def auto_roles(states: Iterable[JobState], gpu_resources: Sequence[str]) -> tuple[list[AutoRole], list[str]]:
    """The roles of every job that lives; and for each role that cannot be planned with, a sentence that says why."""
    found: list[AutoRole] = []
    problems: list[str] = []
    for state in states:
        if not state.alive:
            continue
        for role in state.job.roles:
            if not role.autoscaled:
                continue
            try:
                found.append(_auto_role(state, role, gpu_resources))
            except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
                problems.append(f"{state.job.key}: role {role.name} is not autoscaled: {error}")
    return found, problems


def _auto_role(state: JobState, role: Role, gpu_resources: Sequence[str]) -> AutoRole:
    load = _replica_requests(role)
    pods = state.of_role(role)
    kept = [pod for pod in pods if not pod.deleted_at]
    needed = max(0, role.replicas - state.finished_replicas(role))
    staying = tuple(kept[:needed])
    leaving = (*kept[needed:], *(pod for pod in pods if pod.deleted_at))
    elastic = ElasticJob(
        name=f"{state.job.key}/{role.name}",
        min_instance=role.min_replicas or 0,
        max_instance=role.max_replicas or 0,
        parallelism=role.replicas,
        cpu_request_milli=load.cpu_milli,
        memory_request_mega=mega(load.memory_bytes),
        gpu_limit=sum(load.amount(gpu) for gpu in gpu_resources),
        others=((PODS, 1), *((kind, load.amount(kind)) for kind in kinds_of(gpu_resources) if load.amount(kind))),
        placed=tuple(pod.node for pod in staying),
    )
    return AutoRole(state, role, elastic, staying, leaving, missing=max(0, needed - len(staying)))


def _replica_requests(role: Role) -> NodeRequests:
    """Raises ValueError for a template that asks for what cannot be read, or for more than any node will have."""
    try:
        load = pod_requests(role.template.get("spec") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"its pod template: {error}") from error
    if max(load.cpu_milli, load.memory_bytes, *(amount for _, amount in load.extended)) > MOST:
        raise ValueError("its pod template: a replica requests more than any node has")
    return load


def as_decided(resource: ClusterResource, roles: Iterable[AutoRole]) -> ClusterResource:
    """The cluster when the leaving pods are gone, and the missing and waiting ones have a node."""
    resource = resource.copy()
    to_place: list[tuple[ElasticJob, int]] = []
    for auto in roles:
        for pod in auto.leaving:
            _gone(resource, auto.elastic, pod)
        _ask(resource, auto.elastic, auto.missing)
        if unplaced := auto.missing + len(auto.waiting):
            to_place.append((auto.elastic, unplaced))
    return reserve(resource, to_place)


def _gone(resource: ClusterResource, job: ElasticJob, pod: PodRecord) -> None:
    if not pod.node:
        if not pod.deleted_at:  # a pod that is being deleted before it got a node requests nothing any more
            _ask(resource, job, -1)
        return
    nodes = resource.nodes
    if pod.node not in nodes.cpu_idle_milli:
        return  # an unusable node: neither it nor its pods count
    _ask(resource, job, -1)
    nodes.cpu_idle_milli[pod.node] += job.cpu_request_milli
    nodes.memory_free_mega[pod.node] += job.memory_request_mega
    nodes.gpu_free[pod.node] += job.gpu_limit
    for kind, amount in job.others:
        nodes.others_free[kind][pod.node] += amount


def _ask(resource: ClusterResource, job: ElasticJob, replicas: int) -> None:
    resource.cpu_request_milli += replicas * job.cpu_request_milli
    resource.memory_request_mega += replicas * job.memory_request_mega
    resource.gpu_request += replicas * job.gpu_limit
    resource.gpu_limit += replicas * job.gpu_limit


def held_back(auto: AutoRole, *, resting: bool) -> ElasticJob:
    """With a ceiling where it may not grow now: in the cool-down after it shrank, while replicas of it wait for a node,
    and once replicas have finished, because a job near its end trains no faster with more."""
    if resting or auto.waiting or auto.state.finished_replicas(auto.role):
        return replace(auto.elastic, ceiling=auto.elastic.parallelism)
    return auto.elastic
