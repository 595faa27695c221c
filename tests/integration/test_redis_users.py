"""The users of Redis that k8s/secrets.sh makes, on a real Redis: what each may do, and what it may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from benchmarks.support.valkey import Valkey
from tests.integration.manifests import redis_secret
from tests.support.waiting import until

pytestmark = pytest.mark.xdist_group("redis-users")  # they share what its fixture starts or renders

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
    ("CLIENT", "TRACKING", "ON"),
    ("MONITOR",),
    ("RANDOMKEY",),
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
    ("PUBLISH", "/0.tj.control.pidbox", "x"),
    ("RPUSH", "1.reply.tj.control.pidbox", "x"),
    ("SCRIPT", "LOAD", "return 1"),
    ("PING",),
)
LOOKS = (("INFO",), ("SCAN", "0"))
LOOKED_AT = (
    ("HGETALL", "tj:job:a"),
    ("HMGET", "tj:writer", "seq"),
    ("SSCAN", "tj:jobs:known", "0"),
    ("MGET", "tj:lock:a"),
    ("ZRANGE", "tj:history:jobs", "0", "-1"),
    ("ZRANGEBYSCORE", "tj:queue:running", "0", "+inf"),
    ("HGETALL", "tj:history:job:default/a"),
    ("SCRIPT", "LOAD", "return 1"),
    ("PING",),
)
WRITES = (("HSET", "tj:history:job:default/a", "summary", "x"), ("UNLINK", "tj:job:a"), ("EXPIRE", "tj:job:a", "1"))
STRANGERS = (
    ("GET", "other:key"),
    ("SET", "other:key", "1"),
    ("GET", "tj2:writer"),
    ("LPUSH", "tj2", "a message"),
    ("PUBLISH", "/0.tj2.control.pidbox", "x"),
    ("PUBLISH", "anything", "x"),
    ("PSUBSCRIBE", "*"),
    ("PSUBSCRIBE", "/0.tj*"),
)


@dataclass(frozen=True)
class User:
    may: tuple[tuple[str, ...], ...]
    may_not: tuple[tuple[str, ...], ...]


USERS = {
    "tj": User((*RECORDS, *MESSAGES, *LOOKS), (*ADMINISTERS, *STRANGERS)),
    "tj-tasks": User(MESSAGES, (*ADMINISTERS, *STRANGERS, *RECORDS, *LOOKS)),
    "tj-page": User(LOOKED_AT, (*ADMINISTERS, *STRANGERS, *MESSAGES[:4], *LOOKS, *RECORDS[1:], *WRITES)),
    "probe": User((("PING",),), (*ADMINISTERS, *STRANGERS, *RECORDS, *LOOKS, *MESSAGES[:-1])),
    "default": User((), (*ADMINISTERS, *STRANGERS, *RECORDS, *MESSAGES)),
}


@contextmanager
def with_users(folder: Path, *options: str) -> Iterator[tuple[Valkey, dict[str, str]]]:
    """A Redis with the users of the Secret; and their passwords."""
    data = redis_secret()
    urls = [data["url"], data["tasks-url"], data["page-url"]]
    passwords = {url.split("//")[1].split(":")[0]: url.split(":")[2].split("@")[0] for url in urls}
    with Valkey(folder, options=options) as server:
        with redis.Redis.from_url(server.url) as admin:
            for line in data["users.acl"].splitlines():
                word, name, *rules = line.split()
                assert word == "user"
                if name != "default":
                    admin.execute_command("ACL", "SETUSER", name, *rules)
            admin.execute_command("ACL", "SETUSER", "default", "off")
        yield server, passwords


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Valkey, dict[str, str]]]:
    with with_users(tmp_path_factory.mktemp("redis")) as found:
        yield found


@pytest.mark.parametrize("name", USERS)
def test_a_user_may_do_what_its_processes_need_and_nothing_else(
    name: str, server: tuple[Valkey, dict[str, str]]
) -> None:
    valkey, passwords = server
    port = valkey.port
    at_once = Retry(NoBackoff(), 0)  # a login that is refused is no outage
    with redis.Redis(port=port, username=name, password=passwords.get(name, "any"), retry=at_once) as client:
        for command in USERS[name].may:
            client.execute_command(*command)
        for command in USERS[name].may_not:
            with pytest.raises(redis.RedisError, match=r"(?i)no permissions|WRONGPASS|invalid username|NOAUTH"):
                client.execute_command(*command)


def test_a_script_that_never_ends_is_what_the_probes_see(tmp_path: Path) -> None:
    """kombu needs scripts, so that nobody who sends messages can do without. No user may kill one: a restart does."""
    at_once = Retry(NoBackoff(), 0)
    with with_users(tmp_path, "--lua-time-limit", "50") as (valkey, passwords):

        def client(name: str, **options: int) -> redis.Redis:
            password = passwords.get(name, "any")
            return redis.Redis(port=valkey.port, username=name, password=password, retry=at_once, **options)  # type: ignore[arg-type]

        with client("tj-tasks", socket_timeout=3) as tasks, client("probe") as probe:
            assert probe.ping()
            endless = tasks.script_load("while true do end")
            with pytest.raises(redis.TimeoutError):
                tasks.evalsha(endless, 0)

            def says_busy() -> bool:
                try:
                    return not probe.ping()
                except redis.ResponseError as error:
                    return "BUSY" in str(error)

            until("Redis answers that it is busy", says_busy)
