"""What a new attempt keeps of the old one."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import NOW, World, created, decide, deleted, status_of
from tjworker.api.progress import Progress, SpeedSample, read_progress, with_progress
from tjworker.api.status import Attempts, JobStatus, RoleAttempts
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile.attempts import AT_A_NEW_ATTEMPT, Draft, new_attempt
from tjworker.reconcile.replicas import Replica


def test_each_field_says_what_becomes_of_it_at_a_new_attempt() -> None:
    assert set(AT_A_NEW_ATTEMPT) == set(RoleAttempts.model_fields)


OLD = RoleAttempts(
    all=2,
    pods={"0": 1, "3": 4},
    completed="1",
    failed="2",
    ran="0-3",
    made="4",
    vanished={"2": "4"},
    crashes={"2": "0-1"},
    rejections={"1": "3"},
    resting={"2026-01-01T00:00:10Z": "0"},
)


@pytest.mark.parametrize(
    ("keep", "want"),
    [
        (True, RoleAttempts(all=7, completed="1", failed="2", crashes={"2": "0-1"})),
        (False, RoleAttempts(all=7, crashes={"2": "0-1"})),
    ],
)
def test_a_new_attempt_is_above_each_pods_and_keeps_results_where_asked(keep: bool, want: RoleAttempts) -> None:
    assert new_attempt(OLD, keep_results=keep) == want


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


def test_a_suspended_job_forgets_how_far_it_was_and_keeps_its_speeds() -> None:
    """It may go on from an older checkpoint, and its progress may not fall within an attempt."""
    world = World(make_job().role("trainer", 2).build()).settle().all("running").settle()
    told = Progress(percentage=40, samples=(SpeedSample(2, 1, 5.0, 1, 0.0),))
    status = with_progress(world.job.status, told)
    world.job = make_job().role("trainer", 2).spec(suspend=True).status(status).build()
    known = read_progress(world.settle().job.status)
    assert (known.percentage, known.samples) == (None, told.samples)


def test_a_restart_of_a_role_forgets_how_far_the_job_was() -> None:
    draft = Draft(with_progress(JobStatus(), Progress(percentage=40)))
    draft.raise_roles(["trainer"], whole_job=False)
    assert read_progress(draft.status()).percentage is None
    untouched = Draft(with_progress(JobStatus(), Progress(percentage=40)))
    assert read_progress(untouched.status()).percentage == 40


def test_a_rest_takes_those_that_are_over_and_those_without_a_time_out_of_the_status() -> None:
    over, later = to_rfc3339(NOW), to_rfc3339(NOW + 9)
    attempts = RoleAttempts(resting={over: "0", later: "1", "soon": "2"})
    draft = Draft(JobStatus(attempts=Attempts(roles={"trainer": attempts})))
    for index in (3, 4):
        draft.rest(Replica("trainer", index, f"digits-trainer-{index}", 0, "failed"), int(NOW) + 20, NOW)
    assert draft.attempts("trainer").resting == {later: "1", to_rfc3339(NOW + 20): "3-4"}
