"""What row 10's histories come to: the acts that some mistakes need, and without which their judge sees nothing."""

from __future__ import annotations

from tests.simulation.faults.histories import lived
from tests.simulation.histories import make_history
from tests.simulation.quiet import quiet


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
