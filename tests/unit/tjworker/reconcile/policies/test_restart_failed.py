"""Which failures start a pod again: exit codes, scopes, counts. Policy x scope x ending, and the limits, are tables of
docs/lifecycle.md, which test_lifecycle_page plays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

import pytest

from tests.support.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import World, created, decide, everything, status_of
from tjworker.api.observed import ContainerRecord


def test_one_permanent_exit_code_among_retryable_ones_is_permanent() -> None:
    job = make_job().role("trainer", 1, restart="ExitCode", scope="Pod", containers=("aitj-a", "aitj-b")).build()
    pod = make_pod(job, "trainer", 0).failed(exit_code=137, container="aitj-a")
    both = pod.but(
        containers=tuple(
            c if c.name == "aitj-a" else ContainerRecord(c.name, state="terminated", exit_code=2)
            for c in pod.build().containers
        )
    )
    assert status_of(decide(job, everything(job, pod))).ending is None
    assert status_of(decide(job, everything(job, both))).ending is not None


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_pod_that_failed_first_is_named_as_the_cause_whichever_its_index(order: tuple[int, ...]) -> None:
    world = World(make_job().role("trainer", 3, restart="Never").build()).settle().all("running").settle()
    for index, after in enumerate(order):
        ended = int(world.now + 10 * after)
        name = f"digits-trainer-{index}"
        world.set(name, "failed", exit_code=1)
        ends = tuple(replace(c, finished_at=ended) for c in world.record(name).containers)
        world.set(name, "but", containers=ends)
    ending = status_of(world.step()).ending
    assert ending is not None
    assert f"digits-trainer-{order.index(0)} " in ending.message


@dataclass
class Reached:
    """trainer-1 fails with an exit code that is worth a restart. In the same moment another pod comes to this end."""

    pod: str
    ends: str
    exit_code: int
    anew: tuple[str, ...]
    """Scopes of the restart with which the other pod's replica is made again."""


REACHED = {
    "a failure for good in the role that restarts": Reached("trainer-0", "failed", 1, ("Replica", "All")),
    "a success in the role that restarts": Reached("trainer-0", "succeeded", 0, ("Replica", "All")),
    "a failure for good of a replica of a higher index": Reached("trainer-2", "failed", 1, ("Replica", "All")),
    "a failure for good in another role": Reached("eval-0", "failed", 1, ("All",)),
    "a success in another role": Reached("eval-0", "succeeded", 0, ("All",)),
}


@pytest.mark.parametrize("scope", ["Pod", "Replica", "All"])
@pytest.mark.parametrize("case", REACHED.values(), ids=REACHED.keys())
def test_a_new_attempt_forgets_how_other_replicas_have_ended_in_the_moment_of_the_restart(
    case: Reached, scope: str
) -> None:
    builder = make_job().role("trainer", 3, restart="ExitCode", scope=scope, fail="All")
    world = World(builder.role("eval", 2, restart="Never", fail="All").build()).settle().all("running").settle()
    arguments = {"exit_code": case.exit_code} if case.exit_code else {}
    world.set("digits-trainer-1", "failed", exit_code=137).set(f"digits-{case.pod}", case.ends, **arguments)
    world.created.clear()
    world.settle()
    for name in world.created:
        world.set(name, "running")
    world.settle()
    assert "digits-trainer-1" in world.created
    assert (f"digits-{case.pod}" in world.created) is (scope in case.anew)
    assert world.job.status.phase == "Running"


@pytest.mark.parametrize(
    ("for_good", "want_phase", "want_restarts"),
    [((), "Restarting", 1), (("a",), "Restarting", 1), (("b",), "Restarting", 1), (("a", "b"), "Terminating", 0)],
    ids=["none", "the first", "the second", "both"],
)
def test_failures_for_good_that_end_the_job_together_go_before_a_restart(
    for_good: tuple[str, ...], want_phase: str, want_restarts: int
) -> None:
    """Roles a and b must both have failed for the job to fail; a pod of c fails with them, and is worth a restart."""
    builder = make_job().spec(failPolicy="All").role("a", restart="Never").role("b", restart="Never")
    world = World(builder.role("c", restart="Always", scope="Pod", fail="None", complete="None").build())
    world.settle().all("running").settle()
    for role in (*for_good, "c"):
        world.set(f"digits-{role}-0", "failed", exit_code=1)
    status = status_of(world.step())
    assert (status.phase, status.restarts) == (want_phase, want_restarts)


