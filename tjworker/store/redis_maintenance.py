"""Clock, turns and repair in Redis. Keeps no state. Thread-safe."""

from __future__ import annotations

from tjworker.store.certificate import certificate_ends
from tjworker.store.redis_commands import RedisCommands, milliseconds
from tjworker.store.redis_repair import repair


class RedisMaintenance:
    def __init__(self, commands: RedisCommands) -> None:
        self._redis = commands

    def once(self, name: str, period_seconds: float) -> bool:
        key = self._redis.key("once", name)
        with self._redis.mapped():
            period = milliseconds(period_seconds)
            # Two beats may run at once, and their tasks may come late or twice. The first caller of a period wins.
            if self._redis.client.set(key, 1, nx=True, px=period):
                return True
            # A key that expires later than a period, or never, was written by a stranger and would stop the task. Give
            # it the expiry of a period, and let this call be the one of the period.
            return bool(self._redis.client.pexpire(key, period, lt=True))

    def time(self) -> float:
        def ask() -> float:
            seconds, microseconds = self._redis.client.time()
            return float(seconds) + float(microseconds) / 1e6

        return self._redis.read(ask)

    def certificate_ends(self) -> float | None:
        return self._redis.read(lambda: certificate_ends(self._redis.client))

    def repair(self, *, lease_seconds: float, everything: bool) -> int:
        return repair(self._redis, lease_seconds=lease_seconds, everything=everything)
