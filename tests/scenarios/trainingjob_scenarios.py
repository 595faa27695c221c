"""The scenarios of TrainingJobs: master and parameter servers in ReplicaSets, trainers in a batch Job. Played where
those of `scenarios` are. Several are named after what the EDL operator does on a Kubernetes of today, and what must
hold instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from tests.scenarios.driver import Driver, Json
from tests.scenarios.world import training_job
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.api.timefmt import from_rfc3339

Scenario = Callable[[Driver], None]


# -- looking ---------------------------------------------------------------------------------------


def of_role(world: Driver, role: str) -> dict[str, Json]:
    return {n: p for n, p in world.pods().items() if p["metadata"]["labels"].get("replica-type") == role}


def living(world: Driver, role: str = "trainer") -> dict[str, Json]:
    """Those that have not ended and are not asked to."""
    return {
        n: p
        for n, p in of_role(world, role).items()
        if not p["metadata"].get("deletionTimestamp") and p["status"].get("phase") not in ("Succeeded", "Failed")
    }


def numbers(world: Driver, role: str = "trainer") -> list[str]:
    """The numbers of the pods of a role that run, by both labels; they must agree."""
    found = []
    for pod in living(world, role).values():
        meta = pod["metadata"]
        number = meta["labels"].get("replica-index", "none")
        assert meta["labels"].get(f"{meta['namespace']}/digits-{role}-idx", "none") == number
        found.append(number)
    return sorted(found)


def is_numbered(world: Driver, count: int, role: str = "trainer") -> bool:
    """0 to count-1, none twice, none missing."""
    return numbers(world, role) == [str(i) for i in range(count)]


def running(world: Driver) -> None:
    world.until("the job runs", lambda: world.phase() == "Running")


def ends(world: Driver, phase: str, *, within_seconds: float = 90) -> None:
    world.until(f"the job ends as {phase}", lambda: world.phase() == phase, within_seconds=within_seconds)


def end_trainers(world: Driver) -> None:
    for name in living(world):
        world.end_pod(name)


def trainer_job(world: Driver) -> Json:
    return world.owners(BATCH_JOBS)["digits-trainer"]


def counts(world: Driver, role: str = "trainer") -> dict[str, int]:
    """Restarts by cause, without the zeros."""
    return {k: v for k, v in world.status().get("restartCounts", {}).get(role, {}).items() if v}


# -- scenarios -------------------------------------------------------------------------------------


def runs_succeeds_and_gives_back(world: Driver) -> None:
    world.apply(training_job(least=2, pservers=2, fault_tolerant=True))
    running(world)
    assert sorted(world.owners(REPLICASETS)) == ["digits-master", "digits-pserver"]
    assert sorted(world.owners(BATCH_JOBS)) == ["digits-trainer"]
    for role, label in (("master", "paddle-job-master"), ("pserver", "paddle-job-pserver"), ("trainer", "paddle-job")):
        owner = world.owners(BATCH_JOBS if role == "trainer" else REPLICASETS)[f"digits-{role}"]
        assert owner["metadata"]["labels"][label] == "digits"
        assert [p["metadata"]["labels"][label] for p in of_role(world, role).values()] == ["digits"] * len(
            of_role(world, role)
        )
        assert owner["metadata"]["ownerReferences"][0]["kind"] == "TrainingJob"
    end_trainers(world)
    ends(world, "Succeed")
    assert world.pods() == {}
    assert world.status()["released"] is True
    assert [o["spec"]["replicas"] for o in world.owners(REPLICASETS).values()] == [0, 0]
    assert trainer_job(world)["spec"]["parallelism"] == 0
    assert world.condition("Succeeded")["status"] == "True"
    assert [r for r in world.requests() if r.split()[1] == "pods" and r.startswith("create")] == []


def scaling_up_gives_the_trainers(world: Driver) -> None:
    """The seed: +4 planned, none made (completions 2), and Scaling for ever."""
    world.apply(training_job(least=2, most=8, fault_tolerant=True))
    running(world)
    before = {n: p["metadata"]["uid"] for n, p in living(world).items()}
    world.scale("digits", 6)
    world.until("six trainers run, and the job says so", lambda: len(living(world)) == 6 and world.phase() == "Running")
    assert before.items() <= {n: p["metadata"]["uid"] for n, p in living(world).items()}.items()
    assert "completions" not in trainer_job(world)["spec"]
    assert [(r["from"], r["to"], r["reason"]) for r in world.status()["scaleRecords"]] == [
        (2, 6, "spec.trainer.min-instance was set to 6")
    ]
    assert counts(world) == {}


def a_quiet_job_is_not_written(world: Driver) -> None:
    """The seed: once a second, for ever."""
    world.apply(training_job(least=2, most=4, pservers=1, fault_tolerant=True))
    running(world)
    world.quiet()
    before = world.requests()
    world.stays("no request follows", lambda: world.requests() == before, for_seconds=6)


def a_deleted_trainer_ends_nothing(world: Driver) -> None:
    """The seed: backoffLimit 0 counts it, and the whole Job is over."""
    world.apply(training_job(least=2))
    running(world)
    before = living(world)
    gone = sorted(before)[0]
    world.delete_pod(gone)
    world.until("there is a new one", lambda: len(living(world)) == 2 and gone not in living(world))
    running(world)
    world.until("it has the number that was free", lambda: is_numbered(world, 2))
    assert set(before) - {gone} <= set(living(world))
    assert counts(world) == {"user": 1}
    assert world.status().get("failures", []) == []


def one_that_exits_with_0_as_it_is_deleted_comes_back(world: Driver, most: int | None = None) -> None:
    """Its Job's controller, which looks a second later, would take it for a success: of a work queue that is empty, or
    of its completions."""
    leaves = {"trainer": {"terminate_exit_code": 0}}
    world.apply(training_job(least=2, most=most, fault_tolerant=True, play=leaves))
    running(world)
    for lost in (1, 2):
        world.until("numbered", lambda: is_numbered(world, 2))
        before = living(world)
        gone = sorted(before)[0]
        world.delete_pod(gone)
        world.until("another has its number", lambda: is_numbered(world, 2) and gone not in living(world))  # noqa: B023
        assert set(before) - {gone} <= set(living(world)), "no other is restarted"
        world.until("it is counted", lambda: counts(world) == {"user": lost})  # noqa: B023
        running(world)


def so_it_does_where_the_number_may_change(world: Driver) -> None:
    one_that_exits_with_0_as_it_is_deleted_comes_back(world, most=6)
    world.scale("digits", 4)
    world.until("there are four", lambda: is_numbered(world, 4))
    world.scale("digits", 2)
    world.until("there are two", lambda: is_numbered(world, 2) and world.phase() == "Running")


def a_trainer_that_is_lost_again_and_again_is_back_at_once(world: Driver) -> None:
    """The controller of batch Jobs lets it wait: 10 s, 20 s, 40 s, and from the seventh on ten minutes. By the API
    server's clock; what it writes down is whole seconds."""
    world.apply(training_job(least=3, most=6, fault_tolerant=True))
    running(world)
    world.until("numbered", lambda: is_numbered(world, 3))
    waited: list[float] = []
    for lost in range(1, 9):
        before = living(world)
        gone = next(n for n, p in before.items() if p["metadata"]["labels"]["replica-index"] == "1")
        asked = int(world.now())
        world.delete_pod(gone)
        world.until(f"trainer 1 is there again ({lost})", lambda: is_numbered(world, 3) and gone not in living(world))  # noqa: B023
        after = living(world)
        [new] = after.keys() - before.keys()
        made = from_rfc3339(after[new]["metadata"]["creationTimestamp"])
        waited.append((made or 0.0) - asked)
        assert set(before) - {gone} <= set(after), "no other is restarted"
        running(world)
    assert max(waited) <= LOST_TRAINER_SECONDS + world.late_seconds(), waited
    world.until("eight are counted", lambda: counts(world) == {"user": 8})
    world.scale("digits", 5)
    world.until("one that is scaled up does not wait either", lambda: is_numbered(world, 5), within_seconds=60)
    world.until("and the Job tells of five", lambda: trainer_job(world)["status"].get("active") == 5)
    assert trainer_job(world)["spec"]["parallelism"] == 5


