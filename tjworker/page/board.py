"""The jobs and nodes of the projection, as rows of the page. Reads Redis alone: the API server is asked nothing.

Records are unpacked without a look at their seals, for which this process has no key: who can write Redis can make the
page show something wrong, and nothing else. `refresh` costs one read of a number while nothing has changed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import mapping, number, seen_status, text
from tjworker.api.node_requests import NodeRequests, decode_node_requests
from tjworker.api.observed import ENDED_PHASES, NodeRecord, PodRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import NODES, PODS
from tjworker.base import GroupResource, Invalid, JobKey, OperatorError, Terminal, parse_key
from tjworker.cli.rows import job_message
from tjworker.history.records import Summary
from tjworker.history.store import HistoryStore
from tjworker.store import packing
from tjworker.store.redis_commands import RedisCommands, batches, job_keys
from tjworker.store.redis_commands import text as name_of
from tjworker.store.seal import SEAL_BYTES
from tjworker.store.work_queue import QueueStats

Json = Mapping[str, Any]
KEYS_A_READ = 500
MOST_RECORD_BYTES = 4 << 20
MOST_RUNNING = 100
AGE_SECONDS = 1.0
"""What is younger is shown as it is."""
HISTORY_SECONDS, HISTORY_TIMES = 10.0, 3
"""Between two questions of a list to the history, for whose answer everybody's list waits; and how often it is asked
for a job that it does not know."""


@dataclass(frozen=True, slots=True)
class PodRow:
    name: str
    node: str
    phase: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job that the cluster has now. Times are RFC 3339, '' where the projection does not know them."""

    key: JobKey
    resource: GroupResource
    namespace: str
    name: str
    kind: str
    uid: str = ""
    phase: str = ""
    created_at: str = ""
    ended_at: str = ""
    replicas: str = ""
    """`3 of 4`."""
    restarts: int = 0
    progress: int | None = None
    """Percent."""
    message: str = ""
    pods: tuple[PodRow, ...] = ()
    mark: int = 0
    """Changes whenever the job or one of its pods does."""


@dataclass(frozen=True, slots=True)
class Board:
    """One reading of the projection."""

    jobs: Mapping[JobKey, JobRow] = field(default_factory=dict)
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    requests: Mapping[str, NodeRequests] = field(default_factory=dict)
    queue: QueueStats | None = None
    running: Mapping[JobKey, str] = field(default_factory=dict)
    """Job -> the worker process that has it at this moment."""
    synced: bool = False
    revision: int = 0
    """Grows with each change that was seen."""
    read_at: float = 0.0
    """Unix seconds, when the projection was last found to be like this."""


class Reader:
    """Thread-safe; one reading at a time, which all who wait for it share."""

    def __init__(
        self, commands: RedisCommands, history: HistoryStore | None, *, now: Callable[[], float] = time.time
    ) -> None:
        self._redis = commands
        self._client: Any = commands.client
        self._history = history
        self._now = now
        self._lock = threading.Lock()
        self._board = Board()
        self._rows: dict[JobKey, tuple[int, JobRow]] = {}
        self._seen: Any = None
        self._failures = 0
        """Readings that have failed."""
        self._failure: OperatorError | None = None
        """What the last of them raised."""
        self._past: dict[str, Summary] = {}
        """By UID, of jobs that have ended, as the history had them when it was asked last."""
        self._past_at = 0.0
        self._past_asked: dict[str, int] = {}
        """UID -> how often the history has answered without it."""

    @property
    def board(self) -> Board:
        """As it was read last, however long ago."""
        return self._board

    def refresh(self, max_age_seconds: float = AGE_SECONDS) -> Board:
        """Raises OperatorError when Redis cannot be read."""
        failures = self._failures
        with self._lock:
            if self._now() - self._board.read_at < max_age_seconds:
                return self._board
            if self._failures != failures and self._failure is not None:
                # While Redis is silent a reading takes seconds: those who wait for one do not wait for each other's.
                raise self._failure
            try:
                self._refresh()
            except OperatorError as error:
                self._failures, self._failure = self._failures + 1, error
                raise
            return self._board

    def _refresh(self) -> None:
        seen = self._redis.read(lambda: self._client.hmget(self._redis.key("writer"), ["token", "seq", "synced"]))
        if seen == self._seen and self._board.read_at:
            queue, running = self._queue(), self._running()
            self._board = replace(self._board, read_at=self._now(), queue=queue, running=running)
            # The history knows of an end a moment later than the projection.
            if (jobs := self._with_history(self._rows)) != self._board.jobs:
                self._board = replace(self._board, jobs=jobs, revision=self._board.revision + 1)
        else:
            self._board, self._seen = self._read(seen), seen

    def _read(self, seen: Sequence[Any]) -> Board:
        client, key = self._client, self._redis.key
        known = self._redis.members("known")
        unfinished = set(self._redis.members("unfinished"))

        def shared() -> list[Any]:
            pipe = client.pipeline(transaction=False)
            pipe.hgetall(key("nodes"))
            pipe.hgetall(key("node_requests"))
            return list(pipe.execute())

        nodes, requests = self._redis.read(shared)
        rows: dict[JobKey, tuple[int, JobRow]] = {}
        for part in batches(known, KEYS_A_READ):

            def read(part: Sequence[JobKey] = part) -> list[Any]:
                pipe = client.pipeline(transaction=False)
                for job in part:
                    if job in unfinished:
                        pipe.hgetall(key("job", job))
                    else:
                        pipe.hmget(key("job", job), ["job"])
                return list(pipe.execute())

            for job, found in zip(part, self._redis.read(read), strict=True):
                fields = {b"job": found[0]} if isinstance(found, list) else found
                mark = hash(tuple(sorted((name, value) for name, value in fields.items() if value)))
                before = self._rows.get(job)
                row = before[1] if before is not None and before[0] == mark else _job_row(job, fields, mark)
                if row is not None:
                    rows[job] = mark, row
        self._rows = rows
        return Board(
            jobs=self._with_history(rows),
            nodes=dict(_each(nodes, _node)),
            requests=dict(_each(requests, _requests)),
            queue=self._queue(),
            running=self._running(),
            synced=seen[2] is not None,
            revision=self._board.revision + 1,
            read_at=self._now(),
        )

    def _with_history(self, rows: Mapping[JobKey, tuple[int, JobRow]]) -> dict[JobKey, JobRow]:
        """Of a job that has ended the projection keeps little; the history knows the rest."""
        lacking = {row.uid for _, row in rows.values() if row.ended_at and not row.created_at}
        unknown = any(uid not in self._past and self._past_asked.get(uid, 0) < HISTORY_TIMES for uid in lacking)
        if self._history is not None and unknown and self._now() - self._past_at >= HISTORY_SECONDS:
            # Whether it answers or not: one that is away takes its time to say so.
            with suppress(OperatorError):
                self._past = {one.uid: one for one in self._history.summaries() if one.uid in lacking}
                self._past_asked = {uid: self._past_asked.get(uid, 0) + 1 for uid in lacking - self._past.keys()}
            self._past_at = self._now()
        return {key: _completed(row, self._past.get(row.uid)) for key, (_, row) in rows.items()}

    def _queue(self) -> QueueStats | None:
        try:
            queued, delayed, running, oldest, unfinished, failing = self._redis.read(lambda: self._redis.run("stats"))
            return QueueStats(queued, delayed, running, float(oldest), unfinished, failing)
        except (OperatorError, ValueError):
            return None

    def _running(self) -> dict[JobKey, str]:
        key = self._redis.key
        try:
            keys = job_keys(
                self._redis.read(
                    lambda: self._client.zrangebyscore(key("running"), self._now(), "+inf", start=0, num=MOST_RUNNING)
                )
            )
            locks = self._redis.read(lambda: self._client.mget([key("lock", job) for job in keys])) if keys else []
        except OperatorError:
            return {}
        return {
            job: name_of(lock).partition(" ")[2]
            for job, lock in zip(keys, locks, strict=True)
            if isinstance(lock, bytes)
        }


