"""Published experiments, again: what the simulator says beside what was measured. Pollux' data are not part of the
project; TJ_POLLUX_DATA names their folder."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from benchmarks import edl, pollux

DATA = os.environ.get("TJ_POLLUX_DATA", "")
needs_data = pytest.mark.skipif(not DATA, reason="TJ_POLLUX_DATA names no folder with Pollux' artifact")


@cache
def replayed(case: int, policy: str) -> dict[str, float]:
    return dict(zip(edl.FIGURES, edl.replay(case, policy), strict=True))


@pytest.mark.parametrize("case", [1, 2])
@pytest.mark.parametrize("figure", edl.FIGURES)
def test_without_autoscaling_the_edl_experiment_comes_out_as_published(case: int, figure: str) -> None:
    published = dict(zip(edl.FIGURES, edl.PUBLISHED[case, "off"], strict=True))[figure]
    assert replayed(case, "off")[figure] == pytest.approx(published, rel=0.05)


UTILISATIONS = [figure for figure in edl.FIGURES if "utilisation" in figure]


@pytest.mark.parametrize("case", [1, 2])
@pytest.mark.parametrize("figure", UTILISATIONS)
def test_with_the_seeds_policy_the_cluster_is_as_full_as_published(case: int, figure: str) -> None:
    published = dict(zip(edl.FIGURES, edl.PUBLISHED[case, "on"], strict=True))[figure]
    assert replayed(case, "fulfillment")[figure] == pytest.approx(published, rel=0.10)


@needs_data
@pytest.mark.parametrize("workload", pollux.WORKLOADS)
def test_rigid_scheduling_of_pollux_workloads_takes_as_long_as_published(workload: int) -> None:
    published = pollux.PUBLISHED["Tiresias, tuned jobs"][workload]
    assert pollux.mean_completion(Path(DATA), workload, "tiresias") == pytest.approx(published, rel=0.05)
