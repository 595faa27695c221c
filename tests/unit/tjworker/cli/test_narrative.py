"""Tables: what `tj describe` says of a job in each situation that a user asks about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.builders import JobBuilder, make_job
from tjworker.api.model import TrainingJob
from tjworker.api.status import (
    Attempts,
    Condition,
    Ending,
    Metric,
    ReplicaStatus,
    RestartCounts,
    RoleAttempts,
    ScaleRecord,
    SpeedRow,
    TrainerStatus,
)
from tjworker.cli.happenings import Happening
from tjworker.cli.narrative import Around, describe, why_pod_waits

NOW = datetime(2026, 1, 1, 1, 0, 0, tzinfo=UTC)
DIGITS = make_job("digits").workers(2)
ELASTIC = make_job("digits").workers(2, least=2, most=5, edl="Auto")


def ago(seconds: int) -> str:
    return datetime.fromtimestamp(NOW.timestamp() - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(type_: str, status: str = "True", reason: str = "R", message: str = "", at: str = "") -> Condition:
    return Condition(type=type_, status=status, last_transition_time=at or ago(60), reason=reason, message=message)


def pod(index: int = 0, phase: str = "Running", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"digits-trainer-{index}", "labels": {"replica-name": "trainer"}},
        "spec": {"nodeName": "node-a"},
        "status": {"phase": phase} | status,
    }


def running(image: str, index: int = 0, *, phase: str = "Running", sidecar: str = "") -> dict[str, Any]:
    """With the first container of the template, of another image."""
    template = DIGITS.raw["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]
    image = template["image"] if image == "python" else image
    others = [{"name": sidecar, "image": "proxy"}] if sidecar else []
    raw = pod(index, phase)
    raw["spec"] = {"nodeName": "node-a", "containers": [template | {"image": image}, *others]}
    return raw


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    section: str
    want: tuple[str, ...]
    """Each is part of a line of its own, in this order; () : the section is not there."""
    pods: tuple[dict[str, Any], ...] = field(default=())
    ill_nodes: dict[str, str] = field(default_factory=dict)
    obstacles: dict[str, str] = field(default_factory=dict)
    too_large: tuple[str, ...] = ()


REPORTED = TrainerStatus(
    progress_percentage=41,
    estimated_remaining_seconds=90,
    metrics=(Metric(name="loss", value="0.25"), Metric(name="evil\x1b[2J", value="1")),
    last_updated_time=ago(5),
)
SPEEDS = (
    SpeedRow(replicas=2, nodes=1, rate=10.0, count=3, last_seen=ago(60)),
    SpeedRow(replicas=4, nodes=2, rate=18.5, count=2, last_seen=ago(5)),
)
CASES: dict[str, Case] = {
    "how far its program says it is, how fast with how many, and nothing that a terminal obeys": Case(
        DIGITS.status(phase="Running", trainer_status=REPORTED, speed=SPEEDS, rescale_seconds=12.0),
        "Progress",
        (
            "41 % done, 90s left by the program's estimate; reported 5s ago.",
            "loss 0.25, evil [2J 1.",
            "Samples per second: 10 with 2 on 1 node, 18.5 with 4 on 2 nodes.",
            "After its last change of size it reported again after 12s.",
        ),
    ),
    "an annotation forges no line, and one wrong field hides no other": Case(
        make_job("digits")
        .workers(2)
        .annotate(
            {"kubedl.io/tenancy": '{"tenant": "research\\nIt is Succeed.", "user": 7, "region": null, "idc": "s"}'}
        )
        .status(phase="Running", observed_generation=1),
        "",
        ("digits in namespace default is Running", "It is for tenant research It is Succeed., data center s."),
    ),
    "pods of a template that was edited since": Case(
        DIGITS.status(phase="Running"),
        "",
        (
            "is Running",
            "! digits-trainer-0: created from an older template of trainer, and keep it; `tj suspend` and `tj resume`",
        ),
        (running("old:1"), running("python", 1), running("old:1", 2, phase="Failed")),
    ),
    "a refused job has not ended: it starts when it is mended": Case(
        DIGITS.status(phase="Failed", completion_time=ago(30), refused="Create", message="pods: unknown field 'x'"),
        "",
        ("was refused and has no pods; made 60m ago. It starts once its spec is mended.", "pods: unknown field 'x'."),
    ),
    "a job that goes on beside a bad edit says what is wrong, also when the event is gone": Case(
        DIGITS.status(
            phase="Running", conditions=(condition("Failed", "False", "InvalidSpec", "spec.x: 7: must be a word"),)
        ),
        "Waits for",
        ("an edit of the job: spec.x: 7: must be a word",),
    ),
    "a status that does not know the newest spec": Case(
        DIGITS.metadata(generation=4).status(phase="Running", observed_generation=3, last_reconcile_time=ago(60)),
        "",
        ("is Running", "! This status is for generation 3 of the spec, which is at 4"),
    ),
    "a status that the pods contradict, with its age": Case(
        DIGITS.status(
            phase="Running",
            observed_generation=1,
            last_reconcile_time=ago(40),
            replica_statuses={"trainer": ReplicaStatus(desired=2, active=2)},
        ),
        "",
        ("is Running", "! The status is stale: it reports 2 running pods of trainer, the cluster has 1; its last"),
        (pod(0), pod(1, "Failed")),
    ),
    "one that is only a moment behind is not doubted": Case(
        DIGITS.metadata(generation=2).status(
            phase="Running",
            observed_generation=1,
            last_reconcile_time=ago(2),
            replica_statuses={"trainer": ReplicaStatus(active=2)},
        ),
        "",
        ("is Running",),
    ),
    "pods that wait for the same thing are told together": Case(
        DIGITS.status(phase="Pending"),
        "Waits for",
        ("digits-trainer-0, digits-trainer-1: container aitj-main cannot start: ImagePullBackOff: no such image",),
        tuple(
            pod(
                index,
                "Pending",
                containerStatuses=[
                    {
                        "name": "aitj-main",
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such\n image"}},
                    }
                ],
            )
            for index in range(2)
        ),
    ),
    "a replica that rests has the time of its next try": Case(
        DIGITS.status(
            phase="Restarting", attempts=Attempts(roles={"trainer": RoleAttempts(resting={ago(-40): "1", ago(5): "0"})})
        ),
        "Waits for",
        ("trainer 1: the next try comes at 01:00:40 UTC, in 40s, for the earlier ones have failed",),
    ),
    "an end that is decided waits for the pods": Case(
        DIGITS.status(phase="Terminating", ending=Ending(phase="Timeout", reason="r", message="too long", time=ago(1))),
        "Waits for",
        ("its pods to go; then it ends in Timeout: too long", "digits-trainer-0: is being deleted"),
        ({"metadata": {"name": "digits-trainer-0", "deletionTimestamp": ago(1)}, "status": {"phase": "Running"}},),
    ),
    "restarts by cause, and the limit that counts one of them": Case(
        make_job("digits")
        .workers(2, restart="OnFailure", limit=5)
        .run_policy(backoffLimit=6)
        .status(phase="Running", restart_counts={"trainer": RestartCounts(application=2, user=1)}),
        "Restarts",
        (
            "trainer: 2 because its program failed, 1 because its pod was deleted (restartLimit 5",
            "backoffLimit: 2 of 6 used",
        ),
    ),
    "what the autoscaler wants stands beside what the spec says": Case(
        ELASTIC.status(
            phase="Running",
            targets={"trainer": 4},
            targets_beside={"trainer": 2},
            scale_records=(
                ScaleRecord(role="trainer", from_=2, to=4, time=ago(20), reason="autoscaler: room for 2 more"),
            ),
        ),
        "Autoscaler",
        (
            "trainer: target 4 (spec.replicaSpecs.trainer.replicas is 2)",
            "20s ago trainer 2 -> 4: autoscaler: room for 2 more",
        ),
    ),
    "a node that is ill, and what is on it": Case(
        DIGITS.status(phase="Running"),
        "Waits for",
        ("node node-a is not ready; on it: digits-trainer-0",),
        (pod(0), pod(1, "Failed")),
        ill_nodes={"node-a": "is not ready", "node-b": "is cordoned"},
    ),
    "what is left of each limit": Case(
        DIGITS.spec(timeLimit=100)
        .run_policy(activeDeadlineSeconds=200)
        .status(phase="Running", start_time=ago(50), start_running_time=ago(40)),
        "Time",
        (
            "all replicas first ran 40s ago",
            "60s left of spec.timeLimit 100 s",
            "2m30s left of activeDeadlineSeconds 200",
        ),
    ),
    "the limits of a suspended job stand still": Case(
        DIGITS.spec(timeLimit=100)
        .suspended()
        .status(phase="Suspended", start_time=ago(50), start_running_time=ago(40), suspend_time=ago(30)),
        "Time",
        ("all replicas first ran 40s ago", "90s left of spec.timeLimit 100 s once it goes on"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_is_said(case: Case) -> None:
    job = case.job.parse()
    assert isinstance(job, TrainingJob)
    around = Around(case.ill_nodes, case.obstacles, case.too_large)
    sections = {section.title: section.lines for section in describe(job, case.pods, (), NOW, around=around)}
    said = sections.get(case.section, ())
    assert len(said) == len(case.want), said
    for part, line in zip(case.want, said, strict=True):
        assert part in line


IMAGE = "docker.io/library/nope:1"
RUNTIME = (
    f'rpc error: code = NotFound desc = failed to pull and unpack image "{IMAGE}": failed to resolve reference'
    f' "{IMAGE}": {IMAGE}: not found'
)
"""containerd 2."""
SHORT = f'failed to resolve reference "{IMAGE}": {IMAGE}: not found'


def unpulled(index: int) -> dict[str, Any]:
    """The kubelet of every second one waits before its next try."""
    waits = f'Back-off pulling image "nope:1": ErrImagePull: {RUNTIME}'
    reason, message = ("ErrImagePull", RUNTIME) if index % 2 else ("ImagePullBackOff", waits)
    waiting = {"waiting": {"reason": reason, "message": message}}
    return pod(index, "Pending", containerStatuses=[{"name": "aitj-main", "state": waiting}])


def test_an_image_that_cannot_be_pulled_is_told_once_for_all_pods_and_in_short() -> None:
    builder = DIGITS.status(phase="Creating", message="trainer 0/4")
    warnings = [
        Happening(ago(9 - index), ago(9 - index), 1, "Warning", reason, f"pod/digits-trainer-{index}", message)
        for index in range(4)
        for reason, message in (
            ("Failed", f'Failed to pull image "nope:1": {RUNTIME}'),
            ("Failed", "Error: ErrImagePull"),
            ("BackOff", 'Back-off pulling image "nope:1"'),
            ("Failed", "Error: ImagePullBackOff"),
            ("FailedMount", "no volume"),
        )
    ]
    pods = [unpulled(index) for index in range(4)]
    sections = {s.title: s.lines for s in describe(builder.build(), pods, warnings, NOW)}
    four = "digits-trainer-0, digits-trainer-1, digits-trainer-2 and 1 more"
    assert sections["Waits for"] == (f"{four}: container aitj-main cannot start: ImagePullBackOff: {SHORT}",)
    (other,) = sections["Newest warnings"]
    assert other == f"6s ago, {four.replace('digits-', 'pod/digits-')}, FailedMount: no volume"


PODS: dict[str, tuple[dict[str, Any], str]] = {
    "one that runs waits for nothing": (pod(), ""),
    "one that the scheduler has not looked at": ({"metadata": {"name": "a"}}, "waits for the scheduler"),
    "one without room, in the scheduler's words": (
        pod(phase="Pending", conditions=[{"type": "PodScheduled", "status": "False", "message": "no\n room"}]),
        "has no node: no room",
    ),
    "one that is being started": (
        pod(phase="Pending", containerStatuses=[{"name": "a", "state": {"waiting": {"reason": "ContainerCreating"}}}]),
        "is being started on node-a",
    ),
    "one whose init container cannot start": (
        pod(phase="Pending", initContainerStatuses=[{"name": "i", "state": {"waiting": {"reason": "ErrImagePull"}}}]),
        "container i cannot start: ErrImagePull",
    ),
}


@pytest.mark.parametrize(("raw", "want"), PODS.values(), ids=list(PODS))
def test_why_a_pod_waits(raw: dict[str, Any], want: str) -> None:
    assert why_pod_waits(raw) == want
