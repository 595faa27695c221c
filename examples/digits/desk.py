"""The master's desk, where trainers come for shards: who is here, who holds what, who has gone. No disk, no parameters.

Called from one thread for each connection and from the master's main loop; one lock guards all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from examples.digits.data import Digits, shard
from examples.digits.rpc import Session, say
from examples.digits.taskqueue import Lease, TaskQueue
from examples.digits.wire import Message, ProtocolError

ANSWER_WITHIN_SECONDS = 1.0
"""How long a trainer that asks for a shard is kept waiting for one before it is told to ask again."""


@dataclass(frozen=True, slots=True)
class Learning:
    shard_rows: int
    seed: int
    first_rate: float
    last_rate: float

    def rate(self, progress: float) -> float:
        """Falls along a line from the first rate to the last, as `progress` goes from 0 to 1."""
        return self.first_rate + (self.last_rate - self.first_rate) * progress


@dataclass(frozen=True, slots=True)
class EpochEnd:
    epoch: int
    """From 1."""
    trainers: int
    shards_per_second: float


class Desk:
    """`next`, `done`, `renew`, `leave`. Every one may be sent twice."""

    def __init__(self, queue: TaskQueue, data: Digits, learning: Learning) -> None:
        self._queue = queue
        self._data = data
        self._learning = learning
        self._changed = threading.Condition()
        self._heard_seconds: dict[int, float] = {}
        """When a trainer's session was last heard of."""
        self._names: dict[int, str] = {}
        self._shards_done = 0
        """In this epoch, by this master."""
        self._epoch_began_seconds = time.monotonic()
        self._ended: list[EpochEnd] = []

    # For trainers, through the server.

    def handle(self, session: Session, request: Message) -> Message:
        name, token = str(request.fields.get("trainer", "")), str(request.fields.get("token", ""))
        if not name:
            raise ProtocolError(f"{request.op!r} without the name of a trainer")
        with self._changed:
            if request.op == "leave":
                leases = self._forget(name)
                self._say(f"- {name} leaves", leases)
                return Message("ok")
            self._hear(session, name)
            match request.op:
                case "next":
                    return self._next(session)
                case "done":
                    return Message("ok", {"valid": self._done(token)})
                case "renew":
                    return Message("ok", {"valid": self._queue.renew(token, time.monotonic())})
        raise ProtocolError(f"operation {request.op!r} is not one of the master")

    def closed(self, session: Session) -> None:
        with self._changed:
            name = self._names.pop(session.number, "")
            self._heard_seconds.pop(session.number, None)
            leases = self._queue.release(str(session.number))
            if name:
                self._say(f"- {name} is gone", leases)
            self._changed.notify_all()

    def _next(self, session: Session) -> Message:
        deadline = time.monotonic() + ANSWER_WITHIN_SECONDS
        while not self._queue.finished:
            # Not to one whose connection was given up meanwhile: nothing would give this shard back.
            present = session.number in self._names
            if present and (lease := self._queue.take(str(session.number), time.monotonic())):
                return self._task(lease)
            if not present or not self._changed.wait(deadline - time.monotonic()):
                return Message("wait")
        return Message("finish")

    def _done(self, token: str) -> bool:
        epoch = self._queue.epoch
        valid = self._queue.done(token)
        self._shards_done += valid
        if self._queue.epoch > epoch:
            now = time.monotonic()
            rate = self._shards_done / max(now - self._epoch_began_seconds, 1e-6)
            self._ended.append(EpochEnd(self._queue.epoch, self._trainers(), rate))
            self._shards_done, self._epoch_began_seconds = 0, now
        self._changed.notify_all()
        return valid

    def _task(self, lease: Lease) -> Message:
        rows = shard(
            self._data,
            seed=self._learning.seed,
            epoch=lease.epoch,
            number=lease.shard,
            shard_rows=self._learning.shard_rows,
        )
        fields: dict[str, Any] = {
            "token": lease.token,
            "lease_seconds": self._queue.lease_seconds,
            "learning_rate": self._learning.rate(self._queue.progress),
        }
        return Message("task", fields, {"pixels": rows.pixels, "digits": rows.digits})

    def _hear(self, session: Session, name: str) -> None:
        known = session.number in self._names
        if not known and name in self._names.values():
            # The one before it is dead, though its connection does not know yet: its node went away.
            self._say(f"- {name} has come again", self._forget(name))
        self._heard_seconds[session.number] = time.monotonic()
        self._names[session.number] = session.name = name
        if not known:
            self._say(f"+ {name} joins")

    def _forget(self, name: str) -> list[Lease]:
        """What all sessions of that name held: back to the queue."""
        leases: list[Lease] = []
        for number in [number for number, its_name in self._names.items() if its_name == name]:
            leases += self._queue.release(str(number))
            del self._names[number], self._heard_seconds[number]
        self._changed.notify_all()
        return leases

    # For the master's main loop.

    def tick(self, now_seconds: float) -> None:
        """Takes back the shards of those that have not been heard of within their lease."""
        with self._changed:
            for lease in self._queue.expire(now_seconds):
                self._say(f"- {self._names.get(int(lease.holder), 'a trainer')} is silent", [lease])
                self._changed.notify_all()

    def sessions(self) -> int:
        """Connections that trainers still have open."""
        with self._changed:
            return len(self._names)

    def finished(self) -> bool:
        with self._changed:
            return self._queue.finished

    def snapshot(self) -> dict[str, Any]:
        with self._changed:
            return self._queue.snapshot()

    def wait_for_epochs(self, timeout_seconds: float) -> list[EpochEnd]:
        """Those that have ended since the last call; at once when there are some, else within the time."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, timeout_seconds)
            ended, self._ended = self._ended, []
            return ended

    def _trainers(self) -> int:
        since = time.monotonic() - self._queue.lease_seconds
        heard = {self._names[number] for number, at in self._heard_seconds.items() if at > since}
        return len(heard)

    def _say(self, what: str, leases: Sequence[Lease] = ()) -> None:
        if not self._queue.finished:
            shards = ", ".join(str(lease.shard) for lease in leases)
            back = f", shard {shards} goes back to the queue" if shards else ""
            say(f"{what}{back}; trainers {self._trainers()}")