LOST_TRAINER_SECONDS = 5


def a_failed_trainer_is_replaced(world: Driver) -> None:
    world.apply(training_job(least=2, fault_tolerant=True, pservers=1))
    running(world)
    servers = set(living(world, "pserver"))
    world.end_pod(sorted(living(world))[0], 137)
    world.until("the failure is counted", lambda: counts(world) == {"application": 1})
    failure = world.status()["failures"][0]
    assert (failure["exitCode"], failure["container"]) == (137, "trainer")
    world.until("two trainers run again, numbered", lambda: world.phase() == "Running" and is_numbered(world, 2))
    assert set(living(world, "pserver")) == servers
    end_trainers(world)
    ends(world, "Succeed")
    assert counts(world) == {"application": 1}


def one_failed_trainer_ends_a_plain_job(world: Driver) -> None:
    flaky = {"failing_attempts": 1, "failing_exit_code": 3, "failing_run_seconds": 3}
    world.apply(training_job(least=3, pservers=1, play={"trainer": flaky}))
    ends(world, "Failed")
    assert "exited with code 3" in world.condition("Failed")["message"]
    assert "not fault tolerant" in world.condition("Failed")["message"]
    assert world.pods() == {}


def all_failed_trainers_end_a_tolerant_job(world: Driver) -> None:
    world.apply(training_job(least=2, fault_tolerant=True, play={"trainer": {"run_seconds": 3, "exit_code": 4}}))
    ends(world, "Failed", within_seconds=180)
    assert "all trainers have failed" in world.condition("Failed")["message"]
    world.until("its pods are gone", lambda: world.pods() == {})


