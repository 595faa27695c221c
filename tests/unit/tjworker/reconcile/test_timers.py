"""Every timer of a job: a second before it is over nothing happens, and the job is looked at again when it is over; in
that very second it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.builders import make_job, make_node, make_pod, make_service, observe
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import ago, children_needed, decide, deleted, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.status import Attempts, JobStatus, RoleAttempts
from tjworker.reconcile.plan import Plan

BOARD_OF = "kubedl.io/tensorboard-config"
BOARD = {BOARD_OF: '{"logDir": "/events"}'}


@dataclass(frozen=True)
class Timer:
    seconds: int
    """How long it takes, as the page or the manifest says."""
    job: Callable[[str], JobBuilder]
    """(when it began)"""
    over: Callable[[Plan], bool]
    """What happens then."""
    world: Callable[[TrainingJob, str], Observed] = lambda job, _: observe()


def _trainer(**spec: object) -> JobBuilder:
    return make_job().role("trainer", 1, restart="Always", scope="Pod").spec(**spec)


def _runs(job: TrainingJob, _: str = "") -> Observed:
    pod = make_pod(job, "trainer").running().on("node-a")
    return observe(pod, make_service(job, "trainer"), make_node("node-a"))


def _running(began: str, **fields: object) -> JobStatus:
    return JobStatus(phase="Running", start_time=began, start_running_time=began, observed_generation=1).model_copy(
        update=fields
    )


def _ended(began: str, **fields: object) -> JobStatus:
    """Everything else of it was earlier or later than its end."""
    other = {"start_time": ago(9000), "start_running_time": ago(8000), "last_reconcile_time": ago(0)}
    return JobStatus(phase="Succeed", completion_time=began, observed_generation=1).model_copy(
        update={**other, **fields}
    )


def _ends(phase: str, reason: str) -> Callable[[Plan], bool]:
    def over(plan: Plan) -> bool:
        end = plan.status.ending if plan.status is not None else None
        return end is not None and (end.phase, end.reason) == (phase, reason)

    return over


def _replaces(plan: Plan) -> bool:
    return deleted(plan) == ["digits-trainer-0"]


TIMERS: dict[str, Timer] = {
    "timeLimit, from the first Running": Timer(
        600,
        lambda at: _trainer(timeLimit=600).status(_running(at, start_time=ago(5000))),
        _ends("Timeout", "TimeLimitExceeded"),
        _runs,
    ),
    "activeDeadlineSeconds, from the start": Timer(
        700,
        lambda at: _trainer(runPolicy={"activeDeadlineSeconds": 700}).status(_running(at, start_running_time=ago(5))),
        _ends("Failed", "DeadlineExceeded"),
        _runs,
    ),
    "timeLimit of a job that was suspended before its first run and after it": Timer(
        600 + 20,
        lambda at: _trainer(timeLimit=600).status(
            _running(at, start_time=ago(5000), suspended_seconds=50, suspended_seconds_before_running=30)
        ),
        _ends("Timeout", "TimeLimitExceeded"),
        _runs,
    ),
    "ttlSecondsAfterFinished, from the end": Timer(
        60,
        lambda at: _trainer(runPolicy={"ttlSecondsAfterFinished": 60}).status(_ended(at)),
        lambda plan: [w.name for w in plan.writes] == ["digits"],
    ),
    "the time of an ended job's TensorBoard": Timer(
        0,
        lambda at: _trainer().annotate(BOARD).status(_ended(ago(300), tensorboard_until=at)),
        lambda plan: children_needed(plan) == ("pods/digits-tensorboard-0", "services/digits-tensorboard-0"),
    ),
    "a container that cannot be created, from its node": Timer(
        900,
        lambda at: _trainer().status(_running(ago(5000), phase="Creating", start_running_time=None)),
        _replaces,
        lambda job, at: observe(
            make_pod(job, "trainer").on("node-a").creating("ErrImagePull").but(scheduled_at=at, created_at=ago(3000)),
            make_service(job, "trainer"),
            make_node("node-a"),
        ),
    ),
    "a node that is not Ready": Timer(
        30,
        lambda at: _trainer().status(_running(ago(5000))),
        _replaces,
        lambda job, at: observe(
            make_pod(job, "trainer").running().on("node-a").but(scheduled_at=ago(4000)),
            make_service(job, "trainer"),
            make_node("node-a").not_ready(since=at),
        ),
    ),
    "the rest of a replica that fails again and again": Timer(
        0,
        lambda at: _trainer().status(
            _running(
                ago(5000),
                phase="Restarting",
                attempts=Attempts(
                    roles={"trainer": RoleAttempts(pods={"0": 3}, crashes={"3": "0"}, resting={at: "0"})}
                ),
            )
        ),
        _replaces,
        lambda job, _: observe(
            make_pod(job, "trainer", 0, 2).failed().on("node-a"), make_service(job, "trainer"), make_node("node-a")
        ),
    ),
    "a pod that does not go, ten seconds after its grace": Timer(
        10,
        lambda at: _trainer(suspend=True).status(_running(ago(5000))),
        lambda plan: "and is still there" in status_of(plan).message,
        lambda job, at: observe(make_pod(job, "trainer").running().on("node-a").deleting(at), make_node("node-a")),
    ),
}


def _plan(timer: Timer, left: float) -> Plan:
    began = ago(timer.seconds - left)
    job = timer.job(began).build()
    return decide(job, timer.world(job, began))


@pytest.mark.parametrize("timer", TIMERS.values(), ids=TIMERS.keys())
def test_it_happens_in_its_second_and_not_one_earlier(timer: Timer) -> None:
    before = _plan(timer, left=1)
    assert not timer.over(before)
    assert before.requeue_after_seconds == 1, "the job is looked at again when it is over"
    assert timer.over(_plan(timer, left=0))
    assert timer.over(_plan(timer, left=-100)), "and later, whoever was away meanwhile"


@pytest.mark.parametrize(("ttl", "board", "want"), [(50, 70, 50), (70, 50, 50), (None, 50, 50), (50, None, 50)])
def test_the_pass_that_ends_a_job_comes_back_for_the_sooner_of_what_goes(
    ttl: int | None, board: int | None, want: int
) -> None:
    builder = _trainer(runPolicy={} if ttl is None else {"ttlSecondsAfterFinished": ttl})
    if board is not None:
        builder = builder.annotate({BOARD_OF: f'{{"logDir": "/events", "ttlSecondsAfterJobFinished": {board}}}'})
    job = builder.annotate({"Failed": "enough"}).status(_running(ago(5000))).build()
    plan = decide(job)
    assert (status_of(plan).phase, plan.requeue_after_seconds) == ("Failed", want)
    assert status_of(plan).tensorboard_until == (None if board is None else ago(-board))
