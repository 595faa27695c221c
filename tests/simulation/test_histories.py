"""What row 10's histories come to: the acts that some mistakes need, and without which their judge sees nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.scenarios.world import job, play, role
from tests.simulation.__main__ import share_of
from tests.simulation.faults.histories import lived
from tests.simulation.histories import BUSY_SECONDS, FOR_EVER, Act, History, make_history
from tests.simulation.quiet import quiet
from tests.support.tiers import one_in


def test_a_history_comes_to_a_gpu_that_ails_for_minutes_under_a_pod_that_waits_for_its_start() -> None:
    with quiet():
        verdict, said = lived(make_history(1_000_139))
    assert said.reached["a GPU at fault is acted on"]
    assert not verdict.wrong, verdict.trace


def test_a_service_that_an_earlier_job_of_the_name_has_left_keeps_no_end() -> None:
    history = make_history(1_000_027)
    assert "service of before" in [act.what for act in history.acts]
    with quiet():
        verdict, _ = lived(history)
    assert not verdict.wrong, verdict.trace


FOUND = {
    2066: "a pod that was evicted before it had an ordinal makes no job run",
    2165: "a launcher whose workers have ended asks for no key",
    3966: "a batch Job that is complete is believed after 90 s",
    4893: "a ReplicaSet's pod waits for a group that wants more pods than there are",
    5182: "more GPUs are asked for than there are",
    6665: "a pod that its user forces out of a node was not forced out by the operator",
    7033: "the service of all pods is made again",
    7566: "what failed beside others, and began anew with them, need not count",
    9733: "the TensorBoard of an ended job goes after its time",
    11843: "a pod that is evicted before it has run may have been turned away",
    12206: "a pod of an earlier job holds the name on a node that is silent",
    15486: "a gang whose pods stay is over at once",
    17062: "a pod that is deleted before its container has run has not failed",
    17397: "one that is not wanted any more restarts nobody",
    19730: "restarts of a server's containers go with its pod",
}
"""Histories without a theme that went wrong once, by the operator's fault or the judge's."""


@pytest.mark.parametrize("seed", one_in(3, FOUND), ids=FOUND.values())
def test_a_history_that_went_wrong(seed: int) -> None:
    with quiet():
        verdict, _ = lived(make_history(seed))
    assert not verdict.wrong, f"{verdict.wrong}\n{verdict.trace}"


@pytest.mark.parametrize("share", [0.05, 0.1, 0.25, 0.5])
def test_a_share_has_histories_of_every_sort(share: float) -> None:
    """Every fourth has a theme: of a quarter, evenly spread, all had one."""
    runs = [str(number) for number in range(4_000)]
    some = share_of(runs, share)
    assert (len(some), len(set(some))) == (4_000 * share, 4_000 * share)
    assert some == share_of(runs, share), "the same each time"
    of_sort = Counter(int(run) % 4 for run in some)
    assert min(of_sort.values()) > len(some) / 8, of_sort


@pytest.mark.parametrize("before_the_calm", one_in(3, range(5, 65, 20)))
@pytest.mark.parametrize("scope", ["Pod", "All"])
@pytest.mark.parametrize("start_seconds", [1, 40])
def test_it_is_not_quiet_while_a_program_is_still_to_fail(start_seconds: int, scope: str, before_the_calm: int) -> None:
    """Its pods are made late, run 20 s and fail, four times: what the operator does then is no write without need."""
    does = {**FOR_EVER, "start_seconds": start_seconds, "failing_attempts": 4, "failing_run_seconds": 20}
    how: dict[str, Any] = {"restartPolicy": "Always", "restartScope": scope}
    roles = {"ps": role(0, annotations=play(**does), **how), "worker": role(1, annotations=play(**FOR_EVER), **how)}
    history = History(1, job(roles), (Act(BUSY_SECONDS - before_the_calm, "scale", 0, 2),))
    with quiet():
        verdict, said = lived(history)
    assert said.reached["a program that fails again and again rests"]
    assert not verdict.wrong, f"{verdict.wrong}\n{verdict.trace}"


def test_on_a_real_control_plane_a_history_holds_nothing_with_a_finalizer_and_is_else_the_same() -> None:
    simulated = [make_history(seed) for seed in range(1_000_000, 1_000_200)]
    real = [make_history(seed, simulated=False) for seed in range(1_000_000, 1_000_200)]
    assert {one.kind.guest for one in real} == {None}
    assert not [one for one in real if one.gang or "nvidia.com/gpu" in str(one.manifest)]
    assert not [act for one in real for act in one.acts if act.what == "service of before"]
    # The others are of another kind, or have GPUs, addons or a theme of their own.
    alike = [(one, two) for one, two in zip(simulated, real, strict=True) if one.manifest == two.manifest]
    assert len(alike) > 80
    for one, two in alike:
        assert tuple(act for act in one.acts if act.what != "service of before") == two.acts
    assert 3 <= sum(one.acts != two.acts for one, two in alike) <= 20