def servers_are_kept_alive(world: Driver) -> None:
    world.apply(training_job(least=1, pservers=2))
    running(world)
    world.stays("it runs", lambda: world.phase() == "Running", for_seconds=2)
    gone = sorted(living(world, "pserver"))[0]
    world.delete_pod(gone)
    world.until("there is another", lambda: len(living(world, "pserver")) == 2 and gone not in living(world, "pserver"))
    running(world)
    world.until("numbered", lambda: is_numbered(world, 2, "pserver"))
    assert counts(world, "pserver") == {"user": 1}


def a_server_that_restarts_too_often_fails_the_job(world: Driver) -> None:
    manifest = training_job(least=1, pservers=1, play={"pserver": {"run_seconds": 2, "exit_code": 9}})
    manifest["metadata"]["annotations"]["paddlepaddle.org/pserver-restart-limit"] = "1"
    world.apply(manifest)
    ends(world, "Failed", within_seconds=120)
    said = world.condition("Failed")
    assert said["reason"] == "RestartLimitReached"
    assert "container pserver has been restarted 1 times; the limit of role pserver is 1" in said["message"]


def walltime_ends_the_job(world: Driver) -> None:
    world.apply(training_job(least=1, annotations={"walltime": 4}))
    ends(world, "Timeout")
    assert world.pods() == {}
    world.until("it has run", lambda: world.events().get("Running") == 1)


def deleting_takes_everything(world: Driver) -> None:
    world.apply(training_job(least=2, pservers=1, fault_tolerant=True))
    running(world)
    world.delete("digits")
    world.until(
        "nothing is left", lambda: (world.pods(), world.owners(REPLICASETS), world.owners(BATCH_JOBS)) == ({}, {}, {})
    )


