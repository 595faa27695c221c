"""What people read: why a pod goes, when a condition stops to hold, whose failure it was, what an event says. A wrong word here
costs no pod, and somebody an hour."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.builders import make_job, make_pod, make_service, observe
from tests.builders.cluster import PodBuilder
from tests.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import (
    NOW,
    NOW_TEXT,
    SETTINGS,
    World,
    after,
    created,
    decide,
    deleted,
    everything,
    status_of,
)
from tjworker.api.model import InvalidJob
from tjworker.api.status import Condition, ConditionType, Failure, JobStatus
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile import report_create_failure
from tjworker.reconcile.conditions import get_condition
from tjworker.reconcile.failures import describe, diagnose
from tjworker.reconcile.plan import Delete, Plan
from tjworker.reconcile.policies.held import Held, find_held


def condition(status: JobStatus, type_: ConditionType) -> tuple[str, str, str]:
    found = get_condition(status, type_)
    assert found is not None, f"no condition {type_}"
    return found.status, found.reason, found.message


def true(*types: ConditionType) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=t,
            status="True",
            observed_generation=1,
            last_transition_time="2026-01-01T00:00:00Z",
            reason="Before",
            message="before",
        )
        for t in types
    )


def whys(plan: Plan) -> dict[str, str]:
    return {f"{w.resource}/{w.name}": w.why for w in plan.writes if isinstance(w, Delete)}


# -- conditions that no longer hold ----------------------------------------------------------------------------------------

HOLDING: tuple[ConditionType, ...] = ("Running", "Restarting", "Scaling", "Suspended")


@pytest.mark.parametrize("type_", HOLDING)
def test_at_the_end_no_condition_of_a_live_job_holds_any_more_and_each_says_why(type_: ConditionType) -> None:
    job = (
        make_job()
        .role("trainer", 1)
        .annotate({"Failed": "out of money"})
        .status(phase="Running", start_time="2026-01-01T00:00:00Z", conditions=true(type_))
        .build()
    )
    status = status_of(decide(job))
    assert condition(status, type_) == ("False", "AnnotationFailed", "out of money")
    assert condition(status, "Failed") == ("True", "AnnotationFailed", "out of money")
    assert (status.phase, status.completion_time, status.last_reconcile_time) == ("Failed", NOW_TEXT, NOW_TEXT)


WAITED_FOR = {
    "pods that were being made": (("Pending", "pod digits-trainer-0 is waiting for a node"), "out of money"),
    "pods that were being replaced": (("Restarting", "pod digits-trainer-0 is waiting for a node"), "out of money"),
    "room that there was none of": (
        ("Unschedulable", "pod digits-trainer-0: 0/1 nodes are available"),
        "out of money; before that Unschedulable: pod digits-trainer-0: 0/1 nodes are available",
    ),
}


@pytest.mark.parametrize(("said", "want"), WAITED_FOR.values(), ids=WAITED_FOR.keys())
def test_a_job_that_ends_without_running_waits_for_nothing_any_more(said: tuple[str, str], want: str) -> None:
    waits = Condition(
        type="Running",
        status="False",
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
        reason=said[0],
        message=said[1],
    )
    job = (
        make_job()
        .role("trainer", 1)
        .annotate({"Failed": "out of money"})
        .status(phase="Pending", start_time="2026-01-01T00:00:00Z", conditions=(waits,))
        .build()
    )
    going = decide(job, observe(make_pod(job, "trainer")))
    ended = decide(after(job, going))
    assert [status_of(plan).phase for plan in (going, ended)] == ["Terminating", "Failed"]
    for plan in (going, ended):
        assert condition(status_of(plan), "Running") == ("False", "AnnotationFailed", want)


SUSPENDED = "spec.suspend is true: the pods are deleted, the job waits"


@pytest.mark.parametrize("type_", ["Running", "Restarting", "Scaling"])
def test_while_it_is_suspended_it_neither_runs_nor_restarts_nor_scales(type_: ConditionType) -> None:
    job = (
        make_job()
        .role("trainer", 1)
        .suspended()
        .status(phase="Running", start_time="2026-01-01T00:00:00Z", conditions=true(type_))
        .build()
    )
    status = status_of(decide(job))
    assert condition(status, type_) == ("False", "Suspended", SUSPENDED)
    assert condition(status, "Suspended") == ("True", "Suspended", SUSPENDED)
    assert (status.phase, status.message, status.suspend_time) == ("Suspended", SUSPENDED, NOW_TEXT)


def test_a_resumed_job_says_so_and_when() -> None:
    base = make_job().role("trainer", 1)
    waiting = after(base.suspended().build(), decide(base.suspended().build()))
    status = status_of(decide(base.status(waiting.status).build(), now=NOW + 90.7))
    assert condition(status, "Suspended") == ("False", "Resumed", "spec.suspend is false")
    assert (status.suspend_time, status.suspended_seconds) == (None, 90)
    again = after(base.suspended().build(), decide(base.suspended().status(status).build(), now=NOW + 100))
    assert status_of(decide(base.status(again.status).build(), now=NOW + 110)).suspended_seconds == 100


def test_a_scale_while_suspended_is_recorded_and_costs_the_number_only() -> None:
    base = make_job().role("trainer", 2)
    world = World(base.build()).settle().all("running").settle()
    world.job = base.suspended().status(world.job.status).build()
    world.settle()
    world.job = make_job().role("trainer", 3).suspended().status(world.job.status).build()
    status = status_of(world.step())
    assert [(r.role, r.from_, r.to, r.reason) for r in status.scale_records] == [
        ("trainer", 2, 3, "spec.replicaSpecs.trainer.replicas changed")
    ]
    assert (status.phase, status.replica_statuses["trainer"].desired, status.replica_statuses["trainer"].pending) == (
        "Suspended",
        3,
        0,
    )


def test_suspending_begins_a_new_attempt_and_forgets_neither_the_jobs_restarts_nor_what_is_done() -> None:
    base = make_job().role("ps", 1, complete="None").role("trainer", 2, restart="OnFailure", scope="All")
    world = World(base.build()).settle().all("running").settle()
    world.set("digits-trainer-0", "failed", exit_code=3).settle().all("running").settle()
    world.set("digits-trainer-1", "succeeded").settle()
    world.job = base.suspended().status(world.job.status).build()
    world.settle()
    attempts = world.job.status.attempts
    assert attempts.job == 1
    assert attempts.roles["trainer"].completed == "1"
    assert (attempts.roles["ps"].all, attempts.roles["trainer"].all) == (2, 2)


def test_an_end_without_a_clean_up_does_not_wait_for_services() -> None:
    job = make_job().role("trainer", 1).spec(cleanPodPolicy="None").build()
    pod = make_pod(job, "trainer", 0).succeeded()
    of_nobody = make_service(make_job().role("trainer", 2).build(), "trainer", 1)
    plan = decide(job, observe(pod, make_service(job, "trainer", 0), of_nobody))
    assert (status_of(plan).phase, plan.writes) == ("Succeed", ())


# -- why something goes ----------------------------------------------------------------------------------------------------


def _running(job: Any, *names: int) -> Any:
    return everything(job, *(make_pod(job, "trainer", n).running() for n in names))


@dataclass(frozen=True, slots=True)
class Goes:
    job: JobBuilder
    observed: Callable[[Any], Any]
    want: dict[str, str]


GOES = {
    "scaled down": Goes(
        make_job().role("trainer", 1),
        lambda j: _running(make_job().role("trainer", 2).build(), 0, 1),
        dict.fromkeys(("pods/digits-trainer-1", "services/digits-trainer-1"), "index is not below replicas 1"),
    ),
    "replaced": Goes(
        make_job().role("trainer", 1, restart="Always", scope="Pod"),
        lambda j: everything(j, make_pod(j, "trainer", 0).failed()),
        {"pods/digits-trainer-0": "attempt 1 replaces it"},
    ),
    "suspended": Goes(
        make_job().role("trainer", 1).suspended(),
        lambda j: _running(j, 0),
        {"pods/digits-trainer-0": "the job is suspended", "services/digits-trainer-0": "the job is suspended"},
    ),
    "ended": Goes(
        make_job().role("trainer", 1).annotate({"Preempted": ""}),
        lambda j: _running(j, 0),
        dict.fromkeys(
            ("pods/digits-trainer-0", "services/digits-trainer-0"), "the job ends in Preempted, cleanPodPolicy is All"
        ),
    ),
    "of a role that is gone": Goes(
        make_job().role("ps", 1),
        lambda j: _running(make_job().role("trainer", 1).build(), 0),
        dict.fromkeys(("pods/digits-trainer-0", "services/digits-trainer-0"), "its role is not in the spec"),
    ),
    "too long ended": Goes(
        make_job()
        .role("trainer", 1)
        .run_policy(ttlSecondsAfterFinished=60)
        .status(phase="Succeed", completion_time="2026-01-01T00:00:00Z", observed_generation=1),
        lambda j: observe(),
        {"aitrainingjobs/digits": "ttlSecondsAfterFinished 60 has passed since 2026-01-01T00:00:00Z"},
    ),
}


@pytest.mark.parametrize("case", GOES.values(), ids=GOES.keys())
def test_every_delete_says_why(case: Goes) -> None:
    job = case.job.build()
    assert whys(decide(job, case.observed(job))) == case.want


# -- whose failure it was --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Why:
    pod: Callable[[PodBuilder], PodBuilder]
    want: tuple[str, str, str, int | None]
    """reason, message, container, exit code"""
    want_words: str
    want_cause: str = "application"


WHYS = {
    "a container's own reason and message": Why(
        lambda p: p.failed(3, reason="OOMKilled").containers(message="out of memory"),
        ("OOMKilled", "out of memory", "aitj-main", 3),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 3 (out of memory)",
    ),
    "the pod's own reason goes before the container's": Why(
        lambda p: p.failed(137).but(reason="DeadlineExceeded", message="too long"),
        ("DeadlineExceeded", "too long", "aitj-main", 137),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 137 (too long)",
    ),
    "a disruption goes before both": Why(
        lambda p: p.disrupted("EvictionByEvictionAPI").but(reason="Evicted", message="not this"),
        ("EvictionByEvictionAPI", "disrupted: EvictionByEvictionAPI", "aitj-main", 143),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 143 "
        "(disrupted: EvictionByEvictionAPI)",
        "node",
    ),
    "no container has a reason, nor has the pod": Why(
        lambda p: p.but(phase="Failed", containers=()), ("Failed", "", "", None), "pod digits-trainer-0 failed: Failed"
    ),
    "without a node it names none": Why(
        lambda p: p.but(phase="Failed", reason="UnexpectedAdmissionError", containers=()),
        ("UnexpectedAdmissionError", "", "", None),
        "pod digits-trainer-0 failed: UnexpectedAdmissionError",
        "node",
    ),
    "a GPU at fault under a pod that runs": Why(
        lambda p: p.running().but(gpu_fault="node node-a: device 3 of the pod is Unhealthy"),
        ("GPUFault", "node node-a: device 3 of the pod is Unhealthy", "", None),
        "pod digits-trainer-0 on node node-a failed: GPUFault (node node-a: device 3 of the pod is Unhealthy)",
        "node",
    ),
    "a GPU at fault under a pod that has failed by itself: its own exit counts": Why(
        lambda p: p.failed(2).but(gpu_fault="node node-a: device 3 of the pod is Unhealthy"),
        ("Error", "", "aitj-main", 2),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 2",
    ),
}


@pytest.mark.parametrize("case", WHYS.values(), ids=WHYS.keys())
def test_diagnosis(case: Why) -> None:
    found = diagnose(case.pod(make_pod(make_job().role("trainer", 1).build(), "trainer", 0)).build(), NOW_TEXT)
    failure = found.failure
    assert (failure.reason, failure.message, failure.container, failure.exit_code) == case.want
    assert (describe(failure), found.cause) == (case.want_words, case.want_cause)


BY_CONDITION = {
    "PreemptionByScheduler": ("disrupted", "preemption"),
    "EvictionByEvictionAPI": ("disrupted", "node"),
    "TerminationByKubelet": ("disrupted", "node"),
    "DeletionByTaintManager": ("node_lost", "node"),
    "DeletionByPodGC": ("node_lost", "node"),
}
BY_REASON = {
    "Preempting": ("disrupted", "preemption"),
    "NodeLost": ("node_lost", "node"),
    "Evicted": ("disrupted", "node"),
    "NodeShutdown": ("disrupted", "node"),
    "Terminated": ("disrupted", "node"),
    "Shutdown": ("disrupted", "node"),
    "NodeAffinity": ("disrupted", "node"),
    "UnexpectedAdmissionError": ("disrupted", "node"),
    "OutOfcpu": ("disrupted", "node"),
    "OutOfnvidia.com/gpu": ("disrupted", "node"),
    "DeadlineExceeded": ("exit", "application"),
    "": ("exit", "application"),
}


@pytest.mark.parametrize(("reason", "want"), BY_CONDITION.items(), ids=BY_CONDITION.keys())
def test_whose_fault_it_was_by_the_condition_disruptiontarget(reason: str, want: tuple[str, str]) -> None:
    found = diagnose(make_pod(make_job().role("trainer", 1).build(), "trainer", 0).disrupted(reason).build(), NOW_TEXT)
    assert (found.kind, found.cause) == want


@pytest.mark.parametrize(("reason", "want"), BY_REASON.items(), ids=[*filter(None, BY_REASON), "no reason"])
def test_whose_fault_it_was_by_the_reason_of_the_pod(reason: str, want: tuple[str, str]) -> None:
    pod = make_pod(make_job().role("trainer", 1).build(), "trainer", 0).failed(143).but(reason=reason)
    found = diagnose(pod.build(), NOW_TEXT)
    assert (found.kind, found.cause) == want


def test_a_failure_without_a_node_or_a_message_is_still_a_sentence() -> None:
    assert describe(Failure(time=NOW_TEXT, pod="p", reason="Lost")) == "pod p failed: Lost"


REFUSED = {
    "Never": ("Never", "restartPolicy is Never"),
    "ExitCode": ("ExitCode", "restartPolicy ExitCode: exit code 1 is not retryable"),
    "OnNodeFail": ("OnNodeFail", "restartPolicy is OnNodeFail"),
    "OnNodeFailWithExitCode": (
        "OnNodeFailWithExitCode",
        "restartPolicy OnNodeFailWithExitCode: exit code 1 is not retryable",
    ),
}


@pytest.mark.parametrize(("policy", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_why_a_failure_is_not_followed_by_a_restart(policy: str, want: str) -> None:
    job = make_job().role("trainer", 1, restart=policy).build()
    plan = decide(job, everything(job, make_pod(job, "trainer", 0).failed(1)))
    status = status_of(plan)
    assert status.ending is not None
    assert status.ending.message == (
        f"pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 1; {want}"
    )


def test_a_failure_without_an_exit_code_is_not_retryable_and_says_none() -> None:
    job = make_job().role("trainer", 1, restart="ExitCode").build()
    plan = decide(job, everything(job, make_pod(job, "trainer", 0).on("node-a").but(phase="Failed", containers=())))
    ending = status_of(plan).ending
    assert ending is not None
    assert ending.message == (
        "pod digits-trainer-0 on node node-a failed: Failed; restartPolicy ExitCode: exit code none is not retryable"
    )


LIMITS = {
    "of the role": (
        make_job().role("trainer", 1, restart="Always", limit=0),
        "restartLimit 0 of role trainer is used up",
    ),
    "of the job": (
        make_job().role("trainer", 1, restart="Always").run_policy(backoffLimit=0),
        "backoffLimit 0 of the job is used up",
    ),
}


@pytest.mark.parametrize(("builder", "want"), LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_that_ends_the_job_is_named(builder: JobBuilder, want: str) -> None:
    job = builder.build()
    ending = status_of(decide(job, everything(job, make_pod(job, "trainer", 0).failed(1)))).ending
    assert ending is not None
    assert ending.message.endswith(f"; {want}")


# -- what a live job says of itself -----------------------------------------------------------------------------------------


def test_the_words_of_a_job_that_runs_is_scaled_and_runs_again() -> None:
    world = World(make_job().role("trainer", 2).build()).settle().all("running")
    plan = world.step()
    assert condition(world.job.status, "Running") == ("True", "AllReplicasRunning", "every desired replica runs")
    assert [(e.type, e.reason, e.message) for e in plan.events] == [
        ("Normal", "Running", "every desired replica runs (trainer 2/2)")
    ]
    assert plan.decisions == ("phase Pending -> Running: every desired replica runs (trainer 2/2)",)
    world.job = replace(make_job().role("trainer", 3).build(), status=world.job.status)
    plan = world.step()
    assert condition(world.job.status, "Scaling") == ("True", "ReplicasChanged", "scaling trainer to 3")
    assert plan.decisions == ("scale trainer 2 -> 3", "phase Running -> Scaling: trainer from 2 to 3")
    world.settle().all("running").settle()
    assert condition(world.job.status, "Scaling") == ("False", "Scaled", "the pods have followed")


# -- why it waits, and when that is told -----------------------------------------------------------------------------------

REASONS = {
    "no pod yet: the phase": (lambda p: None, "Pending"),
    "no node yet: the phase": (lambda p: p, "Pending"),
    "starting: the phase": (lambda p: p.creating(), "Creating"),
    "its init container runs: the phase": (lambda p: p.creating("PodInitializing"), "Creating"),
    "no room": (lambda p: p.unschedulable(), "Unschedulable"),
    "no image": (lambda p: p.creating("ImagePullBackOff"), "ImagePullBackOff"),
    "a stranger has its name": (lambda p: p.running().foreign("somebody"), "Blocked"),
}


@pytest.mark.parametrize(("change", "want"), REASONS.values(), ids=REASONS.keys())
def test_the_reason_of_a_job_that_does_not_run(change: Callable[[PodBuilder], PodBuilder | None], want: str) -> None:
    job = make_job().role("trainer", 1).build()
    pod = change(make_pod(job, "trainer", 0))
    plan = decide(job, observe(*([pod] if pod else [])))
    assert condition(status_of(plan), "Running")[:2] == ("False", want)
    told = [(e.type, e.reason) for e in plan.events]
    assert told == ([("Warning", want)] if want not in ("Pending", "Creating") else [])
    again = decide(after(job, plan), observe(*([pod] if pod else [])), now=NOW + 1)
    assert again.events == (), "once"


def test_another_reason_is_told_again_and_other_numbers_are_not() -> None:
    job = make_job().role("trainer", 1).build()
    first = after(job, decide(job, observe(make_pod(job, "trainer", 0).unschedulable("0/3 nodes are available"))))
    second = decide(first, observe(make_pod(job, "trainer", 0).unschedulable("0/4 nodes are available")), now=NOW + 1)
    assert (second.status, second.events) == (None, ())
    third = decide(first, observe(make_pod(job, "trainer", 0).creating("ErrImagePull", "no such image")), now=NOW + 2)
    assert [(e.type, e.reason) for e in third.events] == [("Warning", "ErrImagePull")]


EVICTED = {"by the kubelet": lambda p: p.evicted(), "through the API": lambda p: p.disrupted("EvictionByEvictionAPI")}


@pytest.mark.parametrize("change", EVICTED.values(), ids=EVICTED.keys())
def test_an_evicted_replica_is_counted_as_that(change: Callable[[PodBuilder], PodBuilder]) -> None:
    job = make_job().role("trainer", 2, restart="Never", fail="None").build()
    pods = [change(make_pod(job, "trainer", 0)), make_pod(job, "trainer", 1).failed()]
    counts = status_of(decide(job, everything(job, *pods))).replica_statuses["trainer"]
    assert (counts.evicted, counts.failed) == (1, 2)


def test_a_container_that_could_not_be_created_is_named_with_its_node_and_for_how_long() -> None:
    settings = SETTINGS.model_copy(update={"creating_duration_seconds": 60, "creating_restart_seconds": 300})
    job = make_job().role("trainer", 1).build()
    pod = (
        make_pod(job, "trainer", 0)
        .on("node-7")
        .creating("ErrImagePull", "no such image")
        .but(created_at="2026-01-01T00:58:59Z")
    )
    status = status_of(decide(job, observe(pod, make_service(job, "trainer", 0)), settings=settings))
    words = "pod digits-trainer-0 on node node-7 cannot start container aitj-main: ErrImagePull no such image"
    assert f"{words} for 60 s" in condition(status, "Restarting")[2]


# -- pods that do not go ---------------------------------------------------------------------------------------------------

GRACE_OVER = NOW_TEXT
WAS = f"was to be gone by {GRACE_OVER}"
WHO = "a finalizer holds it (see its metadata.finalizers), or nobody on its node answers"
HELD: dict[str, tuple[list[str], float, str, float | None]] = {
    # Where each pod that is asked to go stands ('' nowhere), seconds since its grace was over.
    "nobody is asked to go": ([], 0, "", None),
    "its grace is just over": (["node-a"], 0, "", 10),
    "the kubelet still has a second": (["node-a"], 9, "", 1),
    "it should be gone": (["node-a"], 10, f"pod p0 on node node-a {WAS} and is still there: {WHO}", None),
    "it never had a node": ([""], 10, f"pod p0 {WAS} and is still there: {WHO}", None),
    "two should be": (
        ["node-a", "node-b"],
        60,
        f"pod p0 on node node-a {WAS} and is still there, and 1 more: {WHO}",
        None,
    ),
}


@pytest.mark.parametrize(("nodes", "seconds", "want", "want_next"), HELD.values(), ids=HELD.keys())
def test_a_pod_that_does_not_go(nodes: list[str], seconds: float, want: str, want_next: float | None) -> None:
    job = make_job().role("trainer", 1).build()
    stays = make_pod(job, "trainer", 0).running().build()
    asked_at = to_rfc3339(NOW - 30)  # its grace is 30 s; what counts is when that is over
    pods = [
        make_pod(job, "trainer", 0)
        .running()
        .but(name=f"p{i}", node=node, deletion_asked_at=asked_at)
        .deleting(GRACE_OVER)
        .build()
        for i, node in enumerate(nodes)
    ]
    assert find_held([stays, *reversed(pods)], NOW + seconds) == Held(want, want_next)


# -- what cannot be done ---------------------------------------------------------------------------------------------------


def test_a_refused_spec_is_told_once_with_the_time_and_its_words() -> None:
    job = make_job().role("trainer", 2).spec(restartingExitCode="1,999").parse()
    assert isinstance(job, InvalidJob)
    plan = decide(job)
    status = status_of(plan)
    assert (status.start_time, status.completion_time, status.last_reconcile_time) == (NOW_TEXT, NOW_TEXT, NOW_TEXT)
    assert [(e.type, e.reason) for e in plan.events] == [("Warning", "InvalidSpec")]
    assert plan.events[0].message == condition(status, "Failed")[2]
    assert plan.decisions == (f"refuse the spec: {plan.events[0].message}",)
    assert get_condition(status, "Failed") is not None
    assert all(c.observed_generation == job.generation for c in status.conditions)


def test_a_create_that_fails_is_written_with_the_time_and_not_again_for_the_same_words() -> None:
    job = make_job().role("trainer", 1).build()
    status = report_create_failure(job, NOW, "exceeded quota").status
    assert status is not None
    assert condition(status, "Running") == ("False", "FailedCreate", "exceeded quota")
    assert (status.last_reconcile_time, status.message) == (NOW_TEXT, "exceeded quota")
    assert report_create_failure(replace(job, status=status), NOW + 60, "exceeded quota").empty


# -- labels that somebody has edited ---------------------------------------------------------------------------------------

LABELS: dict[str, str | None] = {
    "no attempt": None,
    "an attempt that is no number": "two",
    "an attempt in other digits": "٣",
}


@pytest.mark.parametrize("text", LABELS.values(), ids=LABELS.keys())
def test_a_pod_without_a_readable_attempt_is_of_the_first(text: str | None) -> None:
    job = make_job().role("trainer", 1).build()
    pod = make_pod(job, "trainer", 0).running()
    others = {k: v for k, v in pod.record.labels.items() if k != "restart-attempt"}
    labelled = pod.but(labels=others if text is None else {**others, "restart-attempt": text})
    plan = decide(job, observe(labelled, make_service(job, "trainer", 0)))
    assert (deleted(plan), created(plan), status_of(plan).phase) == ([], [], "Running")


def test_a_ttl_that_is_over_deletes_the_job_that_was_seen_and_no_successor_of_its_name() -> None:
    job = (
        make_job()
        .role("trainer", 1)
        .run_policy(ttlSecondsAfterFinished=60)
        .status(phase="Succeed", completion_time="2026-01-01T00:59:00Z", observed_generation=1)
        .build()
    )
    why = "ttlSecondsAfterFinished 60 has passed since 2026-01-01T00:59:00Z"
    assert decide(job) == Plan(writes=(Delete("aitrainingjobs", "digits", "uid-of-digits", why=why),), decisions=(why,))
    assert decide(job, now=NOW - 1) == Plan(requeue_after_seconds=1)


# -- bodies ----------------------------------------------------------------------------------------------------------------


def test_a_templates_own_scheduler_goes_before_the_jobs() -> None:
    template = {"spec": {"schedulerName": "mine", "containers": [{"name": "aitj-main", "image": "trainer:1"}]}}
    job = make_job().role("trainer", 1, template=template).spec(schedulerName="the-jobs").build()
    (pod,) = [w for w in decide(job).writes if w.resource == "pods"]
    assert pod.body["spec"]["schedulerName"] == "mine"  # type: ignore[union-attr]


def test_a_service_gives_each_port_by_its_name_to_the_same_port_of_the_pod() -> None:
    job = make_job().role("trainer", 1, ports=(7164, 7165)).build()
    (service,) = [w for w in decide(job).writes if w.resource == "services"]
    assert service.body["spec"]["ports"] == [  # type: ignore[union-attr]
        {"name": "aitj-7164", "port": 7164, "targetPort": 7164},
        {"name": "aitj-7165", "port": 7165, "targetPort": 7165},
    ]
