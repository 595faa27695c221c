"""The benchmark of parts: what it times is there, times add up, and its jobs come to Running."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import parts
from benchmarks.support.valkey import Valkey


def test_a_part_is_told_without_the_parts_that_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("benchmarks.parts.time.thread_time", lambda: clock[0])

    def spends(seconds: float) -> None:
        clock[0] += seconds

    ledger = parts.Ledger()
    inner = ledger.timed(("it", "inner"), lambda: spends(2))

    def calls() -> None:
        spends(1)
        inner()
        inner()
        spends(3)

    ledger.timed(("it", "outer"), calls)()
    assert ledger.seconds[("it", "outer")] == 4
    assert ledger.seconds[("it", "inner")] == 4
    assert ledger.calls[("it", "inner")] == 2


def test_jobs_come_to_running_and_each_call_is_counted(tmp_path: Path) -> None:
    with Valkey(tmp_path) as server:
        found = parts.measure(server.url, jobs=4, replicas=2, at_once=2)
    calls = {what: calls for (_, what), (calls, _) in found.parts.items()}
    # On a slow machine a second may pass, after which a job is looked at once more.
    assert calls["claims and views: client of Redis"] >= 4, "two passes of two jobs"
    assert calls["finish: client of Redis"] >= 4
    assert calls["status to JSON"] >= 4
    told = [[cell.strip() for cell in line.strip("|").split("|")] for line in parts.render(found)]
    timed = {(whose, what) for whose, what in parts.PARTS.values() if whose}
    assert len(told) == 2 + len({whose for whose, _ in timed}) + len(found.parts) + 3
    assert found.trips >= 4 * 3, "of each task the keys, their views and the release, and the watcher's share"
    assert all(float(row[3].strip("*")) >= 0 for row in told[2:-2])
