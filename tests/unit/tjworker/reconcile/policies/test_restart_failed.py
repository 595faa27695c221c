"""Which failures start a pod again: exit codes, scopes, counts. Policy x scope x ending, and the limits, are tables of
docs/lifecycle.md, which test_lifecycle_page plays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import permutations

import pytest

from tests.support.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import World, created, decide, deleted, everything, running, status_of
from tjworker.api.observed import ContainerRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile.rests import LONGEST_SECONDS


@dataclass
class ExitCode:
    codes: str | None
    exit_code: int
    want_restart: bool


EXIT_CODES = {
    "without a list, 128 and above are retryable": ExitCode(None, 128, True),
    "without a list, 127 is permanent": ExitCode(None, 127, False),
    "a code on the list is retryable, though it is below 128": ExitCode("3,137", 3, True),
    "a code that is not on the list is permanent, though it is above 127": ExitCode("3,137", 143, False),
}


@pytest.mark.parametrize("case", EXIT_CODES.values(), ids=EXIT_CODES.keys())
def test_exit_codes(case: ExitCode) -> None:
    builder = make_job().role("trainer", 1, restart="ExitCode", scope="Pod")
    job = (builder.spec(restartingExitCode=case.codes) if case.codes else builder).build()
    status = status_of(decide(job, everything(job, make_pod(job, "trainer", 0).failed(exit_code=case.exit_code))))
    assert (status.ending is None) is case.want_restart


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


def test_a_sidecar_that_does_not_count_decides_nothing() -> None:
    job = make_job().role("trainer", 1, restart="ExitCode", scope="Pod", containers=("sidecar", "aitj-main")).build()
    pod = make_pod(job, "trainer", 0).failed(exit_code=137, container="aitj-main")
    noisy = pod.but(
        containers=tuple(
            c if c.name == "aitj-main" else ContainerRecord(c.name, state="terminated", exit_code=1)
            for c in pod.build().containers
        )
    )
    assert status_of(decide(job, everything(job, noisy))).ending is None


@dataclass
class Scope:
    scope: str
    want_deleted: list[str]
    want_job_restarts: int = 0
    want_counts: dict[str, int] = field(default_factory=lambda: {"trainer": 1})


SCOPES = {
    "Pod replaces that pod": Scope("Pod", ["digits-trainer-1"]),
    "Replica replaces the pods of its role": Scope("Replica", ["digits-trainer-0", "digits-trainer-1"]),
    "All replaces every pod of the job": Scope("All", ["digits-ps-0", "digits-trainer-0", "digits-trainer-1"], 1),
}


@pytest.mark.parametrize("case", SCOPES.values(), ids=SCOPES.keys())
def test_how_far_a_restart_reaches(case: Scope) -> None:
    job = make_job().role("ps", 1).role("trainer", 2, restart="OnFailure", scope=case.scope).build()
    world = World(job).settle().all("running").settle()
    world.set("digits-trainer-1", "failed", exit_code=1)
    plan = world.step()
    assert deleted(plan) == case.want_deleted
    assert created(plan) == []
    assert status_of(plan).attempts.job == case.want_job_restarts
    assert {r: c.application for r, c in status_of(plan).restart_counts.items()} == case.want_counts
    world.settle().all("running").settle()
    assert world.job.status.phase == "Running"
    assert [n for n, a in world.attempts().items() if a == 1] == case.want_deleted


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_the_pod_that_failed_first_is_named_as_the_cause_whichever_its_index(order: tuple[int, ...]) -> None:
    world = World(make_job().role("trainer", 3, restart="Never").build()).settle().all("running").settle()
    for index, after in enumerate(order):
        ended = to_rfc3339(world.now + 10 * after)
        name = f"digits-trainer-{index}"
        world.set(name, "failed", exit_code=1)
        ends = tuple(replace(c, finished_at=ended) for c in world.record(name).containers)
        world.set(name, "but", containers=ends)
    ending = status_of(world.step()).ending
    assert ending is not None
    assert f"digits-trainer-{order.index(0)} " in ending.message


@dataclass
class AtOnce:
    """Of three trainers, 0 fails for good and 1 with an exit code that is worth a restart, in the same moment."""

    fail_policy: str
    want_phase: str
    want_restarts: int


AT_ONCE = {
    "Any: the end goes before the restart, which is not counted": AtOnce("Any", "Terminating", 0),
    "All: one of three is no end, the other starts again": AtOnce("All", "Restarting", 1),
}


@pytest.mark.parametrize("case", AT_ONCE.values(), ids=AT_ONCE.keys())
def test_a_failure_for_good_and_one_that_is_worth_a_restart(case: AtOnce) -> None:
    job = make_job().role("trainer", 3, restart="ExitCode", scope="Pod", fail=case.fail_policy).build()
    world = World(job).settle().all("running").settle()
    world.set("digits-trainer-0", "failed", exit_code=1).set("digits-trainer-1", "failed", exit_code=137)
    status = status_of(world.step())
    restarts = status.restart_counts["trainer"].application if "trainer" in status.restart_counts else 0
    assert (status.phase, restarts, status.attempts.roles["trainer"].pods) == (
        case.want_phase,
        case.want_restarts,
        {"1": 1} if case.want_restarts else {},
    )


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
    "backoffLimit counts them also for a role that fails for the first time": Whose(
        ("ps", "trainer"), "BackoffLimitExceeded", backoff_limit=1
    ),
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


@pytest.mark.parametrize("limit", ["restartLimit", "backoffLimit"])
def test_a_limit_that_is_used_up_ends_the_job_as_fail_policy_says(limit: str) -> None:
    """Of two pods with failPolicy All the first one stays failed, and the job goes on until the other fails, too."""
    builder = make_job().role(
        "trainer", 2, restart="OnFailure", scope="Pod", fail="All", limit=0 if limit == "restartLimit" else None
    )
    builder = builder.run_policy(backoffLimit=0) if limit == "backoffLimit" else builder
    world = World(builder.build()).settle().all("running").settle()
    world.set("digits-trainer-0", "failed", exit_code=1).settle()
    assert world.job.status.ending is None
    assert world.job.status.attempts.roles["trainer"].failed == "0"
    world.set("digits-trainer-1", "failed", exit_code=1).settle()
    assert world.job.status.ending is not None


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


def test_ten_pods_that_fail_at_once_are_one_restart_of_the_job() -> None:
    job = make_job().role("trainer", 10, restart="OnFailure", scope="All").build()
    world = World(job).settle().all("running").settle().all("failed").settle()
    assert world.job.status.restart_counts["trainer"].application == 1
    assert set(world.attempts().values()) == {1}


def test_thirty_deleted_pods_come_back_in_one_pass() -> None:
    job = make_job().role("trainer", 30, restart="OnFailure", scope="Pod").build()
    world = World(job).settle().all("running").settle()
    for index in range(30):
        world.lose(f"digits-trainer-{index}")
    assert len(created(world.step())) == 30


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


def test_a_job_that_runs_tells_nothing_of_the_order_in_which_its_pods_came() -> None:
    job = make_job().role("trainer", 2).build()
    world = World(job).settle()
    world.set("digits-trainer-1", "running")
    world.step()
    assert world.job.status.attempts.roles["trainer"].ran == "1"
    world.all("running").settle()
    assert (world.job.status.phase, world.job.status.attempts.roles) == ("Running", {})


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


def test_a_failure_is_counted_once_however_often_it_is_seen() -> None:
    job = make_job().role("trainer", 2, restart="OnFailure", scope="Pod").build()
    pods = everything(job, make_pod(job, "trainer", 0).running(), make_pod(job, "trainer", 1).failed())
    first = status_of(decide(job, pods))
    seen_again = make_job().role("trainer", 2, restart="OnFailure", scope="Pod").status(first).build()
    plan = decide(seen_again, pods)
    assert plan.status is None
    assert deleted(plan) == ["digits-trainer-1"]


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
    ends = {"aitj-a": (1, "2026-01-01T00:10:05Z"), "aitj-b": (137, "2026-01-01T00:10:00Z")}
    both = pod.but(
        containers=tuple(
            replace(c, exit_code=ends[c.name][0], finished_at=ends[c.name][1]) for c in pod.build().containers
        )
    )
    failure = status_of(decide(job, everything(job, both))).failures[0]
    assert (failure.container, failure.exit_code, failure.time) == ("aitj-b", 137, "2026-01-01T00:10:00Z")


def test_only_the_newest_ten_failures_are_kept() -> None:
    job = make_job().role("trainer", 1, restart="OnFailure", scope="Pod").build()
    world = World(job).settle()
    for code in range(1, 13):
        world.set("digits-trainer-0", "failed", exit_code=code).settle()
        world.now += LONGEST_SECONDS
        world.settle()
    assert [f.exit_code for f in world.job.status.failures] == list(range(12, 2, -1))


def test_a_pod_that_a_user_deletes_is_replaced_under_any_policy_and_counted_as_the_users() -> None:
    job = make_job().role("trainer", 2, restart="Never").build()
    world = World(job).settle().all("running").settle()
    world.set("digits-trainer-1", "deleting")
    plan = world.step()
    assert status_of(plan).phase == "Restarting"
    assert (created(plan), deleted(plan)) == ([], [])
    world.lose("digits-trainer-1").settle().all("running").settle()
    assert world.job.status.phase == "Running"
    assert world.job.status.restart_counts["trainer"].user == 1


def test_a_pod_that_has_vanished_is_made_again() -> None:
    job = make_job().role("trainer", 2, restart="Never").build()
    world = World(job).settle().all("running").settle().lose("digits-trainer-0")
    assert created(world.step()) == ["digits-trainer-0"]


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
