"""Arbitrary but sensible inputs of a pass: a job of any spec, its status at any point, pods in any state.

`make_input(seed)` is the same for the same seed, in every process. An Input can be read in two ways: as the records
that reconcile takes (`given`, rows 11 and 18), or as objects put into a cluster (`place`, row 12). Nothing here is a
real one: the point is states that no script would think of.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from tests.support.builders import PodBuilder, make_job, make_node, make_pod, make_service, observe
from tjworker.api import naming
from tjworker.api.indices import format_indices
from tjworker.api.model import EndPolicy, JobEndPolicy, RestartPolicy, RestartScope, TrainingJob
from tjworker.api.observed import NodeRecord, Observed
from tjworker.api.resources import NODES, PODS
from tjworker.api.status import Attempts, Condition, Ending, JobStatus, ReplicaStatus, RestartCounts, RoleAttempts
from tjworker.api.timefmt import to_rfc3339

if TYPE_CHECKING:
    from tests.scenarios.world import World

Json = dict[str, Any]
NOW = 1_767_225_600.0
"""Where the virtual clock of a World begins."""
ROLE_NAMES = ("master", "ps", "trainer", "worker")
POLICIES: Mapping[str, tuple[Any, ...]] = {
    "restartPolicy": get_args(RestartPolicy),
    "restartScope": get_args(RestartScope),
    "restartLimit": (None, 0, 1, 5),
    "failPolicy": get_args(EndPolicy),
    "completePolicy": get_args(EndPolicy),
}
STATES = ("pending", "creating", "running", "succeeded", "failed", "killed", "evicted", "preempted")
SLOW_TO_GO: Json = {"fake.localcluster/terminate-seconds": "12"}
"""Pods that are being deleted are still there when a worker that died has been replaced."""


@dataclass(frozen=True)
class PodAt:
    role: str
    index: int
    attempt: int
    state: str
    deleting: bool = False
    foreign: bool = False

    def __str__(self) -> str:
        marks = " deleting" * self.deleting + " foreign" * self.foreign
        return f"{self.role}-{self.index} attempt {self.attempt} {self.state}{marks}"


@dataclass(frozen=True)
class Input:
    seed: int
    spec: Json
    annotations: Mapping[str, str]
    status: JobStatus
    pods: tuple[PodAt, ...]
    services: tuple[tuple[str, int], ...]
    nodes: tuple[NodeRecord, ...]
    """Those that ail, for `given` alone."""

    def __str__(self) -> str:
        said = self.status.to_json()
        pods = "\n    ".join(map(str, self.pods)) or "none"
        return (
            f"seed {self.seed}\n  spec {self.spec}\n  annotations {self.annotations}\n  status {said}\n  pods\n   "
            f" {pods}"
        )

    def job_json(self, uid: str = "uid-of-digits") -> Json:
        meta = {"annotations": dict(self.annotations), "uid": uid}
        return make_job().metadata(**meta).spec(**self.spec).status(self.status).object()

    def given(self) -> tuple[TrainingJob, Observed, float]:
        """As reconcile takes it."""
        job = make_job().metadata(annotations=dict(self.annotations)).spec(**self.spec).status(self.status).build()
        pods = [_record(job, pod) for pod in self.pods]
        services = [make_service(job, role, index) for role, index in self.services]
        return job, observe(*pods, *services, *self.nodes, seen={NODES: 1, PODS: 1}), NOW

    def place(self, world: World, namespace: str) -> None:
        """The job, its status, its pods and services, in a namespace that is there already, before any watcher
        looks."""
        client = world.cluster.client
        jobs = f"/apis/elasticdeeplearning.ai/v1/namespaces/{namespace}/aitrainingjobs"
        manifest = (
            make_job(namespace=namespace).metadata(annotations=dict(self.annotations)).spec(**self.spec).manifest()
        )
        made = client.create(jobs, manifest)
        if self.status != JobStatus():
            client.update(f"{jobs}/digits/status", made | {"status": self.status.to_json()})
        job = make_job(namespace=namespace).metadata(uid=made["metadata"]["uid"]).spec(**self.spec).build()
        for role, index in self.services:
            client.create(f"/api/v1/namespaces/{namespace}/services", _service(job, role, index))
        for pod in self.pods:
            _place_pod(world, namespace, job, pod)


def make_input(seed: int) -> Input:
    rng = random.Random(seed)
    roles = {name: _role(rng) for name in sorted(rng.sample(ROLE_NAMES, rng.choice((1, 1, 2, 3))))}
    if not any(role["replicas"] for role in roles.values()):
        roles[min(roles)]["replicas"] = 1
    # What the role was when the status was last written: scaled since, or not.
    before = {name: max(0, r["replicas"] + rng.choice((0, 0, 0, 0, 1, 2, -1))) for name, r in roles.items()}
    fresh = rng.random() < 0.12
    status = JobStatus() if fresh else _status(rng, roles, before)
    pods = (
        []
        if fresh
        else [
            pod
            for name, role in roles.items()
            for index in range(max(role["replicas"], before[name]))
            if (pod := _pod(rng, status.attempts.roles.get(name, RoleAttempts()), name, index)) is not None
        ]
    )
    services = (
        ()
        if fresh
        else tuple(
            (name, index)
            for name, role in roles.items()
            for index in range(max(role["replicas"], before[name]))
            if rng.random() < 0.85
        )
    )
    annotations = {rng.choice(("Preempted", "Failed", "NodeFail")): "from outside"} if rng.random() < 0.05 else {}
    return Input(seed, _spec(rng, roles), annotations, status, tuple(pods), services, _nodes(rng))


def _role(rng: random.Random) -> Json:
    replicas = rng.choice((0, 1, 1, 2, 2, 3, 4))
    role: Json = {
        key: value
        for key, values in POLICIES.items()
        if rng.random() < 0.7 and (value := rng.choice(values)) is not None
    }
    if rng.random() < 0.3:
        role |= {"minReplicas": rng.randint(0, replicas), "maxReplicas": max(1, replicas) + rng.randint(0, 2)}
    container: Json = {"name": rng.choice(("aitj-main", "main")), "image": "trainer:1", "command": ["train"]}
    if rng.random() < 0.7:
        container["ports"] = [{"name": "aitj-7164", "containerPort": 7164}]
    template = {
        "metadata": {"annotations": SLOW_TO_GO, "labels": {"team": "vision", "app": "digits"}},
        "spec": {"containers": [container]},
    }
    return {"replicas": replicas, "template": template, **role}


def _spec(rng: random.Random, roles: Json) -> Json:
    spec: Json = {"replicaSpecs": roles}
    given = {
        "suspend": (True,),
        "faultTolerant": (True,),
        "timeLimit": (300, 100_000),
        "priority": ("high",),
        "restartingExitCode": ("137", "1,137"),
        "cleanPodPolicy": ("All", "Running", "None"),
        "failPolicy": get_args(JobEndPolicy),
        "completePolicy": get_args(JobEndPolicy),
        "runPolicy": (
            {"backoffLimit": 0},
            {"backoffLimit": 2},
            {"activeDeadlineSeconds": 100_000},
            {"activeDeadlineSeconds": 300},
        ),
    }
    spec |= {key: rng.choice(values) for key, values in given.items() if rng.random() < 0.12}
    return spec


def _status(rng: random.Random, roles: Json, before: Mapping[str, int]) -> JobStatus:
    phase = rng.choices(
        ("Pending", "Creating", "Running", "Scaling", "Restarting", "Suspended", "Terminating", "Succeed", "Failed"),
        (10, 10, 40, 8, 14, 4, 8, 3, 3),
    )[0]
    at = to_rfc3339(NOW - 400)
    attempts = {name: _attempts(rng, roles[name]["replicas"]) for name in roles if rng.random() < 0.6}
    reason, message = "RoleFailed", "it was decided"
    ending = Ending(phase=rng.choice(("Succeed", "Failed", "Timeout")), reason=reason, message=message, time=at)
    running = Condition(
        type="Running",
        status="True" if phase == "Running" else "False",
        last_transition_time=at,
        reason="AllReplicasRunning" if phase == "Running" else phase,
        message="as it was",
    )
    status = JobStatus(
        phase=phase,
        start_time=at,
        observed_generation=1,
        conditions=(running,),
        last_reconcile_time=at,
        start_running_time=at if phase in ("Running", "Scaling", "Restarting") else None,
        completion_time=at if phase in ("Succeed", "Failed") else None,
        suspend_time=at if phase == "Suspended" else None,
        ending=ending if phase in ("Terminating", "Succeed", "Failed") else None,
        replica_statuses={name: ReplicaStatus(desired=before[name]) for name in roles},
        restart_counts={
            name: RestartCounts(application=rng.randint(0, 2), user=rng.randint(0, 1)) for name in attempts
        },
        attempts=Attempts(job=rng.randint(0, 1), roles=attempts),
        missing_nodes={"node-x": to_rfc3339(NOW - 20)} if rng.random() < 0.03 else {},
    )
    return status.summarised()


def _attempts(rng: random.Random, replicas: int) -> RoleAttempts:
    # At most two restarts of one replica: its third would rest for longer than a test looks on.
    whole = rng.choice((0, 0, 1))
    done = {i for i in range(replicas) if rng.random() < 0.15}
    failed = {i for i in range(replicas) if i not in done and rng.random() < 0.07}
    return RoleAttempts(
        all=whole,
        pods={str(i): 1 for i in range(replicas) if whole == 0 and rng.random() < 0.2},
        completed=format_indices(done),
        failed=format_indices(failed),
    )


def _pod(rng: random.Random, attempts: RoleAttempts, role: str, index: int) -> PodAt | None:
    if rng.random() < 0.2:
        return None
    wanted = attempts.all + attempts.pods.get(str(index), 0)
    attempt = wanted - 1 if wanted and rng.random() < 0.25 else wanted
    state = rng.choices(STATES, (10, 8, 45, 14, 10, 7, 3, 3))[0]
    return PodAt(role, index, attempt, state, deleting=rng.random() < 0.08, foreign=rng.random() < 0.03)


def _nodes(rng: random.Random) -> tuple[NodeRecord, ...]:
    if rng.random() < 0.8:
        return ()
    since = to_rfc3339(NOW - rng.choice((5, 200)))
    return (make_node("node-0").not_ready(since).build(),)


# -- as records ------------------------------------------------------------------------------------


def _record(job: TrainingJob, pod: PodAt) -> PodBuilder:
    new = make_pod(job, pod.role, pod.index, pod.attempt)
    placed = new.on(f"node-{pod.index % 2}")
    made = {
        "pending": new,
        "creating": placed.creating(),
        "running": placed.running(),
        "succeeded": placed.succeeded(),
        "failed": placed.failed(1),
        "killed": placed.failed(137),
        "evicted": placed.evicted(),
        "preempted": placed.disrupted(),
    }[pod.state]
    if pod.deleting:
        made = made.deleting(to_rfc3339(NOW + 20), to_rfc3339(NOW - 10))
    return made.foreign("uid-of-another") if pod.foreign else made


# -- as objects ------------------------------------------------------------------------------------


def _owner(job: TrainingJob) -> Json:
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.name.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _service(job: TrainingJob, role: str, index: int) -> Json:
    labels = {**naming.role_labels(job, role), "replica-index": str(index)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": naming.service_name(job.name.name, role, index),
            "labels": labels,
            "ownerReferences": [_owner(job)],
        },
        "spec": {"clusterIP": "None", "selector": labels, "ports": [{"name": "aitj-7164", "port": 7164}]},
    }


def _place_pod(world: World, namespace: str, job: TrainingJob, pod: PodAt) -> None:
    client, pods = world.cluster.client, f"/api/v1/namespaces/{namespace}/pods"
    name = naming.pod_name(job.name.name, pod.role, pod.index)
    template = job.role(pod.role).template
    meta: Json = {
        "name": name,
        "annotations": SLOW_TO_GO,
        "labels": naming.pod_labels(job, pod.role, pod.index, pod.attempt),
    }
    if not pod.foreign:
        meta["ownerReferences"] = [_owner(job)]
    spec = {**template["spec"], "restartPolicy": "Never"}
    if pod.state != "pending":
        spec["nodeName"] = f"node-{pod.index % 2}"
    made = client.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    status = _pod_status(template["spec"]["containers"][0]["name"], pod.state)
    if status:
        client.update(f"{pods}/{name}/status", made | {"status": {**made.get("status", {}), **status}})
    if pod.deleting:
        client.delete(f"{pods}/{name}", {"gracePeriodSeconds": 30})


def _pod_status(container: str, state: str) -> Json:
    began, ended = to_rfc3339(NOW - 300), to_rfc3339(NOW - 100)

    def terminated(code: int, reason: str) -> Json:
        return {
            "name": container,
            "image": "trainer:1",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": ended}},
        }

    running = {
        "name": container,
        "image": "trainer:1",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": began}},
    }
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "made room"}
    statuses: dict[str, Json] = {
        "running": {"phase": "Running", "startTime": began, "containerStatuses": [running]},
        "succeeded": {"phase": "Succeeded", "startTime": began, "containerStatuses": [terminated(0, "Completed")]},
        "failed": {"phase": "Failed", "startTime": began, "containerStatuses": [terminated(1, "Error")]},
        "killed": {"phase": "Failed", "startTime": began, "containerStatuses": [terminated(137, "OOMKilled")]},
        "evicted": {"phase": "Failed", "startTime": began, "reason": "Evicted", "message": "low on memory"},
        "preempted": {
            "phase": "Failed",
            "startTime": began,
            "conditions": [target],
            "containerStatuses": [terminated(143, "Error")],
        },
    }
    return statuses.get(state, {})
