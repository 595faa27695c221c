"""Volcano's lifecycle policies and plugins: what they come to. What Volcano does is said in its source:
`pkg/controllers/job/state`, `job_controller_util.go:applyPolicies`, `plugins/`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.unit.tjworker.convert.manifests import Json, converted, parsed, rows
from tjworker import convert

DEFAULTS: Json = {"restart": "OnNodeFail", "scope": "Pod", "limit": None, "fail": "All", "complete": "All"}


def task(name: str = "worker", restart: str | None = "Never", **fields: Any) -> Json:
    pod: Json = {"containers": [{"name": "main", "image": "a"}]}
    return {
        "name": name,
        "replicas": 2,
        "template": {"spec": pod | ({"restartPolicy": restart} if restart else {})},
    } | fields


def job(*tasks: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": list(tasks or [task()]), **spec},
    }


def at(event: str, action: str, **more: Any) -> Json:
    return {"event": event, "action": action, **more}


@dataclass(frozen=True)
class Case:
    raw: Json
    want: Json = field(default_factory=dict)
    """Of the role worker, beside what is the default."""
    want_job: Json = field(default_factory=dict)
    want_left: tuple[str, ...] = ()


CASES: dict[str, Case] = {
    "without any policy a failed pod stays and the others go on": Case(job()),
    "the kubelet restarts a container": Case(job(task(restart="OnFailure")), {"restart": "Always", "fail": "Any"}),
    "a failed pod begins the job anew": Case(
        job(policies=[at("PodFailed", "RestartJob")]), {"restart": "Always", "scope": "All", "limit": 2, "fail": "Any"}
    ),
    "maxRetry counts the last restart, which does not come about": Case(
        job(policies=[at("PodFailed", "RestartPod")], maxRetry=1),
        {"restart": "Always", "scope": "Pod", "limit": 0, "fail": "Any"},
    ),
    "a task's policy goes before the job's": Case(
        job(task(policies=[at("PodFailed", "RestartTask")]), policies=[at("*", "AbortJob")]),
        {"restart": "Always", "scope": "Replica", "limit": 2, "fail": "Any"},
    ),
    "a failed pod ends the job": Case(
        job(task(restart="OnFailure"), policies=[at("PodFailed", "AbortJob")]), {"fail": "Any"}
    ),
    "an evicted pod ends the job": Case(job(policies=[at("PodEvicted", "TerminateJob")]), {"restart": "Never"}),
    "some exit codes": Case(
        job(policies=[{"exitCode": 3, "action": "RestartJob"}, {"exitCode": 137, "action": "RestartJob"}]),
        {"restart": "OnNodeFailWithExitCode", "scope": "All", "limit": 2, "fail": "Any"},
        {"retryable_exit_codes": frozenset({3, 137})},
    ),
    "a task that is done ends the job": Case(
        job(task(), task("ps"), policies=[]) | job(task(policies=[at("TaskCompleted", "CompleteJob")]), task("ps"))
    ),
    "whichever task is done ends the job": Case(
        job(policies=[at("TaskCompleted", "CompleteJob")]), want_job={"complete_policy": "Any"}
    ),
    "the kubelet's restarts are limited by the task's own retries": Case(
        job(task(restart="OnFailure", policies=[at("TaskFailed", "TerminateJob")], maxRetry=7)),
        {"restart": "Always", "limit": 7, "fail": "Any"},
    ),
    "what no policy here is like": Case(
        job(policies=[at("PodPending", "AbortJob", timeout="5m"), {"events": ["Unknown"], "action": "RestartJob"}]),
        want_left=("spec.policies[0].timeout", "spec.policies[0].event", "spec.policies[1].events"),
    ),
    "a gang smaller than the job": Case(
        job(minAvailable=1), want_job={"min_available": 1}, want_left=("spec.minAvailable",)
    ),
    "what is said of a task alone": Case(
        job(task(minAvailable=1, dependsOn={"name": ["ps"]}, topologyPolicy="restricted")),
        want_left=("spec.tasks[0].minAvailable", "spec.tasks[0].topologyPolicy", "spec.tasks[0].dependsOn"),
    ),
    "priority and time to live": Case(
        job(priorityClassName="high", ttlSecondsAfterFinished=60),
        want_job={"priority": "high", "ttl_seconds_after_finished": 60},
    ),
    "the plugin of PyTorch": Case(
        job(task("master"), task(), plugins={"pytorch": ["--master=master", "--worker=worker", "--port=23456"]}),
        want_job={"framework": "pytorch"},
    ),
    "whose tasks have other names": Case(
        job(task("boss"), task(), plugins={"pytorch": ["--master=boss"]}), want_left=("spec.plugins.pytorch",)
    ),
    "ssh is not ours": Case(job(plugins={"ssh": []}), want_left=("spec.plugins.ssh",)),
}


@pytest.mark.parametrize("sentence", CASES)
def test_policies(sentence: str) -> None:
    case = CASES[sentence]
    made = converted(case.raw)
    read = parsed(made.manifest)
    role = read.role("worker")
    got = {
        "restart": role.restart_policy,
        "scope": role.restart_scope,
        "limit": role.restart_limit,
        "fail": role.fail_policy,
        "complete": role.complete_policy,
    }
    if role.restart_policy == "Never":
        got["scope"] = "Pod"
    assert got == DEFAULTS | case.want
    assert {name: getattr(read, name) for name in case.want_job} == case.want_job
    assert tuple(rows(made.left)) == case.want_left
    assert read.clean_pod_policy == "Running"


def test_variables_ports_and_volumes_of_each_container() -> None:
    raw = job(
        task("master"),
        task(),
        plugins={"env": [], "svc": ["--disable-network-policy=true"], "pytorch": ["--port=3000"], "mpi": []},
        volumes=[{"mountPath": "/data", "volumeClaimName": "data"}, {"mountPath": "/scratch", "volumeClaim": {"a": 1}}],
    )
    made = converted(raw)
    pod = made.manifest["spec"]["replicaSpecs"]["worker"]["template"]["spec"]
    container = pod["containers"][0]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert env["VC_TASK_INDEX"] == "$(TRAININGJOB_REPLICA_INDEX)"
    assert (env["VC_MASTER_HOSTS"], env["MPI_HOST"]) == ("$(MASTER_INSTANCES)", "$(WORKER_INSTANCES)")
    assert container["ports"] == [{"name": "pytorchjob-port", "containerPort": 3000}]
    assert container["volumeMounts"] == [
        {"name": "data", "mountPath": "/data"},
        {"name": "volume-1", "mountPath": "/scratch"},
    ]
    assert pod["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "volume-1", "emptyDir": {}},
    ]
    assert set(rows(made.left)) == {"spec.plugins.svc", "spec.plugins.mpi", "spec.volumes[1].volumeClaim"}
    assert not [note for note in made.notes if "NetworkPolicy" in note]


def test_what_volcano_would_refuse_is_refused_with_its_path() -> None:
    source = convert.find(job())
    assert source is not None
    made = source.convert(job(task(replicas="two")))
    assert isinstance(made, convert.RefusedManifest)
    assert made.errors[0].path == "spec.tasks[0].replicas"
    assert isinstance(source.convert({"spec": None}), convert.RefusedManifest)
