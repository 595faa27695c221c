"""Errors of Redis become ours, with a message that says what and which Redis, never its password."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from redis import exceptions

from benchmarks.support.valkey import Valkey, free_port
from tests.conftest import RealRedis
from tests.support.queueing import acquire_one
from tjworker.base import Fenced, JobKey, Terminal, Transient
from tjworker.store.connect import client, open_store
from tjworker.store.errors import describe, translate
from tjworker.store.projection import Lost

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/a")


@dataclass(frozen=True, slots=True)
class Case:
    error: exceptions.RedisError
    want: type[Exception]
    want_words: str


CASES = {
    "refused": Case(exceptions.ConnectionError("Error 111 connecting to h:1."), Transient, "cannot be reached"),
    "silent": Case(exceptions.TimeoutError("Timeout reading from socket"), Transient, "does not answer"),
    "starting": Case(
        exceptions.BusyLoadingError("Redis is loading the dataset in memory"), Transient, "is still loading"
    ),
    "a replica": Case(exceptions.ReadOnlyError("You can't write"), Transient, "read-only replica"),
    "a replica, inside a script": Case(exceptions.ResponseError("READONLY script: 1a2b"), Transient, "read-only"),
    "full": Case(exceptions.OutOfMemoryError("command not allowed"), Transient, "no memory left"),
    "full, inside a script": Case(
        exceptions.ResponseError("OOM command not allowed script: f_1"), Transient, "no memory left"
    ),
    "busy with a script": Case(exceptions.ResponseError("BUSY Redis is busy running a script."), Transient, "is busy"),
    "its disk is full": Case(exceptions.ResponseError("MISCONF Redis is configured to save"), Transient, "its disk"),
    "a wrong password": Case(
        exceptions.AuthenticationError("invalid username-password pair"), Terminal, "TJ_REDIS_URL"
    ),
    "a script that fences": Case(exceptions.ResponseError("FENCED writer 1 by writer 2"), Fenced, "a newer holder"),
    "a script that finds nothing": Case(exceptions.ResponseError("LOST the projection has vanished"), Lost, "vanished"),
}


@pytest.mark.parametrize("sentence", CASES)
def test_translate(sentence: str) -> None:
    case = CASES[sentence]
    error = translate(case.error, "redis://h:1/0")
    assert type(error) is case.want
    assert case.want_words in str(error)


URLS = {
    "redis://user:secret@example.org:6380/2": "redis://example.org:6380/2",
    "rediss://:secret@example.org": "rediss://example.org:6379/0",
    "redis://[::1]:7000/0?password=secret": "redis://[::1]:7000/0",
    "unix://user:secret@/run/redis.sock?db=1": "unix:///run/redis.sock",
}


@pytest.mark.parametrize("url", URLS)
def test_a_message_names_the_redis_and_never_its_password(url: str) -> None:
    assert describe(url) == URLS[url]


def test_a_redis_that_is_away_is_transient_for_every_call() -> None:
    store = open_store(f"redis://:secret@127.0.0.1:{free_port()}/0", "t")
    for call in (
        store.queue.stats,
        lambda: store.projection.view(KEY),
        lambda: store.queue.add([KEY]),
        lambda: store.projection.apply(1, []),
        lambda: store.maintenance.once("x", 1),
        lambda: list(store.projection.known_keys()),
        lambda: store.queue.take_due(1),
    ):
        with pytest.raises(Transient, match="cannot be reached") as caught:
            call()
        assert "secret" not in str(caught.value)


def test_a_wrong_password_is_terminal_and_not_told(real_redis: RealRedis) -> None:
    with pytest.raises(Terminal, match="TJ_REDIS_URL") as caught:
        open_store(real_redis.url.replace("redis://", "redis://nobody:secret@"), "t").queue.stats()
    assert "secret" not in str(caught.value)


def test_scripts_that_redis_has_forgotten_are_sent_again(own_valkey: Valkey) -> None:
    store = open_store(own_valkey.url, "t")
    store.queue.add([KEY])
    client(own_valkey.url).script_flush()
    assert acquire_one(store.queue, KEY, "worker", 30)
    own_valkey.kill()
    with pytest.raises(Transient):
        store.queue.add([KEY])
    own_valkey.start()
    assert store.queue.add([JobKey("aitrainingjobs.elasticdeeplearning.ai/default/b")])


def test_a_connection_that_redis_has_closed_costs_no_error(own_valkey: Valkey) -> None:
    store = open_store(own_valkey.url, "t")
    store.projection.lead(1)
    store.projection.view(KEY)
    client(own_valkey.url).client_kill_filter(_type="normal", skipme=True)
    store.projection.view(KEY)
    store.queue.stats()
