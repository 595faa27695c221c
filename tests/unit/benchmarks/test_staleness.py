"""The benchmark of staleness: every change is written once, and its table says how late."""

from __future__ import annotations

from pathlib import Path

from benchmarks import staleness
from benchmarks.support.valkey import Valkey


def test_the_staleness_of_every_change_is_told(tmp_path: Path) -> None:
    with Valkey(tmp_path) as server:
        found = staleness.measure(server.url, pods=100, rate=100, seconds=1)
    assert len(found.seconds) == 100
    assert min(found.seconds) > 0


def test_the_table_has_a_row_for_each_rate() -> None:
    late = staleness.Late(20_000, 500, tuple(n / 1000 for n in range(1, 1001)), cpu_seconds=5, lasted=10)
    assert list(staleness.render([late]))[2:] == ["| 20,000 | 500 | 501 | 991 | 1000 | 0.50 | 10.0 |"]