@dataclass
class Whose:
    """A ps and a trainer, replaced pod by pod. They fail in this order, one after the other."""

    fail: tuple[str, ...]
    want_reason: str = ""
    """Of the end; '' for a job that runs on."""
    trainer_limit: int | None = None
    backoff_limit: int | None = None


WHOSE = {
    "restartLimit does not count the restarts of another role": Whose(("ps", "ps", "trainer"), trainer_limit=1),
    "restartLimit counts those of its own": Whose(("trainer", "ps", "trainer"), "RestartLimitReached", trainer_limit=1),
    "backoffLimit counts those of all roles": Whose(("ps", "trainer", "ps"), "BackoffLimitExceeded", backoff_limit=2),
    "the role's own limit is named where both are used up": Whose(
        ("trainer", "trainer"), "RestartLimitReached", trainer_limit=1, backoff_limit=1
    ),
}


@pytest.mark.parametrize("case", WHOSE.values(), ids=WHOSE.keys())
def test_whose_restarts_a_limit_counts(case: Whose) -> None:
    builder = make_job().role("ps", 1, restart="OnFailure", scope="Pod")
    builder = builder.role("trainer", 1, restart="OnFailure", scope="Pod", limit=case.trainer_limit)
    if case.backoff_limit is not None:
        builder = builder.run_policy(backoffLimit=case.backoff_limit)
    world = World(builder.build()).settle().all("running").settle()
    for role in case.fail:
        assert world.job.status.phase == "Running", "no limit may be used up before the last of them"
        world.set(f"digits-{role}-0", "failed", exit_code=1).settle().all("running").settle()
    ending = world.job.status.ending
    assert (world.job.status.phase, ending.reason if ending else "") == (
        "Failed" if case.want_reason else "Running",
        case.want_reason,
    )


@dataclass
class Waves:
    """Pods of a ps and of a trainer, three of each, fail in waves: at once those of one wave, which any pass sees
    together."""

    waves: tuple[tuple[str, ...], ...]
    """`trainer-0`."""
    want_counts: dict[str, int]
    """Restarts when the job has ended."""
    trainer_limit: int | None = None
    backoff_limit: int | None = None


WAVES = {
    "restartLimit 2, three fail at once": Waves((("trainer-0", "trainer-1", "trainer-2"),), {"trainer": 2}, 2),
    "restartLimit 2, one, then two at once": Waves((("trainer-0",), ("trainer-1", "trainer-2")), {"trainer": 2}, 2),
    "restartLimit 3, two at once, twice": Waves((("trainer-0", "trainer-1"),) * 2, {"trainer": 3}, 3),
    "backoffLimit 2, three of two roles at once": Waves(
        (("ps-0", "trainer-0", "trainer-1"),), {"ps": 1, "trainer": 1}, backoff_limit=2
    ),
    "backoffLimit 3, one of each role, and the same again with one more": Waves(
        (("ps-0", "trainer-0"), ("ps-0", "trainer-0")), {"ps": 2, "trainer": 1}, backoff_limit=3
    ),
}


@pytest.mark.parametrize("case", WAVES.values(), ids=WAVES.keys())
def test_no_limit_is_overrun_however_many_fail_at_once(case: Waves) -> None:
    builder = make_job().role("ps", 3, restart="OnFailure", scope="Pod")
    builder = builder.role("trainer", 3, restart="OnFailure", scope="Pod", limit=case.trainer_limit)
    if case.backoff_limit is not None:
        builder = builder.run_policy(backoffLimit=case.backoff_limit)
    world = World(builder.build()).settle().all("running").settle()
    for wave in case.waves:
        assert world.job.status.phase == "Running", "no limit may be used up before the last wave"
        for pod in wave:
            world.set(f"digits-{pod}", "failed", exit_code=1)
        world.settle().all("running").settle()
    assert world.job.status.phase == "Failed"
    counts = {role: count.application for role, count in world.job.status.restart_counts.items()}
    assert counts == case.want_counts