def _completed(row: JobRow, summary: Summary | None) -> JobRow:
    if summary is None or row.created_at:
        return row
    return replace(
        row, created_at=summary.created_at, restarts=summary.restarts, message=row.message or summary.message
    )


def _opened(sealed: bytes) -> bytes:
    return packing.unpack(sealed[SEAL_BYTES:], most_bytes=MOST_RECORD_BYTES)


def _job_row(key: JobKey, fields: Mapping[bytes, bytes], mark: int) -> JobRow | None:
    """None for a key that holds no job that can be read."""
    try:
        name = parse_key(key)
        *_, uid, record = fields[b"job"].split(b" ", 4)
        raw = orjson.loads(_opened(record))
        kind = KNOWN_KINDS[name.resource].kind
    except (Invalid, KeyError, ValueError, AttributeError):
        return None
    if not isinstance(raw, dict):
        return None
    status = seen_status(raw)
    return JobRow(
        key=key,
        resource=name.resource,
        namespace=name.namespace,
        name=name.name,
        kind=kind,
        uid=name_of(uid),
        phase=text(status.get("phase")),
        created_at=text(mapping(raw.get("metadata")).get("creationTimestamp")),
        ended_at=text(status.get("completionTime")),
        replicas=_replicas(status),
        restarts=number(status.get("restarts")),
        progress=_progress(status),
        message=job_message({"status": status})[:MESSAGE_CHARS],
        pods=tuple(_pods(fields)),
        mark=mark,
    )


MESSAGE_CHARS = 300


def _progress(status: Json) -> int | None:
    told = mapping(status.get("trainerStatus")).get("progressPercentage")
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _replicas(status: Json) -> str:
    said = [mapping(one) for one in mapping(status.get("replicaStatuses")).values()]
    wanted = sum(number(one.get("desired")) for one in said)
    return f"{sum(number(one.get('active')) for one in said)} of {wanted}" if wanted else ""


def _pods(fields: Mapping[bytes, bytes]) -> list[PodRow]:
    found = []
    for name, value in fields.items():
        if not name.startswith(b"pods/"):
            continue
        try:
            record = decode(PODS, _opened(value.partition(b" ")[2]))
        except (Terminal, ValueError):
            continue
        if isinstance(record, PodRecord) and record.phase not in ENDED_PHASES:
            phase = "Terminating" if record.deleted_at else record.phase
            found.append(PodRow(str(record.name), str(record.node), str(phase)))
    return sorted(found, key=lambda pod: pod.name)


def _each(records: Mapping[bytes, bytes], read: Callable[[bytes], Any]) -> list[tuple[str, Any]]:
    """Those that can be read."""
    found = []
    for name, value in records.items():
        try:
            found.append((name_of(name), read(_opened(value))))
        except (Terminal, ValueError, KeyError, TypeError):
            continue
    return sorted(found)


def _node(data: bytes) -> NodeRecord:
    record = decode(NODES, data)
    assert isinstance(record, NodeRecord)  # noqa: S101  for the type checker
    return record


def _requests(data: bytes) -> NodeRequests:
    return decode_node_requests(data)
