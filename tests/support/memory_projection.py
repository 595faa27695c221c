"""The projection in memory: answers as `redis_projection.py` does; the contract suite runs on both. Thread-safe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.memory_redis import EDITED, MemoryRedis, OverRedis, whole
from tjworker.base import Fenced, GroupResource, JobKey
from tjworker.store.projection import Change, Checkpoint, ClusterView, Lost, RecordPlace, View


class MemoryProjection(OverRedis):
    def __init__(self, redis: MemoryRedis) -> None:
        super().__init__(redis)
        self._remembers = 0
        self._newest_seq = 0
        """Highest of all leads. In Redis the clock has moved on by the next lead; a test's clock may stand still."""

    @whole
    def lead(self, token: int, form: str = "", *, outright: bool = False) -> None:
        present = self._redis.tables.token
        if present is not None and present > token and not outright:
            raise Fenced(f"writer {token} by writer {present}: a newer holder has taken over")
        if form and self._redis.tables.form != form:
            self._redis.tables.form = _same_key(self._redis.tables.form, form)
            if any("." not in key.partition("/")[0] for key in self.known_keys()):
                self._redis.tables.synced = False
        self._redis.tables.children_in = False
        self._redis.tables.token = token
        self._newest_seq = self._redis.tables.seq = self._remembers = self._newest_seq + 1

    @whole
    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        self._check_writer(token)
        publish: dict[JobKey, None] = {}
        for change in changes:
            edited = change.is_job and self._is_edited(change)
            moved = self._change_job(change) if change.is_job else self._change_child(change)
            if moved and self._react(change, edited=edited):
                publish[change.key] = None
        for watch, rv in (progress or {}).items():
            self._redis.tables.progress[watch] = max(self._redis.tables.progress.get(watch, 0), rv)
        self._written()
        return self._redis.to_publish(list(publish))

    @whole
    def free(self, token: int, changes: Sequence[Change]) -> list[JobKey]:
        self._check_writer(token)
        queued: list[JobKey] = []
        for change in changes:
            if self._needs_no_more(change):
                queued += self.apply(token, [change])
        return list(dict.fromkeys(queued))

    def _needs_no_more(self, change: Change) -> bool:
        if change.record is None:
            return True
        stored = (
            self._redis.tables.jobs.get(change.key)
            if change.is_job
            else self._redis.tables.children.get(change.key, {}).get((change.resource, change.name))
        )
        return stored is not None and _length(change) <= _length(stored)

    @whole
    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        self._put_each(token, self._redis.tables.nodes, nodes)

    @whole
    def apply_node_requests(self, token: int, requests: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        self._put_each(token, self._redis.tables.node_requests, requests, whole=whole)

    def _put_each(
        self, token: int, table: dict[str, bytes], records: Mapping[str, bytes | None], *, whole: bool = False
    ) -> None:
        self._check_writer(token)
        if whole:
            table.clear()
        for name, record in records.items():
            if record is None:
                table.pop(name, None)
            else:
                table[name] = record
        self._written()

    @whole
    def cluster(self) -> ClusterView:
        tables = self._redis.tables
        return ClusterView(
            dict(tables.nodes),
            dict(tables.node_requests),
            synced=tables.token is not None and tables.synced,
            nodes_whole=tables.token is not None and (tables.synced or tables.children_in),
        )

    @whole
    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        tables = self._redis.tables
        found = ((key, tables.jobs.get(key)) for key in sorted(tables.unfinished))
        return {key: (job.rv, job.record or b"") for key, job in found if job is not None}

    @whole
    def children(
        self, keys: Sequence[JobKey], resources: Sequence[GroupResource]
    ) -> Mapping[JobKey, Mapping[GroupResource, Mapping[str, bytes]]]:
        return {
            key: {
                resource: {
                    name: change.record or b""
                    for (of, name), change in sorted(self._redis.tables.children.get(key, {}).items())
                    if of == resource
                }
                for resource in resources
            }
            for key in keys
        }

    @whole
    def mark_children(self, token: int) -> None:
        self._check_writer(token)
        self._redis.tables.children_in = True
        self._written()

    @whole
    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        self._check_writer(token)
        self._redis.tables.synced, self._redis.tables.children_in, self._redis.tables.form = True, False, form
        self._redis.tables.cluster = cluster or self._redis.tables.cluster
        self._written()

    @whole
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(
            self._redis.tables.cluster,
            dict(self._redis.tables.progress),
            synced=self._redis.tables.synced,
            form=self._redis.tables.form,
        )

    @whole
    def reset(self, token: int) -> None:
        self._check_writer(token)
        tables = self._redis.tables
        tables.synced, tables.children_in, tables.cluster = False, False, ""
        versioned: tuple[dict[Any, Any], ...] = (
            tables.jobs,
            tables.children,
            tables.progress,
            tables.seen,
            tables.gone,
            tables.nodes,
            tables.node_requests,
            tables.rests,
            tables.min_observed,
            tables.echo,
            tables.news,
        )
        for table in versioned:
            table.clear()
        tables.known.clear()
        tables.unfinished.clear()
        self._written()

    @whole
    def distrust(self, entries: Sequence[RecordPlace]) -> None:
        tables = self._redis.tables
        for entry in entries:
            if not entry.key:
                (tables.nodes if entry.of == "node" else tables.node_requests).pop(entry.field, None)
                continue
            if entry.field == "job":
                tables.jobs.pop(entry.key, None)
            else:
                resource, _, name = entry.field.partition("/")
                tables.children.get(entry.key, {}).pop((GroupResource(resource), name), None)
            tables.seen.pop(entry.key, None)
            tables.gone.pop(entry.key, None)
        tables.seq, tables.synced, tables.children_in = 0, False, False

    @whole
    def known_keys(self) -> Iterable[JobKey]:
        return sorted(self._redis.tables.known)

    @whole
    def known_children(self, keys: Sequence[JobKey], resource: GroupResource) -> Sequence[tuple[JobKey, str]]:
        return sorted(
            (key, name) for key in keys for of, name in self._redis.tables.children.get(key, {}) if of == resource
        )

    @whole
    def known_nodes(self) -> Iterable[str]:
        return sorted(self._redis.tables.nodes)

    @whole
    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View:
        tables = self._redis.tables
        job = tables.jobs.get(key)
        children: dict[GroupResource, dict[str, bytes]] = {}
        for (resource, name), change in tables.children.get(key, {}).items():
            children.setdefault(resource, {})[name] = change.record or b""
        namespace = key.split("/", 2)[1]
        of_watches = {
            GroupResource(watch.partition("/")[0])
            for watch in tables.progress
            if watch.partition("/")[2] in ("", namespace)
        }
        resources = of_watches | tables.seen.get(key, {}).keys() | ({job.resource} if job else set())
        return View(
            job=job.record if job else None,
            children=children,
            seen={resource: self._redis.seen(key, resource) for resource in resources},
            min_observed={
                GroupResource(resource): rv for resource, rv in self._redis.facts(tables.min_observed, key).items()
            },
            synced=tables.token is not None and (tables.synced or tables.children_in),
            nodes=self.nodes(node_names),
        )

    @whole
    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        return {name: self._redis.tables.nodes[name] for name in names if name in self._redis.tables.nodes}

    # -- the same steps as apply.lua, under the same names -------------------------------------------
    def _check_writer(self, token: int) -> None:
        if self._redis.tables.token is None:
            raise Lost("the projection has vanished")
        if self._redis.tables.token > token:
            raise Fenced(f"writer {token} by writer {self._redis.tables.token}: a newer holder has taken over")
        if self._redis.tables.token < token or self._redis.tables.seq < self._remembers:
            asked = self._redis.tables.token == token and self._redis.tables.seq == 0
            raise Lost(
                "a worker could not open a record and asks for a new list"
                if asked
                else "Redis came back with an older state"
            )

    def _written(self) -> None:
        self._redis.tables.seq += 1
        self._remembers = self._redis.tables.seq
        self._newest_seq = max(self._newest_seq, self._redis.tables.seq)

    def _is_edited(self, change: Change) -> bool:
        stored = self._redis.tables.jobs.get(change.key)
        if change.key not in self._redis.tables.deaths:
            return False
        return stored is None or change.generation != stored.generation

    def _react(self, change: Change, *, edited: bool) -> bool:
        version = f"{change.resource}:{change.rv}"
        if self._redis.facts(self._redis.tables.echo, change.key).pop(version, None) is not None:
            return False
        if edited and change.key in self._redis.tables.running:
            self._redis.tables.news[change.key].add(EDITED)
        if self._redis.holder(change.key) is not None:
            self._redis.tables.news[change.key].add(version)
            return False
        return self._redis.enqueue(change.key, edited=edited)

    def _is_news(self, change: Change, entry: str, stored: Change | None) -> bool:
        known = stored.rv if stored else self._redis.facts(self._redis.tables.gone, change.key).get(entry, -1)
        if change.rv != known or stored is None:
            return change.rv > known
        return change.record is None or _in_redis(change) != _in_redis(stored)

    def _change_job(self, change: Change) -> bool:
        """True when there is something to react to."""
        tables, key = self._redis.tables, change.key
        if not self._is_news(change, "job", tables.jobs.get(key)):
            return False
        if change.record is None:
            self._redis.note(tables.gone, key, "job", change.rv)
            tables.jobs.pop(key, None)
            tables.unfinished.discard(key)
            of_the_key: tuple[dict[JobKey, Any], ...] = (
                tables.dirty,
                tables.delayed,
                tables.failures,
                tables.deaths,
                tables.min_observed,
                tables.echo,
                tables.news,
                tables.rests,
            )
            for table in of_the_key:
                table.pop(key, None)
            self._redis.leave_line(key)
            self._forget_when_empty(key)
            return False
        if change.finished:
            tables.children.pop(key, None)
            tables.seen.pop(key, None)
            tables.gone.pop(key, None)
            tables.rests.pop(key, None)
            tables.unfinished.discard(key)
            self._redis.facts(tables.echo, key).pop(f"{change.resource}:{change.rv}", None)
        else:
            tables.unfinished.add(key)
        tables.jobs[key] = change
        tables.known.add(key)
        return not change.finished and not change.quiet

    def _change_child(self, change: Change) -> bool:
        tables, key = self._redis.tables, change.key
        job = tables.jobs.get(key)
        group = tables.children.get(key, {})
        entry = (change.resource, change.name)
        own = job and (change.record is None or change.job_uid in ("", job.job_uid))
        if own and job and job.finished and entry not in group:
            return False
        if not self._is_news(change, "/".join(entry), group.get(entry)):
            return False
        if change.record is None:
            self._redis.note(tables.gone, key, "/".join(entry), change.rv)
            group.pop(entry, None)
            self._forget_when_empty(key)
        else:
            tables.children.setdefault(key, {})[entry] = change
            tables.known.add(key)
        if job or change.record is not None:
            seen = tables.seen.setdefault(key, {})
            seen[change.resource] = max(seen.get(change.resource, 0), change.rv)
        return job is not None and not job.finished

    def _forget_when_empty(self, key: JobKey) -> None:
        if not self._redis.tables.children.get(key):
            self._redis.tables.children.pop(key, None)
            if key not in self._redis.tables.jobs:
                self._redis.tables.known.discard(key)
                self._redis.tables.seen.pop(key, None)


def _in_redis(change: Change) -> tuple[Any, ...]:
    """What its field holds besides the version."""
    of_a_job = (change.finished, change.generation, change.job_uid) if change.is_job else ()
    return (change.record, *of_a_job)


def _length(change: Change) -> int:
    """Size of its field, as far as two versions of one object differ in it."""
    generation = len(str(change.generation)) if change.is_job else 0
    return len(str(change.rv)) + generation + len(change.record or b"")


def _same_key(before: str, form: str) -> str:
    """What both begin with, of forms that name the key of their seals."""
    name, colon, _ = form.partition(":")
    return f"{name}:" if colon and before.startswith(f"{name}:") else ""