@pytest.mark.parametrize("waves", [(30,), (1, 29), (10, 10, 10), (4, 0, 20, 0, 6)], ids=str)
def test_every_pod_that_is_deleted_is_counted_however_they_are_seen_to_go(waves: tuple[int, ...]) -> None:
    """With grace 0, so that nothing of them is left to see; the job is Restarting from the first wave on."""
    job = make_job().role("trainer", 30, restart="OnFailure", scope="Pod").build()
    world = World(job).settle().all("running").settle()
    names = iter(sorted(world.pods))
    for wave in waves:
        for _ in range(wave):
            world.lose(next(names))
        world.step()
        world.step()
    world.settle().all("running").settle()
    assert world.job.status.phase == "Running"
    assert world.job.status.restart_counts["trainer"].user == 30
    assert world.job.status.attempts.roles["trainer"].ran == "", "a job that runs has no list to keep"
    world.settle()
    assert world.job.status.restart_counts["trainer"].user == 30


def test_a_pod_that_vanishes_while_the_job_starts_is_counted_and_one_that_was_never_made_is_not() -> None:
    job = make_job().role("trainer", 3, restart="OnFailure", scope="Pod").build()
    world = World(job).settle()
    world.set("digits-trainer-1", "running")
    world.step()
    world.lose("digits-trainer-1")
    world.lose("digits-trainer-2")
    world.settle().all("running").settle()
    assert (world.job.status.phase, world.job.status.restart_counts["trainer"].user) == ("Running", 1)


def test_a_new_attempt_of_the_whole_job_waits_for_the_last_pod_of_the_old_one() -> None:
    job = make_job().role("ps", 1).role("trainer", 2, restart="OnFailure", scope="All").build()
    world = World(job).settle().all("running").settle()
    world.set("digits-trainer-1", "failed")
    plan = decide(world.job, everything(job, *world.pods.values()))
    job2 = make_job().role("ps", 1).role("trainer", 2, restart="OnFailure", scope="All").status(status_of(plan)).build()
    slow = make_pod(job2, "ps", 0).running().deleting()
    assert created(decide(job2, everything(job2, slow))) == []
    assert len(created(decide(job2, everything(job2)))) == 3


def test_a_failure_says_pod_node_container_code_and_asks_for_the_log() -> None:
    job = make_job().role("trainer", 1, restart="OnFailure", scope="Pod").build()
    plan = decide(job, everything(job, make_pod(job, "trainer", 0).on("node-7").failed(exit_code=3)))
    failure = status_of(plan).failures[0]
    assert (failure.pod, failure.node, failure.container, failure.exit_code) == (
        "digits-trainer-0",
        "node-7",
        "aitj-main",
        3,
    )
    assert [(t.pod, t.container) for t in plan.log_tails] == [("digits-trainer-0", "aitj-main")]


def test_of_two_containers_that_failed_the_one_that_ended_first_is_why() -> None:
    """What ends last is most often what was waiting for the first."""
    job = make_job().role("trainer", 1, restart="OnFailure", scope="Pod", containers=("aitj-a", "aitj-b")).build()
    pod = make_pod(job, "trainer", 0).failed(exit_code=1)
    ends = {"aitj-a": (1, 1767226205), "aitj-b": (137, 1767226200)}
    both = pod.but(
        containers=tuple(
            replace(c, exit_code=ends[c.name][0], finished_at=ends[c.name][1]) for c in pod.build().containers
        )
    )
    failure = status_of(decide(job, everything(job, both))).failures[0]
    assert (failure.container, failure.exit_code, failure.time) == ("aitj-b", 137, "2026-01-01T00:10:00Z")
