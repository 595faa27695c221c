"""The users of Redis that k8s/secrets.sh makes, on a real Redis: what each may do, and what it may not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from benchmarks.support.valkey import Valkey
from tests.integration.manifests import redis_secret

ADMINISTERS = (
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("ACL", "LIST"),
    ("KEYS", "*"),
    ("SCRIPT", "FLUSH"),
    ("SCRIPT", "KILL"),
    ("FUNCTION", "FLUSH"),
    ("FUNCTION", "LIST"),
    ("CLIENT", "LIST"),
    ("SHUTDOWN",),
)
RECORDS = (
    ("HGETALL", "tj:job:a"),
    ("HSET", "tj:writer", "token", "1"),
    ("ZADD", "tj:queue:dirty", "1", "a"),
    ("SET", "tj:lock:a", "1"),
    ("SET", "tj:once:resync", "1"),
)
MESSAGES = (
    ("LPUSH", "tj", "a message"),
    ("LLEN", "tj"),
    ("SADD", "_kombu.binding.tj", "x"),
    ("PUBLISH", "/0.tj.control", "x"),
    ("RPUSH", "1.reply.tj.control.pidbox", "x"),
    ("INFO",),
    ("PING",),
)
STRANGERS = (("GET", "other:key"), ("SET", "other:key", "1"))


@dataclass(frozen=True)
class User:
    may: tuple[tuple[str, ...], ...]
    may_not: tuple[tuple[str, ...], ...]


USERS = {
    "tj": User((*RECORDS, *MESSAGES, ("SCRIPT", "LOAD", "return 1")), (*ADMINISTERS, *STRANGERS)),
    "tj-tasks": User(MESSAGES, (*ADMINISTERS, *STRANGERS, *RECORDS)),
    "probe": User((("PING",),), (*ADMINISTERS, *STRANGERS, *RECORDS, *MESSAGES[:-1])),
    "default": User((), (*ADMINISTERS, *STRANGERS, *RECORDS, *MESSAGES)),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Valkey, dict[str, str]]]:
    """With the users of the Secret; and their passwords."""
    data = redis_secret()
    urls = [data["url"], data["tasks-url"]]
    passwords = {url.split("//")[1].split(":")[0]: url.split(":")[2].split("@")[0] for url in urls}
    with Valkey(Path(tmp_path_factory.mktemp("redis"))) as server:
        with redis.Redis.from_url(server.url) as admin:
            for line in data["users.acl"].splitlines():
                word, name, *rules = line.split()
                assert word == "user"
                if name != "default":
                    admin.execute_command("ACL", "SETUSER", name, *rules)
            admin.execute_command("ACL", "SETUSER", "default", "off")
        yield server, passwords


@pytest.mark.parametrize("name", USERS)
def test_a_user_may_do_what_its_processes_need_and_nothing_else(
    name: str, server: tuple[Valkey, dict[str, str]]
) -> None:
    valkey, passwords = server
    port = int(valkey.url.split(":")[2].split("/")[0])
    at_once = Retry(NoBackoff(), 0)  # a login that is refused is no outage
    with redis.Redis(port=port, username=name, password=passwords.get(name, "any"), retry=at_once) as client:
        for command in USERS[name].may:
            client.execute_command(*command)
        for command in USERS[name].may_not:
            with pytest.raises(redis.RedisError, match=r"(?i)no permissions|WRONGPASS|invalid username|NOAUTH"):
                client.execute_command(*command)
