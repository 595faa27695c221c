"""The Store in Redis: one Lua script, or one transaction of reads, a call (large batches: one for each part).

Holds no state but the writer's last `seq`. Thread-safe. A call that raised Transient may still have happened; what
follows from that is said in `port.py`, and every call may be made again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import redis

from tjworker.base import JobKey, Transient
from tjworker.store import scripts
from tjworker.store.errors import mapped
from tjworker.store.keys import BY_NAME
from tjworker.store.port import (
    NOTHING_WRITTEN,
    Change,
    ClusterView,
    FinishResult,
    History,
    Hold,
    QueueStats,
    View,
    Written,
)

T = TypeVar("T")

VIEW_READS = 5
CHANGES_PER_CALL = 250
"""A script makes everybody else wait: 250 changes take Redis about 5 ms."""
KEYS_PER_CALL = 1000
VERSIONED = ("job", "seen", "gone", "floor", "echo", "news")
"""Keys, one a job, that hold resourceVersions."""


class RedisStore:
    """`where` is how messages name this Redis. Make it with `connect.open_store`."""

    def __init__(
        self,
        client: redis.Redis,
        prefix: str,
        *,
        where: str,
        retry_base_seconds: float = 1,
        retry_max_seconds: float = 300,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._where = where
        self._retry = (retry_base_seconds, retry_max_seconds)
        self._scripts = {name: client.register_script(scripts.source(name)) for name in scripts.NAMES}
        self._seq = 0
        self._seq_lock = threading.Lock()

    # -- projection ----------------------------------------------------------------------------------------------------
    def lead(self, token: int, form: str = "") -> None:
        seq = self._run("lead", token, form)
        with self._seq_lock:
            self._seq = int(seq)

    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        publish: dict[JobKey, None] = {}
        parts = list(_batches(changes, CHANGES_PER_CALL)) or [[]]
        for part in parts:
            # Progress says that everything up to it is here, so it goes with the last part.
            pairs = _flat((progress or {}).items()) if part is parts[-1] else []
            arguments: list[Any] = [len(pairs) // 2, *pairs]
            for change in part:
                arguments += _encoded(change)
            for key in self._write("apply", token, arguments)[1:]:
                publish[JobKey(key.decode())] = None
        return list(publish)

    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        for part in list(_batches(list(nodes.items()), CHANGES_PER_CALL)) or [[]]:
            triples = [(name, "del" if record is None else "put", record or b"") for name, record in part]
            self._write("apply_nodes", token, _flat(triples))

    def apply_loads(self, token: int, loads: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        parts = list(_batches(list(loads.items()), CHANGES_PER_CALL)) or [[]]
        for part in parts:
            triples = [(node, "del" if record is None else "put", record or b"") for node, record in part]
            self._write("apply_loads", token, [int(whole and part is parts[0]), *_flat(triples)])

    def cluster(self) -> ClusterView:
        def read() -> list[Any]:
            pipe = self._client.pipeline(transaction=True)
            pipe.hgetall(self._key("nodes"))
            pipe.hgetall(self._key("load"))
            pipe.hmget(self._key("writer"), ["token", "synced"])
            return pipe.execute()

        nodes, loads, writer = self._read(read)
        return ClusterView(_named(nodes), _named(loads), synced=None not in writer)

    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        keys = sorted(
            _keys(self._read(lambda: list(self._client.sscan_iter(self._key("unfinished"), count=KEYS_PER_CALL))))
        )
        found: dict[JobKey, tuple[int, bytes]] = {}
        for part in _batches(keys, CHANGES_PER_CALL):
            jobs = self._read(lambda part=part: self._of_each(part, "hget", "job"))  # type: ignore[misc]
            for key, value in zip(part, jobs, strict=True):
                if value is not None:  # gone since
                    rv, _, record = value.split(b" ", 2)
                    found[key] = (int(rv), record)
        return found

    def children(
        self, keys: Sequence[JobKey], resources: Sequence[str]
    ) -> Mapping[JobKey, Mapping[str, Mapping[str, bytes]]]:
        found: dict[JobKey, Mapping[str, Mapping[str, bytes]]] = {}
        starts = {resource: f"{resource}/".encode() for resource in resources}
        for part in _batches(list(keys), CHANGES_PER_CALL):
            hashes = self._read(lambda part=part: self._of_each(part, "hgetall"))  # type: ignore[misc]
            for key, fields in zip(part, hashes, strict=True):
                names = sorted(fields)
                found[key] = {
                    resource: {
                        name[len(start) :].decode(): fields[name].partition(b" ")[2]
                        for name in names
                        if name.startswith(start)
                    }
                    for resource, start in starts.items()
                }
        return found

    def _of_each(self, keys: Sequence[JobKey], command: str, *arguments: str) -> list[Any]:
        """One read of the hash of each of these jobs, in one round trip."""
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            getattr(pipe, command)(self._key("job", key), *arguments)
        return pipe.execute()

    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        self._write("mark_synced", token, [cluster, form])

    def history(self) -> History:
        def read() -> list[Any]:
            pipe = self._client.pipeline(transaction=True)
            pipe.hmget(self._key("writer"), ["cluster", "synced", "form"])
            pipe.hgetall(self._key("progress"))
            return pipe.execute()

        (cluster, synced, form), progress = self._read(read)
        return History(
            (cluster or b"").decode(),
            {watch.decode(): int(rv) for watch, rv in progress.items()},
            synced=synced is not None,
            form=(form or b"").decode(),
        )

    def forget_history(self, token: int) -> None:
        self._write("forget_history", token, ["begin"])
        stems = tuple(self._key(name).encode() for name in VERSIONED)
        with mapped(self._where):
            # Keys that come while it scans are of the new history already, or lapse by themselves.
            every = list(self._client.scan_iter(match=f"{self._prefix}:*", count=KEYS_PER_CALL))
        for part in _batches([key for key in every if key.startswith(stems)], KEYS_PER_CALL):
            # By the script, so that a writer who was paused here takes nothing from the one who has led since.
            self._write("forget_history", token, ["part", *part])
        self._write("forget_history", token, ["end"])

    def known_keys(self) -> Iterable[JobKey]:
        return sorted(_keys(self._read(lambda: list(self._client.sscan_iter(self._key("known"), count=KEYS_PER_CALL)))))

    def known_children(self, keys: Sequence[JobKey], resource: str) -> Sequence[tuple[JobKey, str]]:
        found: list[tuple[JobKey, str]] = []
        for part in _batches(keys, KEYS_PER_CALL):
            pairs = iter(self._read(lambda part=part: self._run("children", f"{resource}/", *part)))  # type: ignore[misc]
            found += ((JobKey(key.decode()), name.decode()) for key, name in zip(pairs, pairs, strict=True))
        return sorted(found)

    def known_nodes(self) -> Iterable[str]:
        names: list[Any] = self._read(lambda: self._client.hkeys(self._key("nodes")))
        return sorted(name.decode() for name in names)

    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View:
        def read() -> list[Any]:
            pipe = self._client.pipeline(transaction=True)
            self._ask_view(pipe, key)
            if node_names:
                pipe.hmget(self._key("nodes"), list(node_names))
            return pipe.execute()

        answer = self._read(read)
        return _view(key, answer[:VIEW_READS], _present(node_names, answer[VIEW_READS] if node_names else ()))

    def _ask_view(self, pipe: Any, key: JobKey) -> None:
        """The reads of a view; VIEW_READS of them."""
        pipe.hgetall(self._key("job", key))
        pipe.hgetall(self._key("seen", key))
        pipe.hgetall(self._key("progress"))
        pipe.hgetall(self._key("floor", key))
        pipe.hmget(self._key("writer"), ["token", "synced"])

    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        wanted = list(names)
        if not wanted:
            return {}
        records: list[Any] = self._read(lambda: self._client.hmget(self._key("nodes"), wanted))
        return _present(wanted, records)

    # -- work queue ----------------------------------------------------------------------------------------------------
    def add(self, keys: Iterable[JobKey]) -> list[JobKey]:
        publish: list[JobKey] = []
        for part in _batches(list(keys), KEYS_PER_CALL):
            publish += _keys(self._run("add", *part))
        return publish

    def add_after(self, key: JobKey, seconds: float) -> None:
        self._run("add_after", key, seconds)

    def take_due(self, limit: int) -> list[JobKey]:
        return _keys(self._run("take_due", limit))

    def acquire(self, key: JobKey, owner: str, ttl_seconds: float) -> Hold | None:
        token = self._run("acquire", key, owner, _milliseconds(ttl_seconds))
        return None if token is None else Hold(key, int(token), owner)

    def acquire_view(self, key: JobKey, owner: str, ttl_seconds: float) -> tuple[Hold, View] | None:
        pipe = self._client.pipeline(transaction=True)
        pipe.evalsha(self._scripts["acquire"].sha, 0, self._prefix, key, owner, _milliseconds(ttl_seconds))
        self._ask_view(pipe, key)
        with mapped(self._where):
            try:
                token, *answer = pipe.execute()
            except redis.exceptions.NoScriptError:
                # A new Redis, or one that was told to forget its scripts. Nothing was taken; `acquire` loads it.
                hold = self.acquire(key, owner, ttl_seconds)
                return None if hold is None else (hold, self.view(key))
        return None if token is None else (Hold(key, int(token), owner), _view(key, answer, {}))

    def renew(self, hold: Hold, ttl_seconds: float) -> None:
        self._run("renew", hold.key, hold.token, _milliseconds(ttl_seconds))

    def finish(
        self,
        hold: Hold,
        written: Written = NOTHING_WRITTEN,
        *,
        again: bool = False,
        after_seconds: float | None = None,
        failed: bool = False,
    ) -> FinishResult:
        publish, wait, failures = self._run(
            "finish",
            hold.key,
            hold.token,
            int(again),
            "" if after_seconds is None else after_seconds,
            int(failed),
            *self._retry,
            *_pairs(written),
        )
        return FinishResult(publish == 1, float(wait) if wait else None, int(failures))

    def raise_floor(self, hold: Hold, written: Written) -> None:
        self._run("raise_floor", hold.key, hold.token, *_pairs(written))

    # -- resync --------------------------------------------------------------------------------------------------------
    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        return _keys(self._run("resync", lost_after_seconds, int(everything)))

    def once(self, name: str, period_seconds: float) -> bool:
        with mapped(self._where):
            return bool(self._client.set(self._key("once", name), 1, nx=True, px=_milliseconds(period_seconds)))

    def stats(self) -> QueueStats:
        queued, delayed, running, oldest, unfinished, failing = self._read(lambda: self._run("stats"))
        return QueueStats(queued, delayed, running, float(oldest), unfinished, failing)

    def ping(self) -> None:
        self._read(self._client.ping)

    # -- inside --------------------------------------------------------------------------------------------------------
    def _key(self, name: str, suffix: str = "") -> str:
        return BY_NAME[name].of(self._prefix, suffix)

    def _run(self, script: str, *arguments: Any) -> Any:
        with mapped(self._where):
            return self._scripts[script](args=[self._prefix, *arguments])

    def _write(self, script: str, token: int, arguments: Sequence[Any]) -> Any:
        """A write of the projection. Its `seq` is counted on both sides: when Redis has fewer than this writer was told,
        it came back without its last writes, and changes that nobody will send again are missing."""
        answer = self._run(script, token, self._seq, *arguments)
        seq = int(answer[0] if isinstance(answer, list) else answer)
        with self._seq_lock:
            self._seq = max(self._seq, seq)
        return answer

    def _read(self, read: Callable[[], T]) -> T:
        """A read may be sent twice: a connection that the server has closed in the meantime costs nobody anything."""
        try:
            with mapped(self._where):
                return read()
        except Transient as error:
            if not _dropped(error):
                raise
            with mapped(self._where):
                return read()


def _view(key: JobKey, answer: Sequence[Any], nodes: Mapping[str, bytes]) -> View:
    fields, own_seen, progress, floor, writer = answer
    plural, namespace, _ = key.split("/", 2)
    seen = _newest(own_seen, progress, namespace)
    job = None
    children: dict[str, dict[str, bytes]] = {}
    for field, value in fields.items():
        if field == b"job":
            rv, _, job = value.split(b" ", 2)
            seen[plural] = max(seen.get(plural, 0), int(rv))
        else:
            resource, _, name = field.decode().partition("/")
            children.setdefault(resource, {})[name] = value.partition(b" ")[2]
    return View(
        job=job,
        children=children,
        seen=seen,
        floor={resource.decode(): int(rv) for resource, rv in floor.items()},
        synced=None not in writer,
        nodes=nodes,
    )


def _pairs(written: Written) -> list[Any]:
    """As `finish.lua` and `raise_floor.lua` read them."""
    return [len(written.gone), *_flat(written.gone), *_flat(written.versions)]


def _dropped(error: BaseException) -> bool:
    return isinstance(error.__cause__, redis.exceptions.ConnectionError)


def _encoded(change: Change) -> tuple[Any, ...]:
    operation = "del" if change.record is None else "end" if change.is_job and change.finished else "put"
    field = "job" if change.is_job else f"{change.resource}/{change.name}"
    return change.key, change.resource, field, change.rv, operation, change.record or b""


def _newest(own: Mapping[bytes, bytes], progress: Mapping[bytes, bytes], namespace: str) -> dict[str, int]:
    """resource -> newest version, of the job's own children and of the watches that cover its namespace."""
    newest = {resource.decode(): int(rv) for resource, rv in own.items()}
    for watch, rv in progress.items():
        resource, _, of_namespace = watch.decode().partition("/")
        if of_namespace in ("", namespace):
            newest[resource] = max(newest.get(resource, 0), int(rv))
    return newest


def _named(fields: Mapping[bytes, bytes]) -> dict[str, bytes]:
    return {name.decode(): value for name, value in sorted(fields.items())}


def _present(names: Sequence[str], records: Sequence[bytes | None]) -> dict[str, bytes]:
    return {name: record for name, record in zip(names, records, strict=False) if record is not None}


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _keys(answer: Iterable[bytes]) -> list[JobKey]:
    return [JobKey(key.decode()) for key in answer]


def _flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for row in rows for value in row]


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
