"""What is read from raw nodes and pods, and who is said to have the room."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.support.builders import JobBuilder, make_job
from tjworker.api import labels
from tjworker.api.model import TrainingJob
from tjworker.api.node_requests import WAITING
from tjworker.api.status import Condition, JobStatus
from tjworker.autoscale import AutoscaleRules
from tjworker.cli.room import ill_nodes, obstacles, room, too_large

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


def test_of_two_equal_jobs_the_smaller_learns_who_has_the_room() -> None:
    small, big = elastic("el2", 1), elastic("el", 3)
    found = room([node()], [pod("el2", 0), *(pod("el", i) for i in range(3))])
    jobs = [small.build(), big.build()]
    said = obstacles(jobs[0], jobs, found, NOW, AutoscaleRules())
    assert said == {
        "trainer": "one more asks for 1 CPU, and 0 of 4 are left to it: the autoscaler fills 97% of the CPUs"
        " (policy fulfillment). CPU now: default/el 3, default/el2 1"
    }


def test_a_pod_that_waits_for_a_node_has_no_room() -> None:
    job, big = elastic("el", 4), elastic("big", 1)
    found = room([node()], [*(pod("el", i) for i in range(4)), pod("big", 0, where="", phase="Pending")])
    said = obstacles(job.build(), [job.build(), big.build()], found, NOW, AutoscaleRules())
    assert said["trainer"].endswith("CPU now: default/el 4")


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


def test_a_role_that_has_its_maximum_lacks_nothing() -> None:
    job = elastic("el", 5).build()
    assert obstacles(job, [job], room([node()], []), NOW, AutoscaleRules()) == {}


def test_a_role_that_cannot_be_planned_with_says_why() -> None:
    template = {"spec": {"containers": [{"name": "aitj-a", "image": "x", "resources": {"requests": {"cpu": "1e99"}}}]}}
    job = make_job("el").role("trainer", 1, least=1, most=5, edl="Auto", template=template)
    built = job.status(JobStatus(phase="Running")).build()
    said = obstacles(built, [built], room([node()], []), NOW, AutoscaleRules())["trainer"]
    assert "role trainer is not autoscaled" in said


def test_nodes_that_are_ill() -> None:
    assert ill_nodes([node("a"), node("b", "Unknown"), node("c", unschedulable=True)]) == {
        "b": "is not ready since 2026-01-01T00:59:00Z",
        "c": "is cordoned: nothing new comes there",
    }


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


def test_what_no_single_node_has_together() -> None:
    wide, tall = node("wide"), node("tall")
    wide["status"]["allocatable"] |= {"cpu": "64"}
    tall["status"]["allocatable"] |= {"memory": "64Gi"}
    (said,) = too_large(read(asking(cpu="32", memory="32Gi")), [wide, tall])
    assert "no single node has all that it requests" in said


def test_a_wrong_name_of_a_policy_is_told_beside_what_decides() -> None:
    job = elastic("el", 1).metadata(uid="uid-el", annotations={labels.AUTOSCALE_POLICY: "best"})
    said = obstacles(job.build(), [job.build()], room([node()], [pod("el", 0)]), NOW, AutoscaleRules())["trainer"]
    assert "(policy fulfillment)" in said
    assert f". annotation {labels.AUTOSCALE_POLICY} of the job names 'best', which is no policy. Choose one of" in said


def test_the_policy_that_the_operator_names_is_said_whatever_the_users_settings_are() -> None:
    """As where a label of the namespace chooses it, which the user may not see."""
    told = Condition(type="FullSize", status="False", last_transition_time="2026-01-01T00:00:00Z", reason="Fair")
    job = elastic("el", 1).status(JobStatus(phase="Running", conditions=(told,)))
    said = obstacles(job.build(), [job.build()], room([node()], [pod("el", 0)]), NOW, AutoscaleRules())["trainer"]
    assert "(policy fair)" in said
