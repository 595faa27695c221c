"""The projection in Redis: one Lua script or one transaction of reads per call, or one per part of a large batch.

Keeps no state but the writer's last `seq`. Thread-safe. A call that raised Transient may have happened nevertheless.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tjworker.base import GroupResource, JobKey
from tjworker.store.projection import Change, Checkpoint, ClusterView, RecordPlace, View
from tjworker.store.redis_commands import KEYS_PER_CALL, RedisCommands, batches, flat, job_keys, text, version

CHANGES_PER_CALL = 250
"""Redis runs nothing else during a script: 250 changes take it about 5 ms."""
SHARED_READS = 2
"""Commands of `_ask_views` that all views share."""
READS_A_VIEW = 3
VERSIONED = ("job", "seen", "gone", "min_observed", "echo", "news", "rests")
"""Keys that hold resourceVersions, one for each job."""


class RedisProjection:
    def __init__(self, commands: RedisCommands) -> None:
        self._redis = commands
        self._seq = 0
        self._seq_lock = threading.Lock()

    # -- written by the watcher --------------------------------------------------------------------
    def lead(self, token: int, form: str = "", *, outright: bool = False) -> None:
        seq = self._redis.run("lead", token, form, int(outright))
        with self._seq_lock:
            self._seq = int(seq)

    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        return self._apply_in_parts("apply", token, changes, progress or {})

    def free(self, token: int, changes: Sequence[Change]) -> list[JobKey]:
        return self._apply_in_parts("free", token, changes, {})

    def _apply_in_parts(
        self, script: str, token: int, changes: Sequence[Change], progress: Mapping[str, int]
    ) -> list[JobKey]:
        # A dict, not a list: a key that two parts have queued needs a single task, and keeps its place.
        publish: dict[JobKey, None] = {}
        # A call without changes still writes progress, and finds out whether this writer still leads.
        parts = list(batches(changes, CHANGES_PER_CALL)) or [[]]
        for part in parts:
            # Progress claims that everything up to it has been written, so it is written with the last part.
            pairs = flat(progress.items()) if part is parts[-1] else []
            arguments: list[Any] = [len(pairs) // 2, *pairs]
            for change in part:
                arguments += _change_args(change)
            publish |= dict.fromkeys(job_keys(self._run_fenced(script, token, arguments)[1:]))
        return list(publish)

    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        for part in list(batches(list(nodes.items()), CHANGES_PER_CALL)) or [[]]:
            self._run_fenced("apply_nodes", token, _record_args(part))

    def apply_node_requests(self, token: int, requests: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        parts = list(batches(list(requests.items()), CHANGES_PER_CALL)) or [[]]
        for part in parts:
            # With `whole` the script first deletes all nodes. A later part must not delete what the first has written.
            self._run_fenced("apply_node_requests", token, [int(whole and part is parts[0]), *_record_args(part)])

    def mark_children(self, token: int) -> None:
        self._run_fenced("mark_children", token, [])

    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        self._run_fenced("mark_synced", token, [cluster, form])

    def reset(self, token: int) -> None:
        self._run_fenced("reset", token, ["begin"])
        stems = tuple(self._redis.key(name).encode() for name in VERSIONED)
        with self._redis.mapped():
            # A key that appears during the scan belongs to the new history, or expires by itself.
            every = list(self._redis.client.scan_iter(match=f"{self._redis.prefix}:*", count=KEYS_PER_CALL))
        for part in batches([key for key in every if key.startswith(stems)], KEYS_PER_CALL):
            # The script fences: a writer that was paused here must not delete the records of its successor.
            self._run_fenced("reset", token, ["part", *part])
        self._run_fenced("reset", token, ["end"])

    def _run_fenced(self, script: str, token: int, arguments: Sequence[Any]) -> Any:
        """Run a script of the writer. Returns its answer, which begins with the new `seq`."""
        # Both sides count the writes. If Redis has counted fewer than this writer, it has lost its last writes, and no
        # watch will send those changes again.
        answer = self._redis.run(script, token, self._seq, *arguments)
        seq = int(answer[0] if isinstance(answer, list) else answer)
        with self._seq_lock:
            self._seq = max(self._seq, seq)
        return answer

    # -- written by workers ------------------------------------------------------------------------
    def distrust(self, entries: Sequence[RecordPlace]) -> None:
        for part in batches(entries, CHANGES_PER_CALL):
            self._redis.run("distrust", *flat((entry.of or "job", entry.key, entry.field) for entry in part))

    # -- read by the watcher -----------------------------------------------------------------------
    def checkpoint(self) -> Checkpoint:
        def read() -> list[Any]:
            # In one transaction: progress of a later moment than `synced` could belong to an incomplete projection.
            pipe = self._redis.client.pipeline(transaction=True)
            pipe.hmget(self._redis.key("writer"), ["cluster", "synced", "form"])
            pipe.hgetall(self._redis.key("progress"))
            return pipe.execute()

        (cluster, synced, form), progress = self._redis.read(read)
        return Checkpoint(
            text(cluster or b""),
            {text(watch): version(rv) for watch, rv in progress.items()},
            synced=synced is not None,
            form=text(form or b""),
        )

    def known_keys(self) -> Iterable[JobKey]:
        return self._redis.members("known")

    def known_children(self, keys: Sequence[JobKey], resource: GroupResource) -> Sequence[tuple[JobKey, str]]:
        found: list[tuple[JobKey, str]] = []
        for part in batches(keys, KEYS_PER_CALL):
            pairs = iter(self._redis.read(partial(self._redis.run, "children", f"{resource}/", *part)))
            found += ((JobKey(text(key)), text(name)) for key, name in zip(pairs, pairs, strict=True))
        return sorted(found)

    def known_nodes(self) -> Iterable[str]:
        names: list[Any] = self._redis.read(lambda: self._redis.client.hkeys(self._redis.key("nodes")))
        return sorted(text(name) for name in names)

    # -- read by workers ---------------------------------------------------------------------------
    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View:
        def read() -> list[Any]:
            pipe = self._redis.client.pipeline(transaction=True)
            _ask_views(self._redis, pipe, [key])
            if node_names:
                pipe.hmget(self._redis.key("nodes"), list(node_names))
            return pipe.execute()

        answer = self._redis.read(read)
        (view,) = self.read_views([key], answer)
        return replace(view, nodes=_existing(node_names, answer[-1])) if node_names else view

    def views(self, keys: Sequence[JobKey]) -> list[View]:
        """The views of these keys, from one consistent read. A view that cannot be read has a `fault`."""
        if not keys:
            return []

        def read() -> list[Any]:
            pipe = self._redis.client.pipeline(transaction=True)
            _ask_views(self._redis, pipe, keys)
            # A stranger may have written a key of another type for one job. The others are read all the same.
            return pipe.execute(raise_on_error=False)

        return self.read_views(keys, self._redis.read(read))

    def read_views(self, keys: Sequence[JobKey], answer: Sequence[Any]) -> list[View]:
        """The views in the answers of the commands of `_ask_views`, some of which may be errors. Raises the error of a
        command that all views need."""
        for shared in answer[:SHARED_READS]:
            if isinstance(shared, Exception):
                raise self._redis.fault(shared)
        progress, (writer, whole, of_children) = answer[:SHARED_READS]
        # A pass may decide as soon as all children are listed. Waiting for the lists of jobs as well would stop a
        # cluster with 50,000 finished jobs for ten seconds at each start (ADR 13).
        synced = writer is not None and (whole is not None or of_children is not None)
        views = []
        for number, key in enumerate(keys):
            start = SHARED_READS + READS_A_VIEW * number
            own = answer[start : start + READS_A_VIEW]
            broken = next((each for each in own if isinstance(each, Exception)), None)
            if broken is not None:
                views.append(View(None, fault=self._redis.fault(broken)))
            else:
                views.append(_read_view(key, own, progress, synced=synced))
        return views

    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        wanted = list(names)
        if not wanted:
            return {}
        records: list[Any] = self._redis.read(lambda: self._redis.client.hmget(self._redis.key("nodes"), wanted))
        return _existing(wanted, records)

    def cluster(self) -> ClusterView:
        def read() -> list[Any]:
            pipe = self._redis.client.pipeline(transaction=True)
            pipe.hgetall(self._redis.key("nodes"))
            pipe.hgetall(self._redis.key("node_requests"))
            pipe.hmget(self._redis.key("writer"), ["token", "synced", "children"])
            return pipe.execute()

        nodes, requests, writer = self._redis.read(read)
        token, whole, of_children = writer
        there = token is not None
        return ClusterView(
            _by_name(nodes),
            _by_name(requests),
            synced=there and whole is not None,
            # A gang is called too large only when every node is known. The lists of jobs do not matter for that.
            nodes_whole=there and (whole is not None or of_children is not None),
        )

    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        found: dict[JobKey, tuple[int, bytes]] = {}
        for part in batches(self._redis.members("unfinished"), CHANGES_PER_CALL):
            for key, value in zip(part, self._of_each(part, "hget", "job"), strict=True):
                # None: the job was deleted meanwhile.
                if value is not None:
                    found[key] = _parse_job(value)
        return found

    def children(
        self, keys: Sequence[JobKey], resources: Sequence[GroupResource]
    ) -> Mapping[JobKey, Mapping[GroupResource, Mapping[str, bytes]]]:
        found: dict[JobKey, Mapping[GroupResource, Mapping[str, bytes]]] = {}
        for part in batches(list(keys), CHANGES_PER_CALL):
            for key, fields in zip(part, self._of_each(part, "hgetall"), strict=True):
                found[key] = {resource: _children_of(fields, f"{resource}/".encode()) for resource in resources}
        return found

    def _of_each(self, keys: Sequence[JobKey], command: str, *arguments: str) -> list[Any]:
        """Run a command on the hash of each of these jobs, in one round trip."""

        def read() -> list[Any]:
            # Without MULTI, which would hold up all other clients for the whole part. No caller needs a consistent read
            # of several jobs: `Projection.unfinished` says so.
            pipe = self._redis.client.pipeline(transaction=False)
            for key in keys:
                getattr(pipe, command)(self._redis.key("job", key), *arguments)
            return pipe.execute()

        return self._redis.read(read)


def _ask_views(redis: RedisCommands, pipe: Any, keys: Sequence[JobKey]) -> None:
    """Add the reads of these jobs' views to a pipeline."""
    pipe.hgetall(redis.key("progress"))
    pipe.hmget(redis.key("writer"), ["token", "synced", "children"])
    for key in keys:
        pipe.hgetall(redis.key("job", key))
        pipe.hgetall(redis.key("seen", key))
        pipe.hgetall(redis.key("min_observed", key))


