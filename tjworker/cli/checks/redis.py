"""Redis: is it there, does it take writes, is it new enough, does it keep what it is given, does its clock agree. Uses
INFO, PING, TIME and an empty SETRANGE only, which the shipped ACL user of watcher and workers may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from time import monotonic, time
from typing import Any

import redis

from tjworker.cli.checks.check import Check, Subject
from tjworker.settings import Settings
from tjworker.store.certificate import SOON_SECONDS, certificate_ends
from tjworker.store.connect import client
from tjworker.store.errors import describe, translate

SUBJECT = Subject("Redis")
OLDEST = (7, 0)
"""docs/redis.md; a Valkey calls itself redis_version 7.2.4 for those who ask for that."""
DISK = "look at its log: most often the disk is full or not writable. It takes writes again once that is mended"


def check(settings: Settings, clock_seconds: Callable[[], float] = time) -> list[Check]:
    where = describe(settings.redis_url)
    try:
        with client(settings.redis_url) as connection:
            began = monotonic()
            connection.ping()
            took_ms = 1000 * (monotonic() - began)
            info: Mapping[str, Any] = connection.info()
            seconds, microseconds = connection.time()
            ends = certificate_ends(connection)
            takes_writes = writable(connection, settings.key_prefix, where)
    except redis.RedisError as error:
        if str(error).startswith("MISCONF"):
            # Redis refuses PING, too, so `writable` was not reached.
            return [SUBJECT.failed("takes writes", _why(error, where), DISK)]
        advice = "start it, or correct TJ_REDIS_URL; `tj up` brings one of its own"
        return [SUBJECT.failed("reachable", _why(error, where), advice)]
    return [
        SUBJECT.ok("reachable", f"{where}, answers in {took_ms:.1f} ms"),
        takes_writes,
        *([cluster_mode()] if info.get("cluster_enabled") else []),
        version(info),
        persistence(info),
        eviction(info),
        SUBJECT.clock(seconds + microseconds / 1e6 - clock_seconds(), 1, "ages and times in messages will be wrong"),
        *([] if ends is None else [certificate(ends - clock_seconds())]),
    ]


def _why(error: redis.RedisError, where: str) -> str:
    translated = translate(error, where)
    return getattr(translated, "message", str(translated)).removesuffix("; trying again")


def writable(connection: redis.Redis, prefix: str, where: str) -> Check:
    """A write of nothing into a string that is not there: refused wherever a write is, by a replica, a full memory or
    disk, or the user's ACL, and changes nothing."""
    try:
        connection.setrange(f"{prefix}:doctor", 0, "")
    except redis.ConnectionError:
        # Redis has gone away since the first command: `check` reports it as unreachable, not as refusing writes.
        raise
    except redis.RedisError as error:
        advice = "name the primary in TJ_REDIS_URL; of a primary: free its memory or disk, or give its user the ACL"
        return SUBJECT.failed("takes writes", _why(error, where), f"{advice} of docs/redis.md")
    return SUBJECT.ok("takes writes", "yes")


def cluster_mode() -> Check:
    advice = (
        "name a Redis without it in TJ_REDIS_URL (`cluster-enabled no`); see A Redis of your own in docs/operations.md"
    )
    return SUBJECT.failed("cluster mode", "on: one script changes keys of several slots, which it refuses", advice)


def version(info: Mapping[str, Any]) -> Check:
    text = str(info.get("redis_version", ""))
    numbers = tuple(int(n) for n in re.findall(r"\d+", text)[:2])
    shown = f"Valkey {info['valkey_version']}" if info.get("valkey_version") else f"Redis {text or '(unknown version)'}"
    if numbers < OLDEST:
        return SUBJECT.failed("version", shown, f"use Redis or Valkey {OLDEST[0]}.{OLDEST[1]} or newer")
    return SUBJECT.ok("version", shown)


def persistence(info: Mapping[str, Any]) -> Check:
    if not info.get("aof_enabled"):
        return SUBJECT.warning(
            "persistence",
            "appendonly is off",
            "set `appendonly yes`: without it a restart of Redis costs the time of a new listing of the cluster, and "
            "Celery the tasks that were queued (no job is lost)",
        )
    status = str(info.get("aof_last_write_status", "ok"))
    if status != "ok":
        return SUBJECT.failed("persistence", f"aof_last_write_status is {status}", DISK)
    return SUBJECT.ok("persistence", "append-only file is on")


def eviction(info: Mapping[str, Any]) -> Check:
    policy, limit = str(info.get("maxmemory_policy", "unknown")), int(info.get("maxmemory", 0))
    used = f"{int(info.get('used_memory', 0)) / 1e6:.1f} MB used of {f'{limit / 1e6:.0f} MB' if limit else 'no limit'}"
    if policy == "noeviction":
        return SUBJECT.ok("eviction", f"maxmemory-policy noeviction, {used}")
    return Check(
        SUBJECT,
        "eviction",
        # Without maxmemory Redis evicts nothing, whatever its policy.
        "failed" if limit else "warning",
        f"maxmemory-policy {policy}, {used}",
        "set `maxmemory-policy noeviction`: a Redis that evicts what it likes makes the watcher list again and again",
    )


def certificate(left_seconds: float) -> Check:
    detail = f"good for {left_seconds / 86_400:.0f} days more"
    if left_seconds < SOON_SECONDS:
        advice = "make another: `sh k8s/secrets.sh certificate | kubectl apply --server-side -f -`, then restart Redis"
        return SUBJECT.warning("certificate", detail, f"{advice}; see TLS to Redis in docs/operations.md")
    return SUBJECT.ok("certificate", detail)
