"""What a job must never run into: a wedge, a storm, a miscount, a status that grows or flaps."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from tests.builders import PodBuilder, make_job, make_node, make_pod, make_service, observe
from tests.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import NOW, SETTINGS, World, created, decide, deleted, everything, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import to_rfc3339


def ago(seconds: float) -> str:
    return to_rfc3339(NOW - seconds)


def running(**role: Any) -> World:
    return World(make_job().role("trainer", 2, **role).build()).settle().all("running").settle()


# -- one moment, several failures ---------------------------------------------------------------------------------------


@dataclass
class Together:
    codes: tuple[int, int]
    want_phase: str


TOGETHER = {
    "both retryable: one restart": Together((137, 134), "Running"),
    "the first permanent: the job fails": Together((1, 134), "Failed"),
    "the second permanent: the job fails all the same": Together((134, 1), "Failed"),
}


@pytest.mark.parametrize("scope", ["Pod", "Replica", "All"])
@pytest.mark.parametrize("case", TOGETHER.values(), ids=TOGETHER.keys())
def test_pods_that_fail_together_end_the_job_when_one_of_them_would(case: Together, scope: str) -> None:
    world = running(restart="ExitCode", scope=scope)
    for index, code in enumerate(case.codes):
        world.set(f"digits-trainer-{index}", "failed", exit_code=code)
    world.settle().all("running").settle()
    assert world.job.status.phase == case.want_phase
    if case.want_phase == "Failed":
        assert world.job.status.ending is not None
        assert "code 1; " in world.job.status.ending.message
        assert world.job.status.restarts == 0
        assert {f.exit_code for f in world.job.status.failures} == set(case.codes)


def test_of_many_failures_at_once_the_first_are_kept() -> None:
    job = (
        make_job()
        .role("trainer", 20, restart="OnFailure", scope="All")
        .status(phase="Running", start_time=ago(900))
        .build()
    )
    pods = [make_pod(job, "trainer", i).failed(exit_code=134).containers(finished_at=ago(1)) for i in range(20)]
    pods[17] = make_pod(job, "trainer", 17).failed(exit_code=1).containers(finished_at=ago(3))
    status = status_of(decide(job, everything(job, *pods)))
    assert len(status.failures) == 10
    assert (status.failures[-1].pod, status.failures[-1].exit_code) == ("digits-trainer-17", 1)


# -- disruptions: the same outcome whenever we look ------------------------------------------------------------------------

LOOKS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "while it runs out its grace": lambda p: p.running().deleting(ago(-30)).but(disruption="PreemptionByScheduler"),
    "after it has failed": lambda p: p.disrupted("PreemptionByScheduler"),
    "after it has failed, still there": lambda p: (
        p.disrupted("PreemptionByScheduler")
        .deleting(ago(-20))
        .but(deletion_asked_at=ago(10))
        .containers(finished_at=ago(5))
    ),
    "after it has saved its state and exited with 0": lambda p: (
        p.succeeded()
        .deleting(ago(-20))
        .but(disruption="PreemptionByScheduler", deletion_asked_at=ago(10))
        .containers(finished_at=ago(5))
    ),
}


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "OnNodeFail"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_preempted_pod_comes_to_the_same_whenever_it_is_seen(look: str, policy: str) -> None:
    job = (
        make_job().role("trainer", 2, restart=policy, scope="Pod").status(phase="Running", start_time=ago(900)).build()
    )
    pod = LOOKS[look](make_pod(job, "trainer", 1).on("node-a"))
    status = status_of(decide(job, everything(job, make_pod(job, "trainer", 0).running(), pod)))
    if policy == "Never":
        assert status.ending is not None
    else:
        assert status.restart_counts["trainer"].preemption == 1


def test_a_trainer_that_exits_with_0_because_it_is_told_to_go_has_not_succeeded() -> None:
    world = running(restart="Never")
    pod = world.pods["digits-trainer-1"].succeeded().deleting(ago(-20)).but(deletion_asked_at=ago(10))
    world.pods["digits-trainer-1"] = pod.containers(finished_at=ago(5))
    world.step()
    assert world.job.status.attempts.roles["trainer"].completed == ""
    assert world.job.status.restart_counts["trainer"].user == 1


def test_a_success_that_somebody_deletes_afterwards_stays_a_success() -> None:
    world = running(restart="Never")
    pod = world.pods["digits-trainer-1"].succeeded().deleting(ago(5)).but(deletion_asked_at=ago(5))
    world.pods["digits-trainer-1"] = pod.containers(finished_at=ago(60))
    world.step()
    assert world.job.status.attempts.roles["trainer"].completed == "1"


# -- scaling ---------------------------------------------------------------------------------------------------------------


def scaled(world: World, replicas: int, **role: Any) -> World:
    world.job = make_job().role("trainer", replicas, **role).status(world.job.status).build()
    return world


def test_scaling_down_and_up_again_before_the_pods_are_gone_is_nobodys_restart() -> None:
    world = running()
    pod = world.pods["digits-trainer-1"]
    scaled(world, 1).step()
    world.pods["digits-trainer-1"] = pod.deleting(ago(-30))
    scaled(world, 2).step()
    assert (world.job.status.phase, world.job.status.restarts) == ("Scaling", 0)
    world.pods.pop("digits-trainer-1")
    world.settle().all("running").settle()
    assert (world.job.status.phase, world.job.status.restarts, len(world.pods)) == ("Running", 0, 2)


def test_an_index_that_has_succeeded_is_not_run_again_after_scaling_down_and_up() -> None:
    world = World(make_job().role("trainer", 3).build()).settle().all("running").settle()
    world.set("digits-trainer-2", "succeeded").settle()
    scaled(world, 2).settle()
    made = list(world.created)
    scaled(world, 3).settle()
    assert world.created == made
    assert world.job.status.replica_statuses["trainer"].succeeded == 1


def test_nor_when_another_has_succeeded_in_between() -> None:
    world = World(make_job().role("trainer", 3).build()).settle().all("running").settle()
    world.set("digits-trainer-2", "succeeded").settle()
    scaled(world, 2).settle().set("digits-trainer-0", "succeeded").settle()
    made = list(world.created)
    scaled(world, 3).settle()
    assert (world.created, world.job.status.attempts.roles["trainer"].completed) == (made, "0,2")


@pytest.mark.parametrize("policy", ["All", "Any"])
def test_scaling_the_trainers_to_none_is_no_success(policy: str) -> None:
    def job(trainers: int) -> JobBuilder:
        return make_job().role("ps", 1, complete="None").role("trainer", trainers).spec(completePolicy=policy)

    world = World(job(2).build()).settle().all("running").settle()
    world.job = job(0).status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Running"
    world.job = job(2).status(world.job.status).build()
    world.settle().all("running").settle()
    assert (world.job.status.phase, len(world.pods)) == ("Running", 3)


@dataclass
class While:
    """Scaled from 2 to 3, while."""

    builder: Callable[[int], JobBuilder]
    prepare: Callable[[World], object]
    want_phase: str
    want_pods: int


def plain(replicas: int) -> JobBuilder:
    return make_job().role("trainer", replicas, restart="OnFailure", scope="All")


WHILE = {
    "it is Pending": While(plain, lambda w: w, "Running", 3),
    "it is Running": While(plain, lambda w: w.all("running").settle(), "Running", 3),
    "it is Restarting": While(
        plain, lambda w: w.all("running").settle().set("digits-trainer-0", "failed").step(), "Running", 3
    ),
    "it is Suspended": While(lambda n: plain(n).suspended(), lambda w: w, "Suspended", 0),
    "it is Terminating": While(plain, lambda w: w.all("running").settle().all("succeeded").step(), "Succeed", 0),
    "it has ended": While(plain, lambda w: w.all("running").settle().all("succeeded").settle(), "Succeed", 0),
}


@pytest.mark.parametrize("case", WHILE.values(), ids=WHILE.keys())
def test_scaling_in_every_phase(case: While) -> None:
    world = World(case.builder(2).build()).settle()
    case.prepare(world)
    world.job = case.builder(3).status(world.job.status).build()
    world.settle().all("running").settle()
    status = world.job.status
    assert (status.phase, len(world.pods)) == (case.want_phase, case.want_pods)
    if case.want_phase in ("Running", "Suspended"):
        assert [(r.from_, r.to) for r in status.scale_records] == [(2, 3)]
        assert status.replica_statuses["trainer"].desired == 3


# -- suspension ------------------------------------------------------------------------------------------------------------


def test_a_job_made_suspended_begins_with_its_first_attempt() -> None:
    base = make_job().role("trainer", 1)
    world = World(base.suspended().build()).settle()
    world.job = base.status(world.job.status).build()
    world.settle()
    assert world.attempts() == {"digits-trainer-0": 0}


def test_a_job_suspended_while_it_restarts_comes_back_and_keeps_its_counts() -> None:
    base = make_job().role("trainer", 2, restart="OnFailure", scope="All", limit=1)
    world = World(base.build()).settle().all("running").settle().set("digits-trainer-0", "failed", exit_code=1)
    world.step()
    assert world.job.status.phase == "Restarting"
    world.job = base.suspended().status(world.job.status).build()
    world.settle()
    assert (world.job.status.phase, world.pods) == ("Suspended", {})
    world.job = base.status(world.job.status).build()
    world.settle().all("running").settle()
    assert (world.job.status.phase, world.job.status.restarts) == ("Running", 1)


def test_a_replica_that_has_failed_for_good_stays_so_through_a_suspension() -> None:
    base = make_job().role("trainer", 2, restart="Never", fail="All")
    world = World(base.build()).settle().all("running").settle().set("digits-trainer-1", "failed", exit_code=1).settle()
    assert world.job.status.attempts.roles["trainer"].failed == "1"
    for builder in (base.suspended(), base):
        world.job = builder.status(world.job.status).build()
        world.settle()
    assert (sorted(world.pods), world.job.status.attempts.roles["trainer"].failed) == (["digits-trainer-0"], "1")
    world.set("digits-trainer-0", "failed", exit_code=1).settle()
    assert world.job.status.phase == "Failed", "each of the two has failed, one of them before"


def test_suspending_a_job_that_terminates_changes_nothing() -> None:
    base = make_job().role("trainer", 1)
    world = World(base.build()).settle().all("running").settle().all("succeeded")
    world.step()
    world.job = base.suspended().status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Succeed"


def test_a_suspended_job_can_be_ended_by_an_annotation() -> None:
    base = make_job().role("trainer", 1).suspended()
    world = World(base.build()).settle()
    world.job = base.annotate({"Preempted": "for good"}).status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Preempted"


def test_an_annotation_goes_before_a_completion_of_the_same_moment() -> None:
    world = running().all("succeeded")
    world.job = make_job().role("trainer", 2).annotate({"Failed": "no"}).status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Failed"
    assert world.job.status.replica_statuses["trainer"].succeeded == 2


def test_a_time_limit_that_passes_while_the_job_ends_changes_nothing() -> None:
    base = make_job().role("trainer", 1).spec(timeLimit=60)
    world = World(base.build()).settle().all("running").settle().all("succeeded")
    world.step()
    world.now += 100
    world.settle()
    assert world.job.status.phase == "Succeed"


# -- nodes -----------------------------------------------------------------------------------------------------------------


def test_an_ended_pod_that_hangs_in_deletion_on_a_lost_node_is_forced_out_and_not_taken_for_a_lost_one() -> None:
    job = (
        make_job()
        .role("trainer", 1, restart="OnFailure", scope="Pod")
        .status(phase="Running", start_time=ago(900))
        .build()
    )
    failed = make_pod(job, "trainer", 0).on("node-b").failed(exit_code=3)
    first = status_of(decide(job, everything(job, failed)))
    going = make_job().role("trainer", 1, restart="OnFailure", scope="Pod").status(first).build()
    seen = observe(
        make_pod(going, "trainer", 0).on("node-b").failed(exit_code=3).deleting(ago(60)).but(created_at=ago(900)),
        make_node("node-b").not_ready(ago(60)),
        make_service(going, "trainer", 0),
        seen={"nodes": 1},
    )
    plan = decide(going, seen)
    assert [(w.name, getattr(w, "grace_seconds", None)) for w in plan.writes] == [("digits-trainer-0", 0)]
    assert (plan.status or first).restart_counts["trainer"].application == 1


def test_a_pod_put_onto_a_sick_node_has_a_grace_of_its_own() -> None:
    job = (
        make_job()
        .role("trainer", 1, restart="Always", scope="Pod")
        .status(phase="Running", start_time=ago(900))
        .build()
    )
    young = make_pod(job, "trainer", 0).on("node-b").running().but(created_at=ago(2))
    sick = make_node("node-b").not_ready(ago(600))
    plan = decide(job, observe(young, sick, make_service(job, "trainer", 0), seen={"nodes": 1}))
    assert deleted(plan) == []
    assert plan.requeue_after_seconds == SETTINGS.node_failure_grace_seconds - 2


def test_a_pod_that_was_forced_out_and_hangs_on_a_finalizer_is_not_asked_to_go_again_and_again() -> None:
    job = (
        make_job()
        .role("trainer", 1, restart="Always", scope="Pod")
        .status(phase="Running", start_time=ago(900))
        .build()
    )

    def plan(asked_at: str) -> list[str]:
        pod = make_pod(job, "trainer", 0).on("node-b").running().deleting(ago(5)).but(deletion_asked_at=asked_at)
        node = make_node("node-b").not_ready(ago(60))
        first = status_of(decide(job, observe(pod, node, make_service(job, "trainer", 0), seen={"nodes": 1})))
        going = make_job().role("trainer", 1, restart="Always", scope="Pod").status(first).build()
        return deleted(decide(going, observe(pod, node, make_service(job, "trainer", 0), seen={"nodes": 1})))

    assert plan(ago(35)) == ["digits-trainer-0"]
    assert plan(ago(5)) == []


@dataclass
class Fault:
    created_at: str
    want_replaced: bool


FAULTS = {
    "a pod that was there when it came is replaced": Fault(ago(600), True),
    "a pod that was put there in spite of it is left alone": Fault(ago(60), False),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS.keys())
def test_a_gpu_fault_of_a_node_replaces_each_pod_once(case: Fault) -> None:
    job = (
        make_job()
        .role("trainer", 1, restart="Always", scope="Pod")
        .status(phase="Running", start_time=ago(900))
        .build()
    )
    pod = make_pod(job, "trainer", 0).on("node-b").running().but(created_at=case.created_at, gpus={"nvidia.com/gpu": 1})
    node = (
        make_node("node-b", **{"nvidia.com/gpu": "8"})
        .condition("GPUFault", "Xid 79")
        .but(condition_since={"GPUFault": ago(300)})
    )
    plan = decide(job, observe(pod, node, make_service(job, "trainer", 0), seen={"nodes": 1}))
    assert (deleted(plan) == ["digits-trainer-0"]) is case.want_replaced


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError", "NodeShutdown"])
def test_a_pod_that_the_kubelet_turns_away_uses_up_no_limit(reason: str) -> None:
    job = make_job().role("trainer", 1, restart="OnFailure", scope="Pod", limit=0).build()
    pod = make_pod(job, "trainer", 0).on("node-a").but(phase="Failed", reason=reason, containers=())
    status = status_of(decide(job, everything(job, pod)))
    assert status.ending is None
    assert status.restart_counts["trainer"].node == 1


# -- quiet, and small ------------------------------------------------------------------------------------------------------

QUIET: dict[str, tuple[str, Callable[[PodBuilder], PodBuilder], Callable[[PodBuilder], PodBuilder]]] = {
    "Pending, while the scheduler counts other nodes": (
        "",
        lambda p: p.unschedulable("0/41 nodes are available: 41 Insufficient cpu."),
        lambda p: p.unschedulable("0/43 nodes are available: 43 Insufficient cpu."),
    ),
    "Creating, while nothing happens": ("", lambda p: p.creating(), lambda p: p.creating()),
    "Creating, while the image is pulled in vain": (
        "",
        lambda p: p.creating("ImagePullBackOff", "Back-off 10s"),
        lambda p: p.creating("ImagePullBackOff", "Back-off 20s"),
    ),
    "Restarting, while the scheduler counts other nodes": (
        "Restarting",
        lambda p: p.unschedulable("0/41 nodes are available: 41 Insufficient cpu."),
        lambda p: p.unschedulable("0/43 nodes are available: 43 Insufficient cpu."),
    ),
}


@pytest.mark.parametrize("case", QUIET.values(), ids=QUIET.keys())
def test_a_job_that_waits_is_written_no_times(case: Any) -> None:
    phase, before, after = case
    job = make_job().role("trainer", 2).status(phase=phase, start_time=ago(900)).build()

    def pods(change: Callable[[PodBuilder], PodBuilder]) -> Any:
        return everything(job, make_pod(job, "trainer", 0).running(), change(make_pod(job, "trainer", 1)))

    first = decide(job, pods(before))
    waiting = make_job().role("trainer", 2).status(first.status or job.status).build()
    assert decide(waiting, pods(before), now=NOW + 5).status is None
    assert decide(waiting, pods(after), now=NOW + 60).status is None
    other = decide(
        waiting,
        everything(
            job, make_pod(job, "trainer", 0).running(), make_pod(job, "trainer", 1).unschedulable("no such GPU")
        ),
        now=NOW + 60,
    )
    assert "no such GPU" in status_of(other).message


def big(replicas: int = 10_000, **role: Any) -> TrainingJob:
    base = make_job("a-name-of-some-length").role("trainer", replicas, **role)
    return base.status(phase="Running", start_time=ago(90000)).build()


BIG: dict[str, tuple[dict[str, Any], Callable[[PodBuilder, int], PodBuilder]]] = {
    "every pod restarts by itself": ({"restart": "OnFailure", "scope": "Pod"}, lambda p, i: p.failed()),
    "every second pod has failed for good": ({"fail": "None"}, lambda p, i: p.failed() if i % 2 else p.running()),
    "every second pod has succeeded": ({}, lambda p, i: p.succeeded() if i % 2 else p.running()),
    "no image can be pulled": ({}, lambda p, i: p.creating("ImagePullBackOff").but(created_at=ago(2000 + i // 100))),
    "nothing has a node": ({}, lambda p, i: p.unschedulable()),
}


@pytest.mark.parametrize("case", BIG.values(), ids=BIG.keys())
def test_a_pass_over_10_000_replicas_takes_seconds_and_its_status_stays_far_below_a_mebibyte(case: Any) -> None:
    """Half of what etcd takes for an object; and a pass that ran into the soft time limit would never come to its end."""
    role, change = case
    job = big(**role)
    seen = observe(*(change(make_pod(job, "trainer", i).on("node-a"), i) for i in range(10_000)))
    began = time.process_time()
    plan = decide(job, seen)
    assert time.process_time() - began < 40  # 1 s on a usual machine
    assert len(orjson.dumps(status_of(plan).to_json())) < 256 * 1024
    assert len(plan.writes) <= SETTINGS.writes_per_pass


# -- what the one line says ------------------------------------------------------------------------------------------------


@dataclass
class Line:
    prepare: Callable[[World], object]
    want: str


def _unschedulable(world: World) -> None:
    world.pods["digits-trainer-0"] = world.pods["digits-trainer-0"].unschedulable("0/2 nodes are available.")
    world.settle()


def _restart_without_room(world: World) -> None:
    world.all("running").settle().set("digits-trainer-0", "failed", exit_code=3).settle()
    _unschedulable(world)


LINES = {
    "Pending: the scheduler's words": Line(
        _unschedulable, "pod digits-trainer-0 has no node: 0/2 nodes are available."
    ),
    "Restarting: why, and what it still waits for": Line(
        _restart_without_room,
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 3; restart, scope Pod; "
        "pod digits-trainer-0 has no node: 0/2 nodes are available.",
    ),
    "Running": Line(lambda w: w.all("running").settle(), "every desired replica runs"),
    "Succeed": Line(lambda w: w.all("succeeded").settle(), "all roles are complete (trainer 1/1)"),
}


@pytest.mark.parametrize("case", LINES.values(), ids=LINES.keys())
def test_the_message_of_the_status_says_why(case: Line) -> None:
    world = World(make_job().role("trainer", 1, restart="OnFailure", scope="Pod").build()).settle()
    case.prepare(world)
    assert world.job.status.message == case.want


def test_an_ended_jobs_message_is_that_of_its_end() -> None:
    job = make_job().role("trainer", 1).annotate({"NodeFail": "node-3 burns"}).build()
    world = World(job).settle()
    assert (world.job.status.phase, world.job.status.message) == ("NodeFail", "node-3 burns")


def test_the_status_after_any_pass_can_be_read_back() -> None:
    world = running(restart="OnFailure", scope="Pod")
    world.set("digits-trainer-0", "failed", exit_code=3).settle()
    status = world.job.status
    assert JobStatus.model_validate(orjson.loads(orjson.dumps(status.to_json()))) == status
    assert (
        created(decide(replace(world.job, status=status), observe(*world.pods.values(), *world.services.values())))
        == []
    )