def _read_view(key: JobKey, answer: Sequence[Any], progress: Mapping[bytes, bytes], *, synced: bool) -> View:
    fields, own_seen, min_observed = answer
    # Padded: a foreign key may have fewer parts.
    job_resource, namespace, _ = (*key.split("/", 2), "", "")[:3]
    seen = _newest_versions(own_seen, progress, namespace)
    job = None
    children: dict[GroupResource, dict[str, bytes]] = {}
    for field, value in fields.items():
        if field == b"job":
            rv, job = _parse_job(value)
            # `seen` counts children. The job's own record says how far the watch has shown the job.
            of_job = GroupResource(job_resource)
            seen[of_job] = max(seen.get(of_job, 0), rv)
        else:
            resource, _, name = text(field).partition("/")
            children.setdefault(GroupResource(resource), {})[name] = value.partition(b" ")[2]
    return View(
        job=job,
        children=children,
        seen=seen,
        min_observed={GroupResource(text(resource)): version(rv) for resource, rv in min_observed.items()},
        synced=synced,
    )


def _parse_job(value: bytes) -> tuple[int, bytes]:
    """(resourceVersion, record) of a job's own field, `<version> <finished> <generation> <uid> <record>`. A value of
    another form gives an empty record, whose seal is wrong."""
    rv, *rest = value.split(b" ", 4)
    return version(rv), rest[3] if len(rest) == 4 else b""


