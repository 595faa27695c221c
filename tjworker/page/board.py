"""The jobs and nodes of the projection, as rows of the page. Reads only Redis, never the API server.

Records are unpacked without a check of their seals, as this process has no record key. So a client that can write Redis
can make the page show wrong data, but nothing worse. While nothing has changed, `refresh` reads a few numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import number, seen_status, text
from tjworker.api.node_requests import NodeRequests, decode_node_requests
from tjworker.api.observed import ENDED_PHASES, NodeRecord, PodRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import NODES, PODS
from tjworker.base import GroupResource, Invalid, JobKey, Json, OperatorError, Terminal, mapping, parse_key
from tjworker.cli.rows import job_message, job_phase
from tjworker.history.records import Summary
from tjworker.history.store import HistoryStore, ended
from tjworker.page.shared import Shared
from tjworker.store import packing
from tjworker.store.redis_commands import RedisCommands, batches, job_keys
from tjworker.store.redis_commands import text as name_of
from tjworker.store.seal import SEAL_BYTES
from tjworker.store.work_queue import QueueStats

KEYS_A_READ = 500
MOST_RECORD_BYTES = 4 << 20
MOST_RUNNING = 100
MOST_WORKERS = 500
WORKER_SECONDS = 10.0
"""Workers say every two seconds that they run."""
AGE_SECONDS = 1.0
"""A younger board is shown without a new reading."""
HISTORY_SECONDS, HISTORY_TIMES = 10.0, 3
"""Between two requests to the history; and how often the history is asked for a job that it does not know."""
HISTORY_WAIT_SECONDS = 0.2
"""How long a board waits for the history."""


@dataclass(frozen=True, slots=True)
class PodRow:
    name: str
    node: str
    phase: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job that exists in the cluster. Times are RFC 3339, '' if the projection does not know them."""

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
    """For example `3 of 4`: active and desired."""
    restarts: int = 0
    progress: int | None = None
    """Percent."""
    message: str = ""
    pods: tuple[PodRow, ...] = ()
    mark: int = 0
    """A hash that changes whenever the job or one of its pods changes."""


@dataclass(frozen=True, slots=True)
class Board:
    """One reading of the projection."""

    jobs: Mapping[JobKey, JobRow] = field(default_factory=dict)
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    requests: Mapping[str, NodeRequests] = field(default_factory=dict)
    queue: QueueStats | None = None
    running: Mapping[JobKey, str] = field(default_factory=dict)
    """Job -> the worker process that holds its lease."""
    workers: tuple[str, ...] = ()
    """The worker processes that have said within WORKER_SECONDS that they run, with a lease or without one."""
    synced: bool = False
    revision: int = 0
    """Grows with each reading that found a change."""
    read_at: float = 0.0
    """When the projection was last known to be in this state, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One reading of the history's list."""

    jobs: Sequence[Summary]
    """The newest first."""
    read_at: float
    """In Unix seconds."""


class EndedJobs:
    """The jobs in the lists of the history. Thread-safe: there is one reading at a time, and all callers of the next
    moment share its result, as each open page asks again whenever a job has changed."""

    def __init__(self, history: HistoryStore, *, now: Callable[[], float] = time.time) -> None:
        self._history = history
        self._now = now
        self._shared = Shared(self._read, "the history")
        self.last: Ended | None = None
        """The last list that was read, however old."""

    def read(self) -> Ended:
        """The list, at most AGE_SECONDS old. Raises OperatorError if the history cannot be read."""
        last = self.last
        if last is not None and 0 <= self._now() - last.read_at < AGE_SECONDS:
            return last
        return self._shared.wait()

    def begin(self) -> Future[Ended]:
        """A new reading, or the one that is under way."""
        return self._shared.begin()

    def _read(self) -> Ended:
        self.last = Ended(ended(self._history.summaries()), self._now())
        return self.last


