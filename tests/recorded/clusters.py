"""Drawn clusters: what the autoscaler makes of them and says of each role, whether a gang could ever start there, what
the collector takes for orphans, and how long the lists of large jobs may be.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tests.support.builders import PodBuilder, make_job, make_node, make_pod
from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tjworker.api.labels import JOB_KIND, JOB_NAME, JOB_UID, TENSORBOARD_CONFIG
from tjworker.api.model import TrainingJob
from tjworker.api.node_requests import WAITING, NodeRequests, pod_requests
from tjworker.api.observed import NodeRecord
from tjworker.api.resources import BATCH_JOBS, POD_GROUPS, PODS, REPLICASETS, SERVICES
from tjworker.api.status import Attempts, RoleAttempts, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.autoscale import AutoscaleRules, JobState, decide
from tjworker.autoscale.decide import pose, why_no_more
from tjworker.base import JobName
from tjworker.reconcile.gangs.room import why_too_large
from tjworker.reconcile.orphans import Candidate, candidate, find_orphans
from tjworker.reconcile.peers import KINDS, left_out, role_counts, role_list, tell_left_out
from tjworker.reconcile.policies.clean import Cleaning

Json = dict[str, Any]
NOW = 1_767_225_600.0
GPUS = ("nvidia.com/gpu", "amd.com/gpu")
AMOUNTS: Mapping[str, tuple[Any, ...]] = {
    "cpu": ("250m", "1", 2),
    "memory": ("1Gi", "500M"),
    "nvidia.com/gpu": (1, "2"),
    "hugepages-2Mi": ("4Mi",),
}
ROLES = ("ps", "trainer", "worker")
JOBS = tuple(JobName(kind, "default", name) for kind in (AITRAININGJOBS, TRAININGJOBS) for name in ("a", "b"))


def draw_cluster(seed: int) -> tuple[str, Json]:
    draw = random.Random(f"cluster {seed}")
    nodes = {f"n{i}": _node(draw, f"n{i}") for i in range(draw.randint(0, 5))}
    states = [_state(draw, f"job-{i}", sorted(nodes)) for i in range(draw.randint(0, 5))]
    large = _large(draw)
    said = {
        "autoscaler": _autoscaled(draw, states, nodes),
        "gangs": [why_too_large(s.job.roles, draw.randint(1, 12), nodes) for s in states],
        "orphans": _orphans(draw),
        "requests": [pod_requests(_pod_spec(draw), _pod_status(draw)) for _ in range(4)],
        "lists": [left_out(large), tell_left_out(large)],
        "entries": [[role_counts(large, role), *_entries(large, role)] for role in large.roles],
    }
    return f"cluster {seed}: {len(nodes)} nodes, {len(states)} jobs", said


# -- the autoscaler --------------------------------------------------------------------------------
def _node(draw: random.Random, name: str) -> NodeRecord:
    gpus = {kind: str(draw.randint(0, 6)) for kind in GPUS if draw.random() < 0.6}
    made = make_node(name, cpu=str(draw.randint(1, 16)), memory=f"{draw.randint(2, 64)}G", **gpus)
    made = made.cordoned() if draw.random() < 0.1 else made
    made = made.not_ready("2026-01-01T00:00:00Z") if draw.random() < 0.1 else made
    return (made.but(allocatable={}) if draw.random() < 0.05 else made).build()


def _state(draw: random.Random, name: str, nodes: list[str]) -> JobState:
    made = make_job(name)
    counts = {role: draw.randint(1, 5) for role in draw.sample(ROLES, draw.choice((1, 1, 2)))}
    for role, count in sorted(counts.items()):
        requests = {"cpu": f"{draw.choice((0, 250, 1000, 2500))}m", "memory": f"{draw.choice((0, 1, 3))}G"}
        limits = {draw.choice(GPUS): str(draw.randint(1, 2))} if draw.random() < 0.4 else {}
        container = {"name": "aitj-main", "image": "x", "resources": {"requests": requests, "limits": limits}}
        least = draw.randint(0, count)
        elastic: Json = {"least": least, "most": max(1, count + draw.randint(0, 6)), "edl": "Auto"}
        made = made.role(
            role, count, template={"spec": {"containers": [container]}}, **(elastic if draw.random() < 0.8 else {})
        )
    phase = draw.choices(("Running", "Pending", "Scaling", "Restarting", "Failed", ""), (60, 10, 10, 10, 5, 5))[0]
    records = tuple(_record(draw, role) for role in sorted(counts) if draw.random() < 0.4)
    attempts = {role: RoleAttempts(completed="0", failed="") for role in sorted(counts) if draw.random() < 0.1}
    job = made.status(phase=phase, scale_records=records, attempts=Attempts(roles=attempts)).build()
    if draw.random() < 0.05:
        job = replace(job, roles=tuple(replace(role, max_replicas=role.replicas - 1) for role in job.roles))
    pods = [
        _pod(draw, make_pod(job, role, index), nodes)
        for role, count in sorted(counts.items())
        for index in range(count + draw.choice((0, 0, 1)))
        if draw.random() < 0.9
    ]
    return JobState(job, tuple(pod.build() for pod in pods))


def _record(draw: random.Random, role: str) -> ScaleRecord:
    """Around the ends of the cool-down, and of the rest after the scheduler has refused."""
    since = draw.choice((0, 29, 30, 31, 299, 300, 301))
    cause = draw.choice(("room", "refused"))
    return ScaleRecord(
        role=role, from_=draw.randint(0, 4), to=draw.randint(0, 4), cause=cause, time=to_rfc3339(NOW - since)
    )


def _pod(draw: random.Random, pod: PodBuilder, nodes: list[str]) -> PodBuilder:
    made = pod.but(created_at=to_rfc3339(NOW - draw.choice((0, 29, 30, 31, 500))))
    where = draw.choice([*nodes, "", "gone"])
    if not where:
        made = made.unschedulable() if draw.random() < 0.6 else made
    else:
        made = made.on(where).running() if draw.random() < 0.9 else made.on(where).succeeded()
    return made.deleting(to_rfc3339(NOW + 20)) if draw.random() < 0.1 else made


def _autoscaled(draw: random.Random, states: list[JobState], nodes: dict[str, NodeRecord]) -> list[Any]:
    rules = AutoscaleRules(
        draw.choice(("fulfillment", "fulfillment", "off")), draw.choice((0.5, 0.97, 1.0)), 30.0, GPUS
    )
    crowd = draw.choice((0, 0, 1, 3))
    asked = {name: _strangers(draw, crowd) for name in (*nodes, WAITING) if draw.random() < 0.6}
    for state in states:
        for pod in state.pods:
            own = pod_requests(state.job.role(pod.labels["replica-name"]).template["spec"])
            asked[pod.node or WAITING] = asked.get(pod.node or WAITING, NodeRequests()).plus(own)
    posed = pose(states, nodes, asked, NOW, rules)
    problems = [str(problem) for problem in posed.problems]
    why = [said for state in states for said in why_no_more(posed, rules, state.job.key).values()]
    if rules.policy == "off":
        return [problems, why]
    found = decide(states, nodes, asked, NOW, rules)
    moves = [(move.state.job.key, move.role, move.from_, move.to, move.cause, move.reason) for move in found.moves]
    return [moves, found.roles, found.load, problems, why, posed.problem.resource]


def _strangers(draw: random.Random, crowd: int) -> NodeRequests:
    gpus = tuple(sorted((kind, draw.randint(1, 3)) for kind in GPUS if draw.random() < 0.3))
    memory = crowd * draw.randint(0, 20) * 10**9
    return NodeRequests(crowd * draw.randint(0, 6000), memory, pods=draw.randint(1, 4), extended=gpus)


# -- requests of pods ------------------------------------------------------------------------------
def _pod_spec(draw: random.Random) -> Json:
    spec: Json = {
        "containers": [_container(draw, f"c{i}") for i in range(draw.randint(1, 3))],
        "initContainers": [_container(draw, f"i{i}") for i in range(draw.randint(0, 3))],
    }
    for container in spec["initContainers"]:
        if draw.random() < 0.4:
            container["restartPolicy"] = "Always"
    if draw.random() < 0.3:
        spec["overhead"] = {"cpu": "100m", "memory": "64Mi"}
    if draw.random() < 0.2:
        spec["resources"] = _resources(draw)
    return spec


def _container(draw: random.Random, name: str) -> Json:
    return {"name": name, "resources": _resources(draw)} if draw.random() < 0.9 else {"name": name}


def _resources(draw: random.Random) -> Json:
    amounts = {
        "cpu": ("250m", "1", 2),
        "memory": ("1Gi", "500M"),
        "nvidia.com/gpu": (1, "2"),
        "hugepages-2Mi": ("4Mi",),
    }
    return {
        side: {name: draw.choice(values) for name, values in amounts.items() if draw.random() < 0.5}
        for side in ("requests", "limits")
        if draw.random() < 0.7
    }


def _pod_status(draw: random.Random) -> Json | None:
    if draw.random() < 0.7:
        return None
    return {"containerStatuses": [{"name": "c0", "resources": _resources(draw)}]}


# -- orphans ---------------------------------------------------------------------------------------
def _orphans(draw: random.Random) -> list[Any]:
    found = [c for i in range(12) if (c := candidate(*_object(draw, f"o{i}"))) is not None]
    owners = {job: draw.choice((None, "uid-1", "uid-1", "uid-2")) for job in JOBS if draw.random() < 0.8}
    ended = {job: draw.choice(("All", "Running", "None")) for job in JOBS if owners.get(job) and draw.random() < 0.5}
    boards = {job: NOW - draw.choice((0, 59, 60, 61)) for job in ended if draw.random() < 0.5}
    keeping = {job for job in ended if draw.random() < 0.3}
    nodes = draw.choice((None, frozenset({"n0"}), frozenset({"n0", "n1"})))
    workloads = {c.workload: draw.choice(("ours", "foreign", "gone", "gone")) for c in found if c.workload}
    workloads = {name: whose for name, whose in workloads.items() if draw.random() < 0.8}
    cleanings = {job: Cleaning(policy) for job, policy in ended.items()}  # type: ignore[arg-type]
    taken = find_orphans(found, owners, nodes, NOW, workloads, cleanings, boards, keeping)  # type: ignore[arg-type]
    return [_plain(c) for c in found] + [(one.namespace, one.delete) for one in taken]


def _plain(c: Candidate) -> str:
    return repr(c)


def _object(draw: random.Random, name: str) -> tuple[Any, Json]:
    resource = draw.choice((PODS, PODS, PODS, SERVICES, REPLICASETS, BATCH_JOBS, POD_GROUPS))
    job = draw.choice(JOBS)
    group, kind = "elasticdeeplearning.ai", "AITrainingJob"
    if job.resource == TRAININGJOBS:
        group, kind = "paddlepaddle.org", "TrainingJob"
    uid = draw.choice(("uid-1", "uid-1", "uid-2"))
    labels = {JOB_UID: uid, JOB_NAME: job.name, "group-name": group, JOB_KIND: kind}
    if draw.random() < 0.15:
        labels = {draw.choice(("paddle-job", "paddle-job-pserver", "paddle-job-master")): job.name}
    elif draw.random() < 0.1:
        labels[TENSORBOARD_CONFIG] = "x"
    reference: Json = {"apiVersion": f"{group}/v1", "kind": kind, "name": job.name, "uid": uid, "controller": True}
    if resource == PODS and draw.random() < 0.4:
        of = draw.choice((("apps/v1", "ReplicaSet"), ("batch/v1", "Job"), ("example.com/v1", "Thing")))
        reference |= {"apiVersion": of[0], "kind": of[1], "name": f"{job.name}-trainer", "uid": "uid-w"}
    meta: Json = {"namespace": "default", "name": name, "uid": f"uid-of-{name}", "labels": labels}
    meta["creationTimestamp"] = to_rfc3339(NOW - draw.choice((59, 60, 61, 3600, 3600)))
    if draw.random() < 0.85:
        meta["ownerReferences"] = [reference]
    if draw.random() < 0.2:
        meta["deletionTimestamp"] = to_rfc3339(NOW - draw.choice((59, 60, 61)))
    status = {"phase": draw.choice(("Running", "Pending", "Succeeded", "Failed"))}
    return resource, {"metadata": meta, "spec": {"nodeName": draw.choice(("n0", "n1", ""))}, "status": status}


# -- lists of large jobs ---------------------------------------------------------------------------
def _large(draw: random.Random) -> TrainingJob:
    made = make_job("j" * draw.choice((1, 20, 40)))
    for role in draw.sample(ROLES, draw.choice((1, 2))):
        ports = tuple(range(7000, 7000 + draw.choice((0, 1, 2))))
        made = made.role(role, draw.choice((1, 9, 10, 11, 900, 2000, 2600, 4000, 9000)), ports=ports)
    return made.build()


def _entries(job: TrainingJob, role: Any) -> Iterator[list[str]]:
    """The first and the last of each list of a small role."""
    for kind in KINDS if role.replicas < 1000 else ():
        found = role_list(job, role, kind)
        yield [*found[:2], *found[-1:]]
