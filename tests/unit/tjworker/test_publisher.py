"""The publisher: one task for keys that come together, nothing forgotten while Redis is away, never a long silence."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64decode
from typing import Any

import pytest

from benchmarks.support.valkey import Valkey
from tjworker.app import make_app
from tjworker.base import KEYS_PER_TASK, JobKey, Transient
from tjworker.publisher import RECONCILE, Publisher, describe_keys
from tjworker.settings import Settings
from tjworker.store.connect import client

A, B, C = (JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/{name}") for name in "abc")


def messages(server: Valkey) -> list[tuple[str, list[str]]]:
    """(task, arguments) of each message in Celery's queue, the oldest first."""
    with client(server.url) as redis:
        raw = [json.loads(message) for message in reversed(redis.lrange("tj", 0, -1))]
    return [(message["headers"]["task"], json.loads(b64decode(message["body"]))[0]) for message in raw]


def test_keys_wait_while_redis_is_away_and_go_first_when_it_is_back(own_valkey: Valkey) -> None:
    publisher = Publisher(Settings(redis_url=own_valkey.url))
    publisher.publish([A])
    own_valkey.kill()
    with pytest.raises(Transient, match="1 keys wait to be published"):
        publisher.publish([B])
    with pytest.raises(Transient, match=f"2 keys wait to be published: Redis at redis://127.0.0.1:{own_valkey.port}/0"):
        publisher.publish([C])
    assert publisher.waiting == 2
    own_valkey.start()
    assert publisher.publish([]) == 2
    assert [arguments for _, arguments in messages(own_valkey)][-1:] == [[B]], "with C"
    assert publisher.waiting == 0


def test_many_keys_are_a_task_for_every_sixteen_in_their_order(own_valkey: Valkey) -> None:
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/job-{n}") for n in range(450)]
    assert Publisher(Settings(redis_url=own_valkey.url)).publish(keys) == 450
    assert messages(own_valkey) == [(RECONCILE, [key]) for key in keys[::KEYS_PER_TASK]]


def test_a_redis_that_was_started_again_in_between_costs_no_error(own_valkey: Valkey) -> None:
    """The producer's connection is dead by then, one key or many."""
    publisher = Publisher(Settings(redis_url=own_valkey.url))
    for keys in ([A], [A, B, C]):
        publisher.publish([A, B])
        own_valkey.kill()
        own_valkey.start()
        assert publisher.publish(keys) == len(keys)
        assert JobKey(messages(own_valkey)[-1][1][0]) == keys[0]


def test_a_key_that_waits_twice_is_published_once(own_valkey: Valkey) -> None:
    publisher = Publisher(Settings(redis_url=own_valkey.url))
    own_valkey.kill()
    for _ in range(2):
        with pytest.raises(Transient):
            publisher.publish([A])
    own_valkey.start()
    assert publisher.publish([A]) == 1


def test_after_flushall_tasks_still_reach_the_queue(own_valkey: Valkey) -> None:
    """A binding kept in Redis would be gone, and the messages with it."""
    publisher = Publisher(Settings(redis_url=own_valkey.url))
    publisher.publish([A])
    with client(own_valkey.url) as redis:
        redis.flushall()
    publisher.publish([B])
    assert messages(own_valkey) == [(RECONCILE, [B])]


OWN = ("id", "root_id", "correlation_id", "delivery_tag", "reply_to", "origin")
"""What no two messages of two processes share."""


def flat(message: Any) -> dict[str, Any]:
    """Path -> value; the body as Celery reads it."""
    message = message | {"body": json.loads(b64decode(message["body"]))}
    parts = {"headers": message.pop("headers"), "properties": message.pop("properties"), "": message}
    return {f"{part}.{name}": value for part, fields in parts.items() for name, value in fields.items()}


@pytest.mark.parametrize("keys", [[A], [A, B, C], [JobKey('x/y/caf\u00e9 \udcff"')]], ids=["one", "several", "no key"])
def test_a_message_is_what_celery_sends(keys: list[JobKey], own_valkey: Valkey) -> None:
    settings = Settings(redis_url=own_valkey.url, key_prefix="blue")
    with make_app(settings) as app:
        app.send_task(RECONCILE, (keys[0],), argsrepr=describe_keys(keys))
        Publisher(settings).publish(keys)
        with client(own_valkey.url) as redis:
            ours, celerys = (flat(json.loads(message)) for message in redis.lrange("blue", 0, -1))
    assert list(ours) == list(celerys), "the same fields in the same order"
    own = {path for path in ours if path.partition(".")[2] in OWN}
    assert len(own) == len(OWN)
    assert {path: ours[path] for path in ours if path not in own} == {
        path: celerys[path] for path in celerys if path not in own
    }
    for path in own:
        assert [len(part) for part in ours[path].split("-")] == [len(part) for part in celerys[path].split("-")], path
    assert ours["headers.id"] == ours["headers.root_id"] == ours["properties.correlation_id"]


def test_the_watcher_does_not_load_celery() -> None:
    code = "import sys, watcher.__main__; print([m for m in sys.modules if m.partition('.')[0] in ('celery', 'kombu')])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"
