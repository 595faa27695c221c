"""Pods, services and nodes as the projection shows them, for one job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from tests.support.builders.job import CREATED_AT
from tjworker.api import naming
from tjworker.api.model import TrainingJob
from tjworker.api.observed import ContainerRecord, NodeRecord, Observed, PodRecord, ServiceRecord, WorkloadRecord
from tjworker.api.timefmt import unix_seconds
from tjworker.base import GroupResource

STARTED_AT = "2026-01-01T00:00:05Z"
FINISHED_AT = "2026-01-01T00:10:00Z"
_TIMES = {
    field.name
    for record in (PodRecord, ContainerRecord, WorkloadRecord, NodeRecord)
    for field in fields(record)
    if field.name.endswith(("_at", "_since"))
}


def with_times(**given: Any) -> dict[str, Any]:
    """Fields of a record, whose times may be given as Kubernetes writes them; '' is no time."""
    return {name: _read_time(value) if name in _TIMES else value for name, value in given.items()}


def _read_time(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _read_time(at) for name, at in value.items()}
    return unix_seconds(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class PodBuilder:
    """Without further steps: a pod that has just been made, waiting for a node."""

    record: PodRecord

    def build(self) -> PodRecord:
        return self.record

    def but(self, **fields: Any) -> PodBuilder:
        """Any field of the record."""
        return PodBuilder(replace(self.record, **with_times(**fields)))

    def on(self, node: str) -> PodBuilder:
        return self.but(node=node, scheduled=True, unschedulable="")

    def unschedulable(self, message: str = "0/1 nodes are available: 1 Insufficient cpu.") -> PodBuilder:
        return self.but(scheduled=False, node="", unschedulable=message)

    def creating(self, reason: str = "ContainerCreating", message: str = "") -> PodBuilder:
        """Has a node; its containers wait for `reason`, such as ImagePullBackOff."""
        return self.placed().containers(state="waiting", reason=reason, message=message)

    def running(self, ready: bool = True) -> PodBuilder:
        pod = self.placed().containers(state="running", ready=ready, started_at=STARTED_AT)
        return pod.but(phase="Running", ready=ready, started_at=STARTED_AT)

    def succeeded(self) -> PodBuilder:
        return self.running(ready=False).ended(0, "Completed").but(phase="Succeeded")

    def failed(self, exit_code: int = 1, container: str = "", reason: str = "Error") -> PodBuilder:
        """`container` (default: the first) ended with `exit_code`, the others with 0."""
        pod = self.running(ready=False).ended(0, "Completed").but(phase="Failed")
        culprit = container or self.record.containers[0].name
        return pod.but(
            containers=tuple(
                replace(c, exit_code=exit_code, reason=reason) if c.name == culprit else c
                for c in pod.record.containers
            )
        )

    def evicted(self, message: str = "The node was low on resource: memory.") -> PodBuilder:
        """By the kubelet, under pressure: Failed, without container statuses."""
        return self.placed().but(
            phase="Failed",
            reason="Evicted",
            message=message,
            containers=(),
            ready=False,
            disruption="TerminationByKubelet",
            disruption_message=message,
        )

    def turned_away(self, reason: str = "UnexpectedAdmissionError", why: str = "no such device") -> PodBuilder:
        """Not admitted by the kubelet (`rejectPod`): Failed, and the rest of its status is empty."""
        return self.placed().but(phase="Failed", reason=reason, message=f"Pod was rejected: {why}", containers=())

    def orphaned(self) -> PodBuilder:
        """Its node is gone: the pod collector has called it Failed."""
        return self.placed().but(phase="Failed", disruption="DeletionByPodGC", disruption_message="node is gone")

    def disrupted(self, reason: str = "PreemptionByScheduler", exit_code: int = 143) -> PodBuilder:
        """Failed because another pod took its place or its node was drained."""
        return self.failed(exit_code).but(disruption=reason, disruption_message=f"disrupted: {reason}")

    def deleting(self, at: str = FINISHED_AT, asked_at: str | None = None) -> PodBuilder:
        """Its deletionTimestamp; and when that was asked for, half a minute before: its grace period."""
        ends = unix_seconds(at) or 0
        asked = ends - 30 if asked_at is None else unix_seconds(asked_at) or ends
        return self.but(
            deleted_at=at,
            deletion_asked_at=asked if at else None,
            deletion_grace_seconds=ends - asked,
            was_told_to_go=ends > asked,
        )

    def attempt(self, number: int) -> PodBuilder:
        return self.but(labels={**self.record.labels, "restart-attempt": str(number)})

    def uid(self, uid: str) -> PodBuilder:
        return self.but(uid=uid)

    def foreign(self, owner_uid: str = "") -> PodBuilder:
        """Same name and labels, but not ours: another owner, or none."""
        return self.but(owner_uid=owner_uid)

    def placed(self) -> PodBuilder:
        return self if self.record.scheduled else self.on(self.record.node or "node-a")

    def containers(self, **fields: Any) -> PodBuilder:
        new = with_times(**fields)
        return self.but(containers=tuple(replace(c, **new) for c in self.record.containers))

    def but_container(self, name: str, **fields: Any) -> PodBuilder:
        """Any field of that one container."""
        new = with_times(**fields)
        return self.but(containers=tuple(replace(c, **new) if c.name == name else c for c in self.record.containers))

    def ended(self, exit_code: int, reason: str) -> PodBuilder:
        return self.containers(
            state="terminated", ready=False, exit_code=exit_code, reason=reason, finished_at=FINISHED_AT
        )


def make_pod(job: TrainingJob, role: str, index: int = 0, attempt: int = 0) -> PodBuilder:
    """A pod of this job as the operator makes it: name, labels, owner and containers of the role's template."""
    name = naming.pod_name(job.name.name, role, index)
    containers = tuple(ContainerRecord(str(c["name"])) for c in naming.containers(job.role(role).template))
    return PodBuilder(
        PodRecord(
            name=name,
            uid=f"uid-of-{name}-{attempt}",
            rv=200 + index,
            owner_uid=job.uid,
            created_at=unix_seconds(CREATED_AT),
            labels=naming.pod_labels(job, role, index, attempt),
            containers=containers,
        )
    )


