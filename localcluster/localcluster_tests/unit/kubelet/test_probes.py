"""Probes count results in a row, as the kubelet's prober does (kubernetes `pkg/kubelet/prober/worker.go`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from localcluster.kubelet.probes import Prober


@dataclass(frozen=True)
class Case:
    kind: str
    results: str
    """`+` a success, `-` a failure, one a period."""
    want: str
    """After each: `r` ready, `.` not ready, `!` the container is given up."""
    success: int = 1
    failure: int = 3


CASES: dict[str, Case] = {
    "ready at the first success": Case("readiness", "+", "r"),
    "ready at the first success, however often it failed before": Case("readiness", "------+", "......r"),
    "two in a row are asked for: a failure between them starts from zero": Case("readiness", "+-++", "...r", success=2),
    "two in a row after many failures": Case("readiness", "-----++", "......r", success=2),
    "ready until three failures in a row": Case("readiness", "+--+---", "rrrrrr."),
    "however often it succeeded before": Case("readiness", "+++++++---", "rrrrrrrrr."),
    "one failure is enough where that is asked for": Case("readiness", "+-+", "r.r", failure=1),
    "given up after three failures in a row": Case("liveness", "+--+---", "rrrrrr!"),
    "and at once when it has never succeeded": Case("liveness", "---", "rr!"),
    "started at the first success, after two failures": Case("startup", "--+", "..r"),
    "given up when it has not started by then": Case("startup", "---", "..!"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_results_in_a_row(case: Case) -> None:
    probe: dict[str, Any] = {"successThreshold": case.success, "failureThreshold": case.failure, "periodSeconds": 7}
    prober = Prober.of("k", {"name": "main", f"{case.kind}Probe": probe}, 100.0)
    seen = ""
    for number, result in enumerate(case.results):
        now = 100.0 + 7 * number
        assert prober.due(now - 0.5) == []
        assert prober.due(now) == [case.kind]
        prober.take(case.kind, result == "+", now)
        seen += "!" if prober.must_restart else "r" if prober.ready else "."
    assert seen == case.want


def test_no_other_probe_runs_before_the_container_has_started() -> None:
    container = {"name": "main", **{f"{kind}Probe": {"periodSeconds": 1} for kind in ("startup", "readiness")}}
    prober = Prober.of("k", container, 0.0)
    assert prober.due(5.0) == ["startup"]
    prober.take("startup", True, 5.0)
    assert (prober.due(5.0), prober.ready) == (["readiness"], False)
    prober.take("readiness", True, 5.0)
    assert prober.ready