def ten_scale_cycles_while_trainers_fail(world: Driver) -> None:
    """Never a trainer more than wanted, no restart of one that runs, and no failure that is not one. Where two clients
    create the trainers, both may create the same one: the Job's controller takes one back (docs/adr/0017)."""
    too_many_since = [inf]
    flaky = {"failing_attempts": 2, "failing_run_seconds": 6, "failing_exit_code": 1}
    world.apply(training_job(least=3, most=9, fault_tolerant=True, play={"trainer": flaky}))
    running(world)

    def settled(wanted: int, most: int) -> bool:
        now = set(living(world))
        too_many_since[0] = min(too_many_since[0], world.now()) if len(now) > most else inf
        taken_back = world.now() - too_many_since[0] < world.late_seconds()
        assert len(now) <= most or taken_back, f"{len(now)} trainers live, {most} are the most wanted: {sorted(now)}"
        return len(now) == wanted and world.phase() == "Running" and is_numbered(world, wanted)

    def failed() -> set[str]:
        return {n for n, p in of_role(world, "trainer").items() if p["status"].get("phase") == "Failed"}

    wanted = 3
    for cycle in range(10):
        for then in (5 + cycle % 3, 3 + cycle % 2):
            before = {n: p["metadata"]["uid"] for n, p in living(world).items()}
            most = max(wanted, then)
            world.scale("digits", then)
            if cycle == 0 and then > wanted:
                world.until("two trainers have failed", lambda: len(failed()) == 2)
            world.until(
                f"cycle {cycle}: {then} trainers",
                lambda then=then, most=most: settled(then, most),  # type: ignore[misc]
                within_seconds=180,
            )
            after = {n: p["metadata"]["uid"] for n, p in living(world).items()}
            if then > wanted:
                kept = {n: u for n, u in before.items() if n not in failed()}
                assert kept.items() <= after.items(), "a trainer that ran was restarted"
            else:
                assert after.items() <= before.items(), "a trainer was made while scaling down"
            wanted = then
    status = trainer_job(world)["status"]
    counted = counts(world)
    assert (status.get("failed"), counted) == (2, {"application": 2}), f"{counted}, {status}"
    assert not [c for c in status.get("conditions", ()) if c["type"] in ("Failed", "FailureTarget")]


def scaled_up_while_trainers_still_go(world: Driver) -> None:
    """Those that scaling down has taken are nobody's loss, though their places are wanted again."""
    world.apply(training_job(least=2, most=6, fault_tolerant=True, play={"trainer": {"terminate_seconds": 12}}))
    running(world)
    world.scale("digits", 4)
    world.until("four are numbered", lambda: world.phase() == "Running" and is_numbered(world, 4))
    world.stays("they run", lambda: world.phase() == "Running", for_seconds=2)
    world.scale("digits", 2)
    world.until("two are to go", lambda: len(living(world)) == 2 and len(of_role(world, "trainer")) == 4)
    kept = set(living(world))
    world.until("the Job is told", lambda: trainer_job(world)["spec"]["parallelism"] == 2)
    world.stays("they save their state", lambda: len(of_role(world, "trainer")) == 4, for_seconds=2)
    world.scale("digits", 4)
    world.until("four run", lambda: world.phase() == "Running" and len(living(world)) == 4 and is_numbered(world, 4))
    assert kept <= set(living(world))
    assert (counts(world), trainer_job(world)["status"].get("failed", 0)) == ({}, 0)


def writes(world: Driver) -> dict[str, int]:
    """A pass reads the spec of a suspended job from the API server: Redis does not hold it."""
    return {request: n for request, n in world.requests().items() if not request.startswith("get ")}


