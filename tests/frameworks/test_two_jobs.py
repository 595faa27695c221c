"""`python -m benchmarks.two_jobs --program torchrun`, shorter: `goodput` moves pods between two elastic torchruns."""

from __future__ import annotations

from pathlib import Path

from benchmarks.two_jobs import run, torchrun
from tests.e2e.test_two_jobs import check_that_steep_gained
from tests.frameworks.test_training import TORCH
from tests.frameworks.training import need


def test_pods_go_to_the_torchrun_that_they_speed_up_and_none_that_stays_is_restarted(tmp_path: Path) -> None:
    need(TORCH)
    trainings = torchrun(0.5, apart=30)
    check_that_steep_gained(run("goodput", tmp_path, trainings), trainings)