class BoardReader:
    """Reads the board. Thread-safe: there is one reading at a time, and all callers share its result."""

    age_seconds = AGE_SECONDS

    def __init__(
        self, commands: RedisCommands, history: HistoryStore | None, *, now: Callable[[], float] = time.time
    ) -> None:
        self._redis = commands
        self._client: Any = commands.client
        self.ended_jobs = EndedJobs(history) if history is not None else None
        self._now = now
        self._shared = Shared(self._refresh, "Redis")
        self._board = Board()
        self._rows: dict[JobKey, tuple[int, JobRow]] = {}
        self._seen: Any = None
        self._past: dict[str, Summary] = {}
        """UID -> summary of an ended job, from the last answer of the history."""
        self._past_at = 0.0
        self._past_asked: dict[str, int] = {}
        """UID -> how often the history has answered without this job."""
        self._asking: Future[Ended] | None = None

    @property
    def board(self) -> Board:
        """The last board that was read, however old."""
        return self._board

    def refresh(self) -> Board:
        """The board, at most `age_seconds` old. Raises OperatorError if Redis cannot be read, or is silent."""
        return self._board if self._is_fresh() else self._shared.wait()

    async def arrive(self) -> Board:
        """The same as `refresh`, without a thread that waits."""
        return self._board if self._is_fresh() else await self._shared.arrive()

    def _is_fresh(self) -> bool:
        # After the clock was set back, the board would not be read until the old time has come again.
        return 0 <= self._now() - self._board.read_at < self.age_seconds

    def _refresh(self) -> Board:
        seen = self._redis.read(lambda: self._client.hmget(self._redis.key("writer"), ["token", "seq", "synced"]))
        if seen == self._seen and self._board.read_at:
            queue, running, workers = self._queue(), self._running(), self._workers()
            self._board = replace(self._board, read_at=self._now(), queue=queue, running=running, workers=workers)
            # The history learns of an end a moment later than the projection, so a row may still change.
            if (jobs := self._with_history(self._rows)) != self._board.jobs:
                self._board = replace(self._board, jobs=jobs, revision=self._board.revision + 1)
        else:
            self._board, self._seen = self._read(seen), seen
        return self._board

    def _read(self, seen: Sequence[Any]) -> Board:
        key = self._redis.key
        # `self._seen` was read before the data: a change meanwhile leads to another reading.
        self._rows = self._read_rows()
        nodes, requests = self._ask(lambda pipe: (pipe.hgetall(key("nodes")), pipe.hgetall(key("node_requests"))))
        return Board(
            jobs=self._with_history(self._rows),
            nodes=dict(_read_each(nodes, _node)),
            requests=dict(_read_each(requests, _requests)),
            queue=self._queue(),
            running=self._running(),
            workers=self._workers(),
            synced=seen[2] is not None,
            revision=self._board.revision + 1,
            read_at=self._now(),
        )

    def _read_rows(self) -> dict[JobKey, tuple[int, JobRow]]:
        key, known, unfinished = self._redis.key, self._redis.members("known"), set(self._redis.members("unfinished"))
        rows: dict[JobKey, tuple[int, JobRow]] = {}
        for part in batches(known, KEYS_A_READ):

            def ask(pipe: Any, part: Sequence[JobKey] = part) -> None:
                for job in part:
                    # The pods of a finished job are not shown, so its record is enough.
                    if job in unfinished:
                        pipe.hgetall(key("job", job))
                    else:
                        pipe.hmget(key("job", job), ["job"])

            for job, reply in zip(part, self._ask(ask), strict=True):
                fields = {b"job": reply[0]} if isinstance(reply, list) else reply
                mark = hash(tuple(sorted((name, value) for name, value in fields.items() if value)))
                before = self._rows.get(job)
                # A job that has not changed keeps its row: a single change leads to a reading of all jobs.
                row = before[1] if before is not None and before[0] == mark else _job_row(job, fields, mark)
                if row is not None:
                    rows[job] = mark, row
        return rows

    def _ask(self, commands: Callable[[Any], object]) -> list[Any]:
        """The answers to the commands that are put into a pipeline, in one round trip."""

        def ask() -> list[Any]:
            # Without MULTI, which would hold up the operator for 500 jobs.
            pipe = self._client.pipeline(transaction=False)
            commands(pipe)
            return list(pipe.execute())

        return self._redis.read(ask)

    def _with_history(self, rows: Mapping[JobKey, tuple[int, JobRow]]) -> dict[JobKey, JobRow]:
        """The rows, completed from the history for ended jobs, of which the projection keeps little."""
        lacking = {row.uid for _, row in rows.values() if row.ended_at and not row.created_at}
        unknown = any(uid not in self._past and self._past_asked.get(uid, 0) < HISTORY_TIMES for uid in lacking)
        if self.ended_jobs is not None and unknown and self._now() - self._past_at >= HISTORY_SECONDS:
            self._past_at, self._asking = self._now(), self.ended_jobs.begin()
        if self._asking is not None:
            # Most histories answer at once. A board does not wait for one that is silent: the next one has its answer.
            try:
                with suppress(OperatorError, TimeoutError):
                    jobs = self._asking.result(HISTORY_WAIT_SECONDS)
                    self._past = {s.uid: s for s in jobs.jobs if s.uid in lacking}
                    self._past_asked = {uid: self._past_asked.get(uid, 0) + 1 for uid in lacking - self._past.keys()}
            finally:
                # After a bug, too: else every later board would meet it again.
                if self._asking.done():
                    self._asking = None
        return {key: _complete(row, self._past.get(row.uid)) for key, (_, row) in rows.items()}

    def _queue(self) -> QueueStats | None:
        try:
            queued, delayed, running, oldest, unfinished, failing = self._redis.read(lambda: self._redis.run("stats"))
            return QueueStats(queued, delayed, running, float(oldest), unfinished, failing)
        except (OperatorError, ValueError):
            # The page shows jobs and nodes without the figures of the queue, too.
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

    def _workers(self) -> tuple[str, ...]:
        workers = self._redis.key("workers")
        try:
            # Redis' time, by which workers sign in. The clock of this machine may differ.
            (now, _), signed_in = self._ask(
                lambda pipe: (pipe.time(), pipe.zrange(workers, -MOST_WORKERS, -1, withscores=True))
            )
        except OperatorError:
            return ()
        return tuple(sorted(name_of(name) for name, at in signed_in if now - at <= WORKER_SECONDS))


