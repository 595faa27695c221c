"""A Redis in cluster mode, which the operator cannot use: `tj doctor` and the processes say so, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from benchmarks.support.valkey import Valkey, free_port
from tests.support.waiting import until
from tjworker.base import Terminal
from tjworker.cli.checks.redis import check
from tjworker.settings import Settings
from tjworker.store.connect import open_store
from tjworker.store.port import Store

pytestmark = pytest.mark.xdist_group("cluster-mode")  # they share what its fixture starts or renders


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    # Its own port for the other servers would be 10,000 above the first one, where anything may listen.
    options = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    with Valkey(tmp_path_factory.mktemp("redis"), options=options) as server:
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE 0 16383")
            until("its slots are served", lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        yield server


def test_doctor_names_cluster_mode_and_what_to_do(clustered: Valkey) -> None:
    [said] = [one for one in check(Settings(redis_url=clustered.url)) if one.name == "cluster mode"]
    assert said.state == "failed"
    assert "TJ_REDIS_URL" in said.advice


CALLS: dict[str, Callable[[Store], object]] = {
    "a command of several keys": lambda store: store.projection.checkpoint(),
    "a script of several keys": lambda store: store.projection.reset(1),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_a_watcher_logs_names_cluster_mode_and_what_to_do(name: str, clustered: Valkey) -> None:
    store = open_store(clustered.url, "tj")
    store.projection.lead(1)
    with pytest.raises(Terminal, match=r"is in cluster mode.*TJ_REDIS_URL"):
        CALLS[name](store)


def test_a_redis_without_it_has_no_such_line(tmp_path: Path) -> None:
    with Valkey(tmp_path) as server:
        assert "cluster mode" not in {one.name for one in check(Settings(redis_url=server.url))}
