"""kubedl.io/network-mode: host. The pods use the network of their nodes, and each has its own ports there. Pure.

KubeDL (pkg/job_controller/hostnetwork.go) draws a random port for each pod, and may draw one twice. Here a job draws
one block of the range, by its UID, and each replica has its place in the block. So the pods of a job never share a
port, and each knows the ports of the others before these exist. The blocks of two jobs seldom overlap. If they do, the
scheduler keeps their pods apart, because the ports are declared as hostPort. The block is written into the status
before a pod with it is created. A restart of the whole job draws another block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from tjworker.api.labels import ANNOTATION_NETWORK_MODE as ANNOTATION
from tjworker.api.model import FieldError, TrainingJob
from tjworker.api.status import HostPorts
from tjworker.reconcile.addons.addon import Addon, path_of
from tjworker.reconcile.frameworks import find_framework
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.rules import Rules

HOST = "host"
PATH = path_of(ANNOTATION)


def _errors(job: TrainingJob, rules: Rules) -> Iterator[FieldError]:
    mode = job.annotations[ANNOTATION]
    if mode != HOST:
        yield FieldError(PATH, f"{mode[:80]!r}: the mode is {HOST}; without the annotation pods have a network each")
        return
    if any(role.workload != "Pod" for role in job.roles):
        yield FieldError(
            PATH, f"{HOST}: all pods of a role of a {job.kind} have one port; set spec.host_network instead"
        )
        return
    if job.mpi is not None:
        yield FieldError(
            PATH,
            f"{HOST}: mpirun reaches every worker of an {job.kind} at one port, and each pod would have another;"
            " take the annotation away",
        )
        return
    drawn = job.status.host_ports
    ports = (drawn.low, drawn.high) if drawn is not None else rules.host_ports
    if ports is None:
        yield FieldError(PATH, f"{HOST}: the operator has no ports for it; its owner sets TJ_HOST_PORTS")
    elif not _fits(job, ports):
        whose = "TJ_HOST_PORTS" if drawn is None else "the range of its status.hostPorts"
        yield FieldError(
            PATH,
            f"{HOST}: the job needs {_places(job)} ports (its replicas, times its roles, times the most ports of one),"
            f" and {whose} has {ports[1] - ports[0] + 1} ({ports[0]}-{ports[1]}); use fewer replicas, or a wider range",
        )


def _fits(job: TrainingJob, ports: tuple[int, int]) -> bool:
    return _places(job) <= ports[1] - ports[0] + 1


def _places(job: TrainingJob) -> int:
    """The size of the block. It is large enough that scaling moves no replica to other ports."""
    most = max(max(role.replicas, role.max_replicas or 0) for role in job.roles)
    return most * len(job.roles) * find_framework(job).most_ports(job)


def _apply(job: TrainingJob, rules: Rules) -> TrainingJob:
    roles = []
    for role in job.roles:
        spec = {"dnsPolicy": "ClusterFirstWithHostNet", **role.template["spec"], "hostNetwork": True}
        roles.append(replace(role, template={**role.template, "spec": spec}))
    return replace(job, roles=tuple(roles))


def _draw(p: Pass) -> Pass:
    """The pass with the ports of this attempt, drawn if there are none yet; without ports if the annotation is gone."""
    had, attempt = p.status.host_ports, p.status.attempts.job
    if ANNOTATION in p.job.unread_annotations:
        drawn = had if had is None else had.model_copy(update={"attempt": attempt})
    elif p.job.annotations.get(ANNOTATION) != HOST:
        drawn = None
    elif had is not None and had.attempt == attempt:
        drawn = had
    elif p.rules.host_ports is not None and _fits(p.job, p.rules.host_ports):
        drawn = block(p.job, p.rules.host_ports, attempt)
    else:
        # The range is gone or too small. The job keeps its ports, marked as those of this attempt: no later pass may
        # change them while pods use them.
        drawn = None if had is None else had.model_copy(update={"attempt": attempt})
    if drawn != had:
        p = p.with_status(p.status.model_copy(update={"host_ports": drawn}))
    return p if drawn == p.job.host_ports else p._replace(job=replace(p.job, host_ports=drawn))


def block(job: TrainingJob, ports: tuple[int, int], attempt: int) -> HostPorts:
    """The job's block of the range `ports`, which a hash of UID and attempt chooses."""
    first, last = ports
    drawn = hashlib.sha256(f"{job.uid}/{attempt}".encode()).digest()
    size = last - first + 1
    return HostPorts(first=first + int.from_bytes(drawn[:8], "big") % size, low=first, high=last, attempt=attempt)


def _keep(job: TrainingJob, rules: Rules) -> TrainingJob:
    # Its pods have the ports of the status, which suffice for the last numbers.
    return job if job.status.host_ports is None else _apply(job.with_last_numbers(), rules)


ADDON = Addon(ANNOTATION, _errors, _apply, _keep, prepare=_draw)
