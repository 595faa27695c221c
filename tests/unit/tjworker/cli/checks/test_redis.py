"""What `tj doctor` says of a Redis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis import Redis, ResponseError

from benchmarks.support.valkey import Valkey, free_port
from tjworker.cli.checks import redis
from tjworker.cli.checks.check import State
from tjworker.settings import Settings

GOOD = {
    "redis_version": "7.2.4",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
    "used_memory": 2_000_000,
}


@dataclass(frozen=True)
class Case:
    info: dict[str, Any]
    name: str
    want_state: State
    want_detail: str


CASES: dict[str, Case] = {
    "a Redis of today is new enough": Case({}, "version", "ok", "Redis 7.2.4"),
    "a Valkey is called what it is": Case({"valkey_version": "9.1.2"}, "version", "ok", "Valkey 9.1.2"),
    "the oldest that will do": Case({"redis_version": "7.0.0"}, "version", "ok", "7.0.0"),
    "the newest that will not": Case({"redis_version": "6.9.9"}, "version", "failed", "6.9.9"),
    "an append-only file is good": Case({}, "persistence", "ok", "append-only"),
    "none is a warning: it costs time only": Case({"aof_enabled": 0}, "persistence", "warning", "appendonly is off"),
    "one that cannot be written is a failure": Case({"aof_last_write_status": "err"}, "persistence", "failed", "err"),
    "eviction with a limit is a failure": Case(
        {"maxmemory_policy": "allkeys-lru", "maxmemory": 64_000_000}, "eviction", "failed", "2.0 MB used of 64 MB"
    ),
    "eviction that cannot happen yet is a warning": Case(
        {"maxmemory_policy": "allkeys-lru"}, "eviction", "warning", "allkeys-lru"
    ),
}
JUDGES = {"version": redis.version, "persistence": redis.persistence, "eviction": redis.eviction}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_is_said_of_info(case: Case) -> None:
    found = JUDGES[case.name]({**GOOD, **case.info})
    assert (found.name, found.state) == (case.name, case.want_state)
    assert case.want_detail in found.detail
    assert bool(found.advice) == (case.want_state != "ok")


def test_a_real_one_without_persistence_is_fit_but_for_that(redis_url: str) -> None:
    found = {check.name: check.state for check in redis.check(Settings(redis_url=redis_url))}
    fit = dict.fromkeys(("reachable", "takes writes", "version", "eviction", "clock"), "ok")
    assert found == fit | {"persistence": "warning"}


def test_one_that_is_away_or_refuses_is_one_failure_without_the_password(tmp_path: Path) -> None:
    away = redis.check(Settings(redis_url=f"redis://:geheim@127.0.0.1:{free_port()}/0"))
    with Valkey(tmp_path) as server:
        refusing = redis.check(Settings(redis_url=server.url.replace("redis://", "redis://nobody:geheim@")))
    for found in (away, refusing):
        assert [check.state for check in found] == ["failed"]
        assert "geheim" not in repr(found)
        assert "127.0.0.1" in found[0].detail


def test_one_whose_disk_is_full_is_not_said_to_be_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Redis) -> bool:
        raise ResponseError("MISCONF Errors writing to the AOF file: No space left on device")

    monkeypatch.setattr(Redis, "ping", refuse)
    (found,) = redis.check(Settings(redis_url="redis://127.0.0.1:1/0"))
    assert (found.name, found.state) == ("takes writes", "failed")
    assert "cannot write to its disk: MISCONF" in found.detail
    assert "the disk is full" in found.advice
