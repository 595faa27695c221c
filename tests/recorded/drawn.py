"""Jobs of every kind, settings and edits, drawn: what a user may write, with what stands beside a job."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.simulation.inputs import make_input
from tests.support.guests import GUESTS, guest_job
from tests.support.kinds import AITRAININGJOBS, TEST_KINDS, TRAININGJOBS
from tjworker.api.labels import ANNOTATION_GIT_SYNC, ANNOTATION_NETWORK_MODE, ANNOTATION_TENSORBOARD
from tjworker.base import GroupResource
from tjworker.controllers.jobs import reconcile_rules
from tjworker.reconcile.rules import Rules
from tjworker.settings import Settings

Json = dict[str, Any]
FRAMEWORKS = ("any", "jax", "mpi", "paddle", "pytorch", "tensorflow", "xgboost")
RESTARTS = ("Always", "OnFailure", "Never", "ExitCode")
GPU: Json = {"limits": {"nvidia.com/gpu": 2}}
_BOARD = (
    *(json.dumps({"logDir": "/events", "ttlSecondsAfterJobFinished": 30}),) * 2,
    json.dumps({"logDir": "/events", "image": "board:2", "updateTimestamp": "2026-01-01T00:05:00Z"}),
    json.dumps({"logDir": "s3://events", "ingressSpec": {"host": "a.example", "pathPrefix": "/boards"}}),
    json.dumps({"logDir": "-x", "image": "a b"}),
    json.dumps({"logdir": 1}),
    "{",
)
_GIT = (
    *(json.dumps({"source": "https://git.example.org/digits.git", "rootPath": "/code"}),) * 2,
    json.dumps({"source": "git@example.org:a.git", "ssh": True, "sshFile": "/keys/id", "branch": "main", "depth": 1}),
    json.dumps(
        {"source": "https://example.org/a", "destPath": "here", "revision": "v1", "image": "own:1", "user": "u"}
    ),
    json.dumps({"source": "https://example.org/a", "password": "p", "maxFailures": 0, "rootPath": "code"}),
    json.dumps({"source": "", "depth": "many", "envs": [{"value": "x"}], "destPath": "../.."}),
    "[]",
)
BESIDE: Mapping[str, tuple[str, ...]] = {
    ANNOTATION_TENSORBOARD: _BOARD,
    ANNOTATION_GIT_SYNC: _GIT,
    ANNOTATION_NETWORK_MODE: ("host", "host", "bridge"),
}
RUN_POLICY: Mapping[str, tuple[Any, ...]] = {
    "cleanPodPolicy": ("All", "Running", "None"),
    "ttlSecondsAfterFinished": (0, 60),
    "activeDeadlineSeconds": (30, 300),
    "backoffLimit": (0, 1, 3),
    "suspend": (True,),
    "schedulingPolicy": ({"minAvailable": 1}, {"queue": "research"}, {"minAvailable": 2, "queue": "q"}),
}


def draw_job(draw: random.Random) -> tuple[GroupResource, Json]:
    """Its resource, and the object without what the API server adds."""
    of = draw.choice((AITRAININGJOBS, AITRAININGJOBS, TRAININGJOBS, TRAININGJOBS, *(draw.choice(sorted(GUESTS)),) * 3))
    if of == AITRAININGJOBS:
        raw = _aitrainingjob(draw)
    elif of == TRAININGJOBS:
        raw = _trainingjob(draw)
    else:
        raw = _guest(draw, of)
    raw["metadata"]["name"] = "digits"
    told = raw["metadata"].setdefault("annotations", {})
    for name, values in BESIDE.items():
        if draw.random() < 0.08:
            told[name] = draw.choice(values)
    return of, raw


def _aitrainingjob(draw: random.Random) -> Json:
    made = make_input(draw.randrange(10**6)).job_json()
    raw: Json = {name: json.loads(json.dumps(made[name])) for name in ("apiVersion", "kind", "spec")}
    raw["metadata"] = {}
    if draw.random() < 0.4:
        raw["spec"]["frameworkType"] = draw.choice(FRAMEWORKS)
    policy = _policy(draw, 0.1)
    policy.pop("suspend", None)
    policy.pop("cleanPodPolicy", None)
    raw["spec"]["runPolicy"] = {**raw["spec"].get("runPolicy", {}), **policy}
    for role in raw["spec"]["replicaSpecs"].values():
        if draw.random() < 0.2:
            role["template"]["spec"]["containers"][0]["resources"] = GPU
        if draw.random() < 0.2:
            role["template"]["spec"]["containers"].append({"name": "side", "image": "side:1"})
        if draw.random() < 0.1:
            role["edlPolicy"] = draw.choice(("Auto", "Manual", "Never"))
    return raw


def _trainingjob(draw: random.Random) -> Json:
    raw = TEST_KINDS[TRAININGJOBS].random(draw) if draw.random() < 0.5 else TEST_KINDS[TRAININGJOBS].standing()
    if isinstance(raw.get("spec"), dict) and draw.random() < 0.5:
        raw["spec"]["fault_tolerant"] = draw.random() < 0.7
    raw["metadata"] = {}
    return raw


def _guest(draw: random.Random, of: GroupResource) -> Json:
    raw = guest_job(of, restart=draw.choice(RESTARTS), **_policy(draw, 0.15))
    for field, roles in raw["spec"].items():
        if not field.endswith("ReplicaSpecs"):
            continue
        for name, role in roles.items():
            if name in ("Worker", "PS") and draw.random() < 0.4:
                role["replicas"] = draw.choice((1, 2, 3, 4))
            if draw.random() < 0.3:
                role.pop("restartPolicy")
            if draw.random() < 0.2:
                role["template"]["spec"]["containers"][0]["resources"] = GPU
    if of == "pytorchjobs.kubeflow.org" and draw.random() < 0.5:
        raw["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 4}
    return raw


def _policy(draw: random.Random, likely: float) -> Json:
    return {name: draw.choice(values) for name, values in RUN_POLICY.items() if draw.random() < likely}


def draw_rules(draw: random.Random) -> Rules:
    rules = reconcile_rules(Settings())
    return replace(
        rules,
        writes_per_pass=draw.choice((rules.writes_per_pass, rules.writes_per_pass, 3)),
        gang=draw.choice(("none", "kubernetes", "volcano", "scheduler-plugins")),
        autoclean=draw.random() < 0.7,
        enable_creating_failed=draw.random() < 0.5,
        restart_limit=draw.choice((rules.restart_limit, 1)),
        git_sync_image=draw.choice(("", "git-sync:4")),
        host_ports=draw.choice((None, (20000, 20009), (20000, 20099))),
        own_namespace="default" if draw.random() < 0.03 else "",
        gpu_fault_conditions=("GPUUnhealthy",),
    )


def node(name: str) -> Json:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2025-12-31T00:00:00Z"}
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "50"},
        "spec": {},
        "status": {"conditions": [ready], "allocatable": room},
    }


def edit(draw: random.Random, job: Json, roles_field: str) -> str:
    """What a user, or another operator, does to the job itself."""
    word = draw.choice(("scale", "scale", "suspend", "resume", "annotate", "image", "limit", "beside", "delete"))
    if word in ("scale", "image"):
        _edit_roles(draw, job["spec"], roles_field, word)
    elif word in ("suspend", "resume"):
        _suspend(job["spec"], roles_field, word == "suspend")
    elif word == "limit":
        job["spec"].setdefault("runPolicy", {})["activeDeadlineSeconds"] = draw.choice((60, 600))
    elif word == "delete":
        if draw.random() < 0.1:
            job["metadata"]["deletionTimestamp"] = "2026-01-01T09:00:00Z"
    else:
        _annotate(draw, job["metadata"].setdefault("annotations", {}), word)
    return f"edit: {word}"


def _edit_roles(draw: random.Random, spec: Json, roles_field: str, word: str) -> None:
    roles = spec.get(roles_field)
    if isinstance(roles, dict) and roles:
        role = roles[draw.choice(sorted(roles))]
        if word == "scale":
            role["replicas"] = draw.choice((0, 1, 2, 3, 5))
        else:
            role["template"]["spec"]["containers"][0]["image"] = f"trainer:{draw.randint(2, 5)}"
    elif isinstance(trainer := spec.get("trainer"), dict):
        trainer["parallelism"] = trainer["min-instance"] = draw.choice((1, 2, 3, 4))


def _suspend(spec: Json, roles_field: str, suspend: bool) -> None:
    """In every place in which a kind may have it."""
    spec["suspend"] = suspend
    if roles_field == "replicaSpecs":
        spec.get("runPolicy", {}).pop("suspend", None)
    else:
        spec.setdefault("runPolicy", {})["suspend"] = suspend


def _annotate(draw: random.Random, told: Json, word: str) -> None:
    if word == "annotate":
        told[draw.choice(("Preempted", "Failed", "NodeFail"))] = "from outside"
        return
    name = draw.choice(sorted(BESIDE))
    told[name] = draw.choice(BESIDE[name])
    if draw.random() < 0.3:
        del told[name]