def make_service(job: TrainingJob, role: str, index: int = 0) -> ServiceRecord:
    """The service of that pod, with the ports that count."""
    name = naming.service_name(job.name.name, role, index)
    ports = tuple(port.number for port in naming.counted_ports(job.role(role).template))
    labels = {k: v for k, v in naming.pod_labels(job, role, index, 0).items() if k != "restart-attempt"}
    return ServiceRecord(
        name=name, uid=f"uid-of-service-{name}", rv=300 + index, owner_uid=job.uid, labels=labels, ports=ports
    )


@dataclass(frozen=True)
class NodeBuilder:
    """Without further steps: Ready, with room."""

    record: NodeRecord

    def build(self) -> NodeRecord:
        return self.record

    def but(self, **fields: Any) -> NodeBuilder:
        return NodeBuilder(replace(self.record, **with_times(**fields)))

    def not_ready(
        self, since: str, ready: Literal["False", "Unknown"] = "Unknown", reason: str = "NodeStatusUnknown"
    ) -> NodeBuilder:
        return self.but(ready=ready, ready_since=since, reason=reason)

    def unreachable(self, since: str) -> NodeBuilder:
        return self.not_ready(since).but(unreachable_since=since)

    def cordoned(self) -> NodeBuilder:
        return self.but(unschedulable=True)

    def condition(self, kind: str, message: str = "") -> NodeBuilder:
        return self.but(conditions={**self.record.conditions, kind: message})


def make_node(name: str = "node-a", **allocatable: str) -> NodeBuilder:
    room: Mapping[str, str] = {"cpu": "16", "memory": "64Gi", "pods": "110", **allocatable}
    return NodeBuilder(
        NodeRecord(
            name=name,
            uid=f"uid-of-{name}",
            rv=50,
            ready="True",
            ready_since=unix_seconds(CREATED_AT),
            reason="KubeletReady",
            allocatable=room,
            labels={"kubernetes.io/hostname": name},
        )
    )


Seen = PodBuilder | PodRecord | ServiceRecord | NodeBuilder | NodeRecord | WorkloadRecord


def observe(*objects: Seen, seen: Mapping[GroupResource, int] | None = None, gone: Iterable[str] = ()) -> Observed:
    """All objects as one view. Nodes with pods are healthy unless given otherwise or named in `gone`."""
    records = [o.build() if isinstance(o, PodBuilder | NodeBuilder) else o for o in objects]
    pods = tuple(sorted((r for r in records if isinstance(r, PodRecord)), key=lambda r: r.name))
    services = tuple(sorted((r for r in records if isinstance(r, ServiceRecord)), key=lambda r: r.name))
    nodes = {name: make_node(name).build() for name in {pod.node for pod in pods} - {"", *gone}}
    nodes |= {r.name: r for r in records if isinstance(r, NodeRecord)}
    return Observed(pods=pods, services=services, nodes=nodes, seen=seen or {})
