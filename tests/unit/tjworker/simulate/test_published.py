"""Published experiments, again: what the simulator says beside what was measured. Pollux' data are not part of the
project; TJ_POLLUX_DATA names their folder."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from benchmarks import edl, pollux

DATA = os.environ.get("TJ_POLLUX_DATA", "")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("edl"),  # figures of one replay are in one process
]
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


# Figure of the EDL experiment -> (least, most) under `fair`.
FAIR: dict[int, dict[str, tuple[float, float]]] = {
    1: {
        "pending per job, s": (0, 10),
        "Jain's index of trainers at 410 s": (0.95, 1),
        # Three 5-CPU trainers fit on a node of 17.65 CPUs, so 88.7 % is all that there is.
        "utilisation 350 to 550 s, %": (88, 89),
    },
    2: {
        "pending per job, s": (0, 10),
        "utilisation 350 to 550 s, %": (88, 100),
        "service pods missing 30 s after the last two steps, %": (0, 2),
    },
}


@pytest.mark.parametrize(("case", "figure"), [(case, figure) for case, figures in FAIR.items() for figure in figures])
def test_fair_shares_the_edl_experiment_out_evenly_and_soon(case: int, figure: str) -> None:
    least, most = FAIR[case][figure]
    assert least <= replayed(case, "fair")[figure] <= most


@needs_data
@pytest.mark.long
@pytest.mark.parametrize(("policy", "most"), [("fair", 2800), ("throughput", 2600), ("goodput", 2350)])
def test_the_mean_completion_time_on_pollux_workloads(policy: str, most: float) -> None:
    """Models are learned from reports. Pollux' own mean on these five is 2,479 s."""
    means = [completion(workload, policy) for workload in pollux.WORKLOADS]
    assert sum(means) / len(means) <= most, means


@needs_data
@pytest.mark.long
@pytest.mark.parametrize("workload", pollux.WORKLOADS)
def test_goodput_is_faster_than_pollux_on_each_of_its_workloads(workload: int) -> None:
    assert completion(workload, "goodput") < pollux.PUBLISHED["Pollux"][workload]


@needs_data
@pytest.mark.long
def test_goodput_of_jobs_that_report_their_speed_alone() -> None:
    means = [completion(workload, "goodput", reports_progress=False) for workload in pollux.WORKLOADS]
    assert sum(means) / len(means) <= 2600, means


@cache
def completion(workload: int, policy: str, *, reports_progress: bool = True) -> float:
    return pollux.mean_completion(Path(DATA), workload, policy, reports_progress=reports_progress)