def _complete(row: JobRow, summary: Summary | None) -> JobRow:
    if summary is None or row.created_at:
        return row
    return replace(
        row, created_at=summary.created_at, restarts=summary.restarts, message=row.message or summary.message
    )


def _unpack(sealed: bytes) -> bytes:
    # No seal was checked, so the length is bounded: foreign bytes can unpack to a thousand times their length.
    return packing.unpack(sealed[SEAL_BYTES:], most_bytes=MOST_RECORD_BYTES)


def _job_row(key: JobKey, fields: Mapping[bytes, bytes], mark: int) -> JobRow | None:
    """The row of a job; None if its record cannot be read."""
    try:
        name = parse_key(key)
        *_, uid, record = fields[b"job"].split(b" ", 4)
        raw = orjson.loads(_unpack(record))
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
        phase=job_phase(status),
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
    percent = mapping(status.get("trainerStatus")).get("progressPercentage")
    return percent if isinstance(percent, int) and not isinstance(percent, bool) else None


def _replicas(status: Json) -> str:
    roles = [mapping(role) for role in mapping(status.get("replicaStatuses")).values()]
    wanted = sum(number(role.get("desired")) for role in roles)
    return f"{sum(number(role.get('active')) for role in roles)} of {wanted}" if wanted else ""


def _pods(fields: Mapping[bytes, bytes]) -> list[PodRow]:
    pods = []
    for name, value in fields.items():
        if not name.startswith(b"pods/"):
            continue
        try:
            record = decode(PODS, _unpack(value.partition(b" ")[2]))
        except (Terminal, ValueError):
            continue
        if isinstance(record, PodRecord) and record.phase not in ENDED_PHASES:
            phase = "Terminating" if record.deleted_at is not None else record.phase
            pods.append(PodRow(str(record.name), str(record.node), str(phase)))
    return sorted(pods, key=lambda pod: pod.name)


def _read_each(records: Mapping[bytes, bytes], read: Callable[[bytes], Any]) -> list[tuple[str, Any]]:
    """(name, value) of each readable record."""
    values = []
    for name, value in records.items():
        try:
            values.append((name_of(name), read(_unpack(value))))
        except (Terminal, ValueError, KeyError, TypeError):
            continue
    return sorted(values)


def _node(data: bytes) -> NodeRecord:
    record = decode(NODES, data)
    assert isinstance(record, NodeRecord)  # noqa: S101  for the type checker
    return record


def _requests(data: bytes) -> NodeRequests:
    return decode_node_requests(data)
