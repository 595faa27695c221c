"""What is read from raw nodes and pods, and who is said to have the room."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.support.builders import JobBuilder, make_job
from tjworker.api import labels
from tjworker.api.model import TrainingJob
from tjworker.api.node_requests import WAITING
from tjworker.api.status import JobStatus
from tjworker.autoscale import AutoscaleRules
from tjworker.cli.room import obstacles, room, too_large

NOW = datetime(2026, 1, 1, 1, 0, 0, tzinfo=UTC)
CPU = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}


def node(name: str = "a", ready: str = "True", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:59:00Z"}],
        },
    }


def elastic(name: str, replicas: int) -> JobBuilder:
    built = make_job(name).role("trainer", replicas, least=1, most=5, edl="Auto", template=CPU)
    return built.metadata(uid=f"uid-{name}").status(JobStatus(phase="Running"))


def pod(job: str, index: int, *, where: str = "a", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    marks = {"job-name": job, labels.JOB_UID: f"uid-{job}", "replica-name": "trainer", "replica-index": str(index)}
    owner = {"kind": "AITrainingJob", "name": job, "uid": f"uid-{job}", "controller": True, "apiVersion": "a/v1"}
    return {
        "metadata": {
            "name": f"{job}-trainer-{index}",
            "namespace": "default",
            "uid": f"{job}-{index}",
            "resourceVersion": "1",
            "labels": marks,
            "ownerReferences": [owner],
        }
        | metadata,
        "spec": CPU["spec"] | ({"nodeName": where} if where else {}),
        "status": {"phase": phase},
    }


def test_the_sums_are_those_of_pods_that_have_not_finished() -> None:
    web = pod("web", 0) | {"metadata": {"name": "web", "namespace": "kube-system"}}
    found = room(
        [node()],
        [
            *(pod("digits", 0), pod("digits", 1, phase="Succeeded"), pod("digits", 2, where="", phase="Pending"), web),
            pod("digits", 3, where="", phase="Pending", deletionTimestamp="2026-01-01T00:00:00Z"),
        ],
    )
    assert {name: asked.cpu_milli for name, asked in found.requests.items()} == {"a": 2000, WAITING: 1000}
    assert {name: asked.cpu_milli for name, asked in found.holders.items()} == {"default/digits": 2000, "others": 1000}


def test_a_job_beside_one_that_the_autoscaler_does_not_read_is_told_what_the_autoscaler_decides() -> None:
    """A job that is not scaled and waits would let jobs grow that do not run yet."""
    job = elastic("el", 1).status(JobStatus(phase="Creating"))
    manual = make_job("big").role("trainer", 1, template=CPU).metadata(uid="uid-big").status(JobStatus(phase="Pending"))
    waits = pod("big", 0, where="", phase="Pending")
    waits["spec"] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500"}}}]}
    waits["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    found = room([node()], [pod("el", 0), waits])
    said = obstacles(job.build(), [job.build(), manual.build()], found, NOW, AutoscaleRules())
    assert said["trainer"].startswith("a job grows while it runs whole, and this one is Creating")


def test_a_role_that_cannot_be_planned_with_says_why() -> None:
    template = {"spec": {"containers": [{"name": "aitj-a", "image": "x", "resources": {"requests": {"cpu": "1e99"}}}]}}
    job = make_job("el").role("trainer", 1, least=1, most=5, edl="Auto", template=template)
    built = job.status(JobStatus(phase="Running")).build()
    said = obstacles(built, [built], room([node()], []), NOW, AutoscaleRules())["trainer"]
    assert "role trainer is not autoscaled" in said


def test_a_role_without_room_says_so_as_the_autoscaler_decides_which_leaves_hopeless_pods_out() -> None:
    """A pod with cpu 500 keeps nobody from growing; pods that are alike are counted together."""
    job = elastic("el", 1)
    huge = [pod("web", i, where="", phase="Pending") for i in range(2)]
    for one in huge:
        one["spec"] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500"}}}]}
        one["metadata"] = {**one["metadata"], "labels": {}, "name": f"huge-{one['metadata']['name']}"}
    found = room([node()], [pod("el", 0), *huge])
    assert [(waiting.pods, waiting.requests.cpu_milli) for waiting in found.waiting] == [(2, 500_000)]
    said = obstacles(job.build(), [job.build()], found, NOW, AutoscaleRules())
    assert said["trainer"].startswith("there is room for one more")


def asking(**requests: str) -> JobBuilder:
    container = {"name": "aitj-main", "image": "x", "resources": {"requests": requests}}
    return make_job("big").role("trainer", 2, template={"spec": {"containers": [container]}})


def read(job: JobBuilder) -> TrainingJob:
    parsed = job.parse()
    assert isinstance(parsed, TrainingJob)
    return parsed


def test_a_pod_that_fits_no_node_however_empty_is_told_with_what_it_lacks() -> None:
    """Nodes of four CPUs and 8 GiB each."""
    nodes = [node("a"), node("b")]
    assert list(too_large(read(asking(cpu="4", memory="8Gi")), nodes)) == []
    assert list(too_large(read(asking(cpu="64")), [])) == [], "a cluster may make its nodes when they are asked for"
    (said,) = too_large(read(asking(cpu="4500m", memory="16Gi")), nodes)
    assert "role trainer fits no node" in said
    assert "cpu 4.5 (a node has at most 4), memory 16Gi (a node has at most 8Gi)" in said
    (said,) = too_large(read(asking(**{"nvidia.com/gpu": "1"})), nodes)
    assert "nvidia.com/gpu 1 (a node has at most 0)" in said
