"""What somebody else may have written into Redis and nobody of ours ever does, put right: keys of another type, leases
and facts without an end, times from the future.

It touches no record: these are sealed. Safe to run twice, and beside everything else.
"""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.store.keys import BY_NAME, KEYS, Key
from tjworker.store.redis_commands import KEYS_PER_CALL, RedisCommands, batches, milliseconds


def repair(commands: RedisCommands, *, lease_seconds: float, everything: bool) -> int:
    """How many entries were put right. `everything`: the keys of each job, too, and Celery's; all of Redis is walked
    through, some at a time."""
    lease = milliseconds(lease_seconds)
    most = {"lock": lease, **{key.name: milliseconds(key.ttl_seconds) for key in KEYS if key.ttl_seconds}}
    found: dict[str, list[bytes]] = {key.name: [key.of(commands.prefix).encode()] for key in KEYS if key.is_one}
    if everything:
        for name, stored in _of_many(commands):
            found.setdefault(name, []).append(stored)
    repaired = _bindings(commands)
    for name, keys in found.items():
        for part in batches(keys, KEYS_PER_CALL):
            repaired += commands.run("repair", name, _type(BY_NAME[name]), most.get(name, ""), *part)
    return int(repaired + commands.run("repair_queue", lease))


def _bindings(commands: RedisCommands) -> int:
    """kombu's: each process writes them when it connects, and could not where they are no sets. What stands in them
    counts for nothing: tasks are sent to their queue by its name."""
    prefix, repaired = commands.prefix, 0
    for exchange in ("{}", "{}.periodic", "{}.control.pidbox", "reply.{}.control.pidbox", "{}.events"):
        repaired += int(commands.run("repair", "binding", "set", "", f"_kombu.binding.{exchange.format(prefix)}"))
    return repaired


def _of_many(commands: RedisCommands) -> Iterator[tuple[str, bytes]]:
    """(name of its row, key) of every key of which there is one a job, or one a name."""
    stems = {key.of(commands.prefix).encode(): key.name for key in KEYS if not key.is_one}
    with commands.mapped():
        for stored in commands.client.scan_iter(match=f"{commands.prefix}:*", count=KEYS_PER_CALL):
            for stem, name in stems.items():
                if stored.startswith(stem):
                    yield name, stored


def _type(key: Key) -> str:
    """As Redis calls it."""
    return {"sorted set": "zset"}.get(key.type, key.type)