def _newest_versions(
    own: Mapping[bytes, bytes], progress: Mapping[bytes, bytes], namespace: str
) -> dict[GroupResource, int]:
    """resource -> newest resourceVersion that the job's children or the watches of its namespace have shown."""
    newest = {GroupResource(text(resource)): version(rv) for resource, rv in own.items()}
    for watch, rv in progress.items():
        resource, _, of_namespace = text(watch).partition("/")
        # An operator for some namespaces has a watch for each. One of another namespace may be further.
        if of_namespace in ("", namespace):
            name = GroupResource(resource)
            newest[name] = max(newest.get(name, 0), version(rv))
    return newest


def _change_args(change: Change) -> tuple[Any, ...]:
    """The change as ARGV of `apply.lua`."""
    operation = (
        "del"
        if change.record is None
        else "end"
        if change.is_job and change.finished
        else "note"
        if change.is_job and change.quiet
        else "put"
    )
    field = "job" if change.is_job else f"{change.resource}/{change.name}"
    return change.key, field, change.rv, operation, change.record or b"", change.job_uid, change.generation


def _record_args(records: Sequence[tuple[str, bytes | None]]) -> list[Any]:
    """The records as arguments of `put_each` in `common.lua`."""
    return flat((name, "del" if record is None else "put", record or b"") for name, record in records)


def _children_of(fields: Mapping[bytes, bytes], start: bytes) -> dict[str, bytes]:
    return {
        text(name[len(start) :]): fields[name].partition(b" ")[2] for name in sorted(fields) if name.startswith(start)
    }


def _by_name(fields: Mapping[bytes, bytes]) -> dict[str, bytes]:
    return {text(name): value for name, value in sorted(fields.items())}


def _existing(names: Sequence[str], records: Sequence[bytes | None]) -> dict[str, bytes]:
    return {name: record for name, record in zip(names, records, strict=False) if record is not None}
