"""How long Redis' certificate is good: `tj doctor` and the metric say it, of the one that Redis really shows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.valkey import Valkey
from tests.support import tls
from tjworker.cli.checks.redis import check
from tjworker.settings import Settings
from tjworker.store.connect import open_store
from tjworker.telemetry import metrics
from watcher.gauges import Gauges
from watcher.health import WatcherReport

pytestmark = [pytest.mark.xdist_group("certificate-ends"), tls.NEEDS_OPENSSL]
DAY = 86_400
CASES = {
    "one that has just been made": (3650, "ok", "good for 3650 days more"),
    "one that is good for two weeks and a day": (15, "ok", "good for 15 days more"),
    "one that ends soon": (5, "warning", "good for 5 days more"),
}


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with Valkey(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.mark.parametrize(("days", "state", "detail"), CASES.values(), ids=list(CASES))
def test_what_is_said_of_a_certificate(days: int, state: str, detail: str, valkey: Valkey, tmp_path: Path) -> None:
    folder = tls.certify(tmp_path / "tls", "localhost", days=days)
    with tls.proxy(folder, valkey.port) as port:
        url = f"rediss://localhost:{port}/0?ssl_ca_certs={folder / 'ca.crt'}"
        [said] = [one for one in check(Settings(redis_url=url)) if one.name == "certificate"]
        assert (said.state, said.detail) == (state, detail)
        assert ("docs/operations.md" in said.advice) == (state == "warning")
        gauges = Gauges(open_store(url, "ends"), lambda: WatcherReport(leading=True, synced=True), dict)
        [ends] = [value for metric, _, value in gauges.samples() if metric is metrics.CERTIFICATE_ENDS]
        assert abs(ends - time.time() - days * DAY) < DAY


def test_without_tls_nothing_is_said(valkey: Valkey) -> None:
    assert [one.name for one in check(Settings(redis_url=valkey.url)) if one.name == "certificate"] == []
    gauges = Gauges(open_store(valkey.url, "ends"), lambda: WatcherReport(leading=True, synced=True), dict)
    assert metrics.CERTIFICATE_ENDS not in [metric for metric, _, _ in gauges.samples()]


def test_its_end_is_shown_after_redis_cannot_be_reached_any_more(valkey: Valkey, tmp_path: Path) -> None:
    """A certificate that has run out closes every new connection."""
    folder = tls.certify(tmp_path / "tls", "localhost", days=5)
    with tls.proxy(folder, valkey.port) as port:
        url = f"rediss://localhost:{port}/0?ssl_ca_certs={folder / 'ca.crt'}"
        gauges = Gauges(open_store(url, "ends"), lambda: WatcherReport(leading=True, synced=True), dict)
        before = {metric: value for metric, _, value in gauges.samples()}
    after = {metric: value for metric, _, value in gauges.samples()}
    assert (before[metrics.STORE_UP], after[metrics.STORE_UP]) == (1, 0)
    assert after[metrics.CERTIFICATE_ENDS] == before[metrics.CERTIFICATE_ENDS]