def suspends_and_resumes(world: Driver) -> None:
    """Its ReplicaSets and its Job stay, with no pods; nobody has lost any. A trainer that exits with 0 because it is
    asked to go has not succeeded."""
    polite = {"trainer": {"terminate_exit_code": 0, "terminate_seconds": 1}}
    world.apply(training_job(least=2, pservers=2, fault_tolerant=True, suspend=True, play=polite))
    world.until("it is suspended", lambda: world.phase() == "Suspended")
    assert (world.pods(), world.owners(BATCH_JOBS), world.owners(REPLICASETS)) == ({}, {}, {})
    for _ in range(2):
        world.patch_job("digits", {"spec": {"suspend": False}})
        world.until("it runs", lambda: world.phase() == "Running" and is_numbered(world, 2))
        world.until("its servers are numbered", lambda: is_numbered(world, 2, "pserver"))
        world.patch_job("digits", {"spec": {"suspend": True}})
        world.until("its pods are gone", lambda: world.phase() == "Suspended" and world.pods() == {})
        assert trainer_job(world)["spec"]["parallelism"] == 0
        assert {o["spec"]["replicas"] for o in world.owners(REPLICASETS).values()} == {0}
    status = world.status()
    assert (status.get("restarts", 0), status.get("failures"), counts(world)) == (0, None, {})
    assert trainer_job(world)["status"].get("failed", 0) == 0
    world.quiet()
    before = writes(world)
    world.stays("a suspended job causes no write", lambda: writes(world) == before, for_seconds=4)


def what_has_succeeded_is_not_run_again(world: Driver) -> None:
    """A trainer that was done before the job was suspended is done afterwards."""
    slow = {"trainer": {"run_seconds": 12, "terminate_seconds": 1, "terminate_exit_code": 143}}
    world.apply(training_job(least=2, fault_tolerant=True, play=slow))
    running(world)
    world.patch_job("digits", {"spec": {"suspend": True}})
    world.until("its pods are gone", lambda: world.phase() == "Suspended" and not living(world))
    world.patch_job("digits", {"spec": {"suspend": False}})
    running(world)
    ends(world, "Succeed")
    assert counts(world) == {}


TRAININGJOB_SCENARIOS: Mapping[str, Scenario] = {
    "a TrainingJob runs, succeeds and gives back what it held": runs_succeeds_and_gives_back,
    "a TrainingJob that is scaled up gets its trainers and is Running again": scaling_up_gives_the_trainers,
    "a quiet TrainingJob is written no more": a_quiet_job_is_not_written,
    "a deleted trainer is replaced, numbered, and ends nothing": a_deleted_trainer_ends_nothing,
    "a trainer that exits with 0 as it is deleted comes back": one_that_exits_with_0_as_it_is_deleted_comes_back,
    "and so it does where the number of trainers may change, which can be scaled": (
        so_it_does_where_the_number_may_change
    ),
    "a trainer that is lost eight times in a row is back each time within 5 s": (
        a_trainer_that_is_lost_again_and_again_is_back_at_once
    ),
    "a failed trainer of a fault-tolerant TrainingJob is replaced": a_failed_trainer_is_replaced,
    "one failed trainer ends a TrainingJob that is not fault tolerant": one_failed_trainer_ends_a_plain_job,
    "a fault-tolerant TrainingJob fails when all its trainers have": all_failed_trainers_end_a_tolerant_job,
    "a parameter server that is deleted is replaced and numbered": servers_are_kept_alive,
    "a parameter server that restarts too often fails the job": a_server_that_restarts_too_often_fails_the_job,
    "a TrainingJob is suspended and goes on, twice: no restart is counted": suspends_and_resumes,
    "a TrainingJob that was suspended succeeds": what_has_succeeded_is_not_run_again,
    "walltime ends a TrainingJob": walltime_ends_the_job,
    "deleting a TrainingJob takes its ReplicaSets, its Job and their pods": deleting_takes_everything,
    "ten scale cycles while trainers fail: never one too many, none restarted, no failure invented": (
        ten_scale_cycles_while_trainers_fail
    ),
    "trainers that are scaled up while others still go after scaling down: no restart is counted": (
        scaled_up_while_trainers_still_go
    ),
}
