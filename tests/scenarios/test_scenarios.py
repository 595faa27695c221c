"""Scenarios of jobs, from apply to the end, through the real watcher, queue, worker and executor."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.scenarios import SCENARIOS
from tests.scenarios.world import World, job, play, role, training_job
from tjworker.api.resources import BATCH_JOBS, PODS
from tjworker.base import JobKey


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_scenario(sentence: str) -> None:
    SCENARIOS[sentence](World(nodes=3))


# -- what hangs on exact times, or can be seen only from inside ------------------------------------


def test_the_end_of_a_failed_pods_log_stands_in_the_status() -> None:
    broken = play(run_seconds=1, exit_code=3, log="loss is nan")
    world = (
        World().apply(job({"trainer": role(1, annotations=broken, restartPolicy="OnFailure", restartLimit=2)})).run()
    )
    world.advance(30)
    assert world.status()["failures"][0]["logTail"] == "loss is nan"


def test_pods_of_a_deleted_job_that_still_end_are_waited_for() -> None:
    slow = play(terminate_seconds=5)
    world = World().apply(job({"trainer": role(2, annotations=slow)})).run()
    before = set(world.uids().values())
    world.delete("digits").apply(job({"trainer": role(2, annotations=slow)})).run()
    assert set(world.uids().values()) <= before


def test_time_limit_counts_from_the_first_running() -> None:
    world = World().apply(job({"trainer": role(1, annotations=play(start_seconds=20))}, timeLimit=30)).run().advance(40)
    assert world.phase() == "Running"
    world.advance(15)
    assert world.phase() == "Timeout"


def test_a_suspended_job_causes_no_task() -> None:
    world = World().apply(job({"trainer": role(2)}, suspend=True)).run()
    assert (world.phase(), world.pods()) == ("Suspended", {})
    tasks = len(world.results)
    world.advance(20)
    assert len(world.results) == tasks


def test_a_finished_job_causes_no_task_and_no_request_whatever_its_pods_do() -> None:
    world = (
        World()
        .apply(job({"trainer": role(1, annotations=play(run_seconds=2))}, cleanPodPolicy="None"))
        .run()
        .advance(4)
    )
    assert world.phase() == "Succeed"
    tasks, requests = len(world.results), sum(world.transport.counts.values())
    world.delete_pod("digits-trainer-0").run().advance(60)
    world.queue.publish(world.store.queue.resync(lost_after_seconds=30, everything=True))
    world.run()
    assert (len(world.results), sum(world.transport.counts.values())) == (tasks, requests)


def test_a_pass_waits_for_the_watch_to_show_the_operators_own_last_write() -> None:
    """What a view lacks that the operator itself has made is not made again: nothing is asked, nothing is written."""
    world = World().apply(job({"trainer": role(2)}))
    world.watch()
    world.work()
    before = world.transport.counts.copy()
    world.queue.publish(world.store.queue.add([JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")]))
    world.work()
    assert world.results[-1] == "waits until the watch shows the last write of this job"
    assert world.transport.counts == before
    assert world.run().advance(1).phase() == "Running", "and it comes back by itself"


# -- what may be lost ------------------------------------------------------------------------------

PHASES = {
    "before anything": 0,
    "when its pods are being made": 1,
    "while it runs": 3,
    "while it restarts": 6,
    "at its end": 12,
}


@pytest.mark.parametrize("second", PHASES.values(), ids=PHASES.keys())
def test_redis_wiped_makes_and_deletes_no_pod_and_everything_goes_on(second: int) -> None:
    def outcome(wipe_at: int | None) -> tuple[str, dict[str, Any], int, int]:
        flaky = play(start_seconds=1, failing_attempts=1, failing_exit_code=137, failing_run_seconds=4, run_seconds=5)
        spec = {"trainer": role(2, annotations=flaky, restartPolicy="ExitCode", restartScope="Pod")}
        world = World(seed=1).apply(job(spec))
        for now in range(60):
            if now == wipe_at:
                world.store.flush()
            world.run()
            world.advance(1)
        requests = world.transport.counts
        return world.phase(), world.status()["restartCounts"], requests["POST pods"], requests["DELETE pods"]

    assert outcome(second) == outcome(None)


def test_a_watcher_that_dies_and_comes_back_misses_nothing() -> None:
    world = World().apply(job({"trainer": role(2, annotations=play(run_seconds=10))})).run()
    world.cluster.advance(12)  # no watch is open
    world.start_watcher()
    world.run().advance(2)
    assert world.phase() == "Succeed"


def test_an_operator_that_is_away_from_a_trainers_failure_to_the_end_counts_it_all_the_same() -> None:
    def outcome(*, away: bool) -> tuple[str, dict[str, Any], list[int]]:
        flaky = {"failing_attempts": 1, "failing_exit_code": 137, "failing_run_seconds": 5, "run_seconds": 40}
        world = (
            World(seed=1).apply(training_job(least=2, fault_tolerant=True, play={"trainer": flaky})).run().advance(3)
        )
        if away:
            world.cluster.advance(90)
        world.run().advance(90)
        status = world.status()
        return status["phase"], status["restartCounts"], [f["exitCode"] for f in status["failures"]]

    assert outcome(away=True) == outcome(away=False)
    assert outcome(away=True)[2] == [137]


@pytest.mark.parametrize(
    "seen_seconds", [0, 3], ids=["none of the pods has been seen", "the pods have been seen to run"]
)
def test_an_end_waits_for_the_watch_of_pods_that_is_behind_that_of_batch_jobs(seen_seconds: float) -> None:
    """A half-open connection: a minute without pods, while the batch Job is shown to be Complete."""
    flaky = {"failing_attempts": 1, "failing_exit_code": 137, "failing_run_seconds": 5, "run_seconds": 20}
    world = World(seed=1).run()
    reflectors = world.watcher.reflectors
    blind = [reflector for reflector in reflectors if reflector.resource != PODS]
    if not seen_seconds:
        world.watcher.reflectors = blind
    world.apply(training_job(least=2, fault_tolerant=True, play={"trainer": flaky})).run().advance(seen_seconds)
    world.watcher.reflectors = blind
    world.run().advance(60)
    assert next(iter(world.owners(BATCH_JOBS).values()))["status"]["succeeded"] == 2
    assert world.phase() != "Succeed"
    world.watcher.reflectors = reflectors
    world.run().advance(10)
    status = world.status()
    assert status["phase"] == "Succeed"
    assert status["restartCounts"]["trainer"]["application"] == 1
    assert [failure["exitCode"] for failure in status["failures"]] == [137]


def test_a_success_that_was_deleted_is_not_waited_for_longer_than_a_watch_may_be_behind() -> None:
    world = World(seed=1).apply(training_job(least=2, fault_tolerant=True, play={"trainer": {"run_seconds": 20}})).run()
    world.advance(15)
    reflectors = world.watcher.reflectors
    world.watcher.reflectors = [reflector for reflector in reflectors if reflector.resource != PODS]
    world.advance(15)
    for pod in world.pods():
        world.delete_pod(pod)
    world.watcher.reflectors = reflectors
    world.run().advance(30)
    assert world.phase() != "Succeed"
    world.advance(90)
    assert world.phase() == "Succeed"


def test_lost_tasks_come_back_by_resync() -> None:
    world = World().apply(job({"trainer": role(1)}))
    world.watch()
    world.queue.keys.clear()
    world.run().advance(31)
    assert world.phase() == ""
    world.queue.publish(world.store.queue.resync(lost_after_seconds=30, everything=False))
    world.run()
    assert world.phase() == "Running"


def test_doubled_tasks_do_nothing_twice() -> None:
    world = World().apply(job({"trainer": role(2)}))
    world.watch()
    world.queue.publish(list(world.queue.keys) * 3)
    world.run()
    assert world.transport.counts["POST pods"] == 2
    assert world.phase() == "Running"
