"""`python -m benchmarks.two_jobs`, shorter: `goodput` on what two real trainings report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.two_jobs import Outcome, Trainings, digits, run, table

pytestmark = [
    pytest.mark.long,
    pytest.mark.e2e(minutes=2),
    pytest.mark.xdist_group("two-jobs"),
    pytest.mark.skipif(sys.platform != "linux", reason="pods are processes, found in /proc"),
]


def test_trainers_go_to_the_job_that_they_speed_up_and_none_that_stays_is_restarted(tmp_path: Path) -> None:
    trainings = digits(0.5, apart=30)
    check_that_steep_gained(run("goodput", tmp_path, trainings), trainings)


def check_that_steep_gained(seen: Outcome, trainings: Trainings) -> None:
    told = table({"goodput": seen}, trainings.jobs, every=10)
    assert not seen.failed, told
    assert seen.restarted == 0, told
    assert seen.speeds["flat"], "its status has what it reported"
    assert seen.speeds["steep"], "its status has what it reported"
    most = max(n for _, n in seen.trainers["flat"])
    beside = [n for at, n in seen.trainers["steep"] if at < seen.ended["flat"]]
    assert max(beside) > 1, f"steep gets more than the trainer that its minimum is\n{told}"
    first_end = min(job.submit + seen.ended[job.name] for job in trainings.jobs)
    assert most > seen.trainers_at("flat", first_end - 5), f"flat gives some of its {most}\n{told}"
