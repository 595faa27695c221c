"""Repairs values in Redis that the operator cannot have written: keys of another type, leases and facts that never
expire, times in the future (ADR 19).

Leaves records alone, since these are sealed. Safe to run twice, and at any time.
"""

from __future__ import annotations

from collections.abc import Iterator

from tjworker.store.keys import BY_NAME, KEYS, Key
from tjworker.store.redis_commands import KEYS_PER_CALL, RedisCommands, batches, milliseconds


def repair(commands: RedisCommands, *, lease_seconds: float, everything: bool) -> int:
    """Repair the queue, and with `everything` also the keys of each job. Returns how many entries were repaired."""
    lease = milliseconds(lease_seconds)
    most = {"lock": lease, **{key.name: milliseconds(key.ttl_seconds) for key in KEYS if key.ttl_seconds}}
    found: dict[str, list[bytes]] = {key.name: [key.of(commands.prefix).encode()] for key in KEYS if key.is_one}
    if everything:
        # Only a scan of all of Redis finds them: an attacker may have made keys for jobs that do not exist.
        for name, stored in _scan_job_keys(commands):
            found.setdefault(name, []).append(stored)
    repaired = _repair_bindings(commands)
    for name, keys in found.items():
        for part in batches(keys, KEYS_PER_CALL):
            repaired += commands.run("repair", name, _redis_type(BY_NAME[name]), most.get(name, ""), *part)
    return int(repaired + commands.run("repair_queue", lease))


def _repair_bindings(commands: RedisCommands) -> int:
    """Repair kombu's bindings. Returns how many were repaired."""
    # Each process writes them when it connects, which fails if they are not sets. Their content does not matter: tasks
    # are sent to their queue by its name.
    prefix, repaired = commands.prefix, 0
    for exchange in ("{}", "{}.periodic", "{}.control.pidbox", "reply.{}.control.pidbox", "{}.events"):
        repaired += int(commands.run("repair", "binding", "set", "", f"_kombu.binding.{exchange.format(prefix)}"))
    return repaired


def _scan_job_keys(commands: RedisCommands) -> Iterator[tuple[str, bytes]]:
    """(name of the row, key) of each key that belongs to a row with many keys."""
    stems = {key.of(commands.prefix).encode(): key.name for key in KEYS if not key.is_one}
    with commands.mapped():
        # SCAN, since KEYS would stop Redis for as long as it has keys. A key that SCAN gives twice is repaired once.
        for stored in commands.client.scan_iter(match=f"{commands.prefix}:*", count=KEYS_PER_CALL):
            for stem, name in stems.items():
                if stored.startswith(stem):
                    yield name, stored


def _redis_type(key: Key) -> str:
    """The name that Redis' TYPE gives."""
    return {"sorted set": "zset"}.get(key.type, key.type)
