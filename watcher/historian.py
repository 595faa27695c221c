"""Writes the history: jobs that change their phase, end or are deleted, and their pods.

Reflectors pass objects in and never wait: the historian keeps a reference, or counts a loss. Its own thread writes to
the store. While the store is away, slow or full, changes wait in memory, within bounds. Only the history suffers: no
decision about a job depends on it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from tjworker.api.kinds.base import seen_status, text
from tjworker.api.labels import JOB_UID
from tjworker.api.observed import ENDED_PHASES
from tjworker.api.resources import PODS
from tjworker.api.status import END_PHASES
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.base import GroupResource, Json, OperatorError, backoff_seconds
from tjworker.history.records import (
    MOST_WORDS_CHARS,
    Entry,
    Moment,
    Summary,
    deletion_time,
    kept_job,
    kept_pod,
    summary_of,
)
from tjworker.history.store import LIVE_SECONDS, HistoryStore, LeftOut
from tjworker.telemetry.metrics import HISTORY_ENTRIES
from watcher.progress import namespace_of, resource_of
from watcher.projection.jobs import is_of_another

log = structlog.get_logger(__name__)
T = TypeVar("T")

WRITE_SECONDS = 1.0
"""Between two writes while the store works."""
RETRY_MOST_SECONDS = 60.0
MOST_WAITING_JOBS = 2_000
MOST_WAITING_PODS = 5_000
MOST_WAITING_MOMENTS = 20_000
"""Limits of what waits for the store; some 100 MB."""
ENDED_LATELY_SECONDS = 600.0
"""A job in a list that has ended within this time is written: it may have ended while no watcher watched."""
MOST_GONE = 20_000
"""How many deleted jobs are remembered: a late event must not bring a job back, and pods deleted after their job still
belong to it."""
DELETED = "DELETED"


@dataclass(slots=True)
class _News:
    """Changes of one job since the last write."""

    resource: GroupResource
    raw: Json | None = None
    deleted_at: str = ""
    moments: list[Moment] = field(default_factory=list)
    pods: dict[str, tuple[Json, str, str]] = field(default_factory=dict)
    """UID -> (the pod, when its deletion was seen; '' while it exists, when it was requested; '' if it was not)."""


@dataclass(frozen=True, slots=True)
class _Live:
    resource: GroupResource
    phase: str
    count: int
    """`Historian._count` when the job was last shown."""
    rv: int
    """Its resourceVersion then."""


@dataclass(slots=True)
class _List:
    """A list of jobs that has begun and not ended."""

    began: int
    """`Historian._count` when the list began."""
    shown: set[tuple[str, str]] = field(default_factory=set)


class Historian:
    """`now`: Unix seconds by the API server's clock, once it has answered. Reflectors call the methods on their own
    threads; the methods never raise."""

    def __init__(self, store: HistoryStore, seconds: float, *, now: Callable[[], float]) -> None:
        self._store = store
        self._seconds = seconds
        self._now = now
        self._lock = threading.Lock()
        self._live: dict[tuple[str, str], _Live] = {}
        """(namespace, UID) -> each job that this process has seen, until it sees the deletion."""
        self._gone: OrderedDict[tuple[str, str], Summary] = OrderedDict()
        self._news: dict[tuple[str, str], _News] = {}
        self._deletions: dict[str, str] = {}
        """UID of a pod that is being deleted -> when its deletion was requested."""
        self._pods_waiting = 0
        self._moments_waiting = 0
        self._count = 0
        """How many objects of jobs were shown. Orders events against the beginnings of lists."""
        self._lists: dict[str, _List] = {}
        self._listed: list[str] = []
        """Sources whose list has ended since the last write."""
        self._shown = False
        """The API server has sent something."""
        self._terms = 0
        """How many terms have ended."""
        self._restored = False
        """The cluster was restored from a backup, so jobs that have ended in the history may live again."""
        self._stop = threading.Event()
        self._failures = 0
        self._thread: threading.Thread | None = None

    # -- terms -------------------------------------------------------------------------------------
    def end_term(self) -> None:
        """Drop the lists that wait to be compared with the history. Another watcher leads now, and the jobs that it
        writes are missing in them."""
        with self._lock:
            self._listed = []
            # `write` may hold such lists at this moment, in its own thread.
            self._terms += 1

    def begin_new_history(self) -> None:
        """Begin a new history of the cluster, which was restored from a backup. Older versions than before are news
        then, and deleted jobs may be back."""
        with self._lock:
            self._live = {where: replace(live, count=0, rv=0) for where, live in self._live.items()}
            self._gone, self._lists, self._listed, self._restored = OrderedDict(), {}, [], True

    # -- what the watches show ---------------------------------------------------------------------
    def see(self, resource: GroupResource, kind: str, obj: Json) -> None:
        """Take a watch event. `kind`: ADDED, MODIFIED or DELETED."""
        self._shown = True
        try:
            with self._lock:
                if resource == PODS:
                    self._see_pod(kind, obj)
                else:
                    self._see_job(resource, kind, obj)
        except Exception:
            # The projection counts objects that cannot be read.
            log.debug("an object is left out of the history", exc_info=True)

    def list_begins(self, source: str) -> None:
        """Begin a list. `source`: as in `Projector`."""
        with self._lock:
            self._lists[source] = _List(self._count)

    def list_page(self, source: str, objects: Iterable[Json]) -> None:
        """Take one page of a list. It shows which jobs live, and phases that no watch has shown."""
        self._shown = True
        resource = resource_of(source)
        if resource == PODS:
            return
        with self._lock:
            listing = self._lists.setdefault(source, _List(self._count))
            for obj in objects:
                try:
                    self._see_listed(resource, obj, listing)
                except Exception:
                    # As in `see`. The other objects of the page count.
                    log.debug("an object of a list is left out of the history", exc_info=True)

    def list_ends(self, source: str) -> None:
        """End a list. A job is gone if neither the list nor a watch has shown it since the list began."""
        resource, namespace = resource_of(source), namespace_of(source)
        if resource == PODS:
            return
        with self._lock:
            listing = self._lists.pop(source, _List(0))
            for where, live in list(self._live.items()):
                of_list = live.resource == resource and namespace in ("", where[0])
                if of_list and where not in listing.shown and live.count <= listing.began:
                    del self._live[where]
            self._listed.append(source)

    def _see_listed(self, resource: GroupResource, obj: Json, listing: _List) -> None:
        where = _namespace_and_uid(obj)
        if where is None or where in self._gone:
            return
        listing.shown.add(where)
        before, live = self._live.get(where), self._count_live(resource, obj)
        # A resumed watch runs concurrently with the list and may have shown a newer object.
        if before is not None and live.rv <= before.rv:
            return
        self._live[where] = live
        is_new = self._ended_lately(obj) if before is None else live.phase != before.phase
        if not is_new or is_of_another(resource, obj) or (news := self._news_of(where, resource)) is None:
            return
        news.raw = obj
        if before is not None:
            self._add_moment(news, obj)

    def _ended_lately(self, obj: Json) -> bool:
        ended_at = from_rfc3339(text(seen_status(obj).get("completionTime")))
        return ended_at is not None and self._now() - ended_at < ENDED_LATELY_SECONDS

    def _count_live(self, resource: GroupResource, obj: Json) -> _Live:
        self._count += 1
        version = text(obj["metadata"].get("resourceVersion"))
        rv = int(version) if version.isascii() and version.isdigit() else 0
        return _Live(resource, text(seen_status(obj).get("phase")), self._count, rv)

    def _see_job(self, resource: GroupResource, kind: str, obj: Json) -> None:
        where = _namespace_and_uid(obj)
        if where is None or where in self._gone or is_of_another(resource, obj):
            return
        phase, before, deleted_at = text(seen_status(obj).get("phase")), self._live.get(where), ""
        if kind == DELETED:
            deleted_at = to_rfc3339(self._now())
            self._live.pop(where, None)
            # Its pods may be deleted later, and then need the job's summary.
            self._gone[where] = summary_of(resource, obj, deleted_at=deleted_at)
            while len(self._gone) > MOST_GONE:
                self._gone.popitem(last=False)
        else:
            live = self._count_live(resource, obj)
            if before is not None and live.rv < before.rv:
                # A resumed watch begins where the last watcher stopped, and the list may have shown a newer phase.
                return
            self._live[where] = live
            is_new = kind == "ADDED" if before is None else before.phase != phase
            if not is_new and phase not in END_PHASES:
                return
        news = self._news_of(where, resource)
        if news is None:
            return
        news.raw = obj
        if deleted_at:
            news.deleted_at = deleted_at
        elif phase and (before is None or before.phase != phase):
            self._add_moment(news, obj)

    def _add_moment(self, news: _News, obj: Json) -> None:
        if self._moments_waiting >= MOST_WAITING_MOMENTS:
            HISTORY_ENTRIES.inc(result="lost")
            return
        status = seen_status(obj)
        message = text(status.get("message"))[:MOST_WORDS_CHARS]
        news.moments.append(Moment(to_rfc3339(self._now()), text(status.get("phase")), message))
        self._moments_waiting += 1

    def _see_pod(self, kind: str, obj: Json) -> None:
        meta = obj["metadata"]
        over = kind == DELETED or (obj.get("status") or {}).get("phase") in ENDED_PHASES
        # Most changes of a pod are of its start.
        if not over and "deletionTimestamp" not in meta:
            return
        where = str(meta.get("namespace")), str((meta.get("labels") or {}).get(JOB_UID, ""))
        live, gone = self._live.get(where), self._gone.get(where)
        requested = "" if live is None and gone is None else self._deletion_time(kind, obj)
        # A user who may create pods can label them with any UID, so pods of unknown jobs are not kept.
        if not over or (live is None and gone is None):
            return
        waits = where in self._news and str(meta["uid"]) in self._news[where].pods
        if self._pods_waiting >= MOST_WAITING_PODS and not waits:
            HISTORY_ENTRIES.inc(result="lost")
            return
        resource = live.resource if live is not None else GroupResource(gone.resource if gone else "")
        if (news := self._news_of(where, resource)) is not None:
            self._pods_waiting += not waits
            news.pods[str(meta["uid"])] = obj, to_rfc3339(self._now()) if kind == DELETED else "", requested

    def _deletion_time(self, kind: str, pod: Json) -> str:
        """When the pod's deletion was requested; '' if it was not."""
        uid = str(pod["metadata"]["uid"])
        # The first time counts. The kubelet deletes the pod once more when its programs have ended, and the API server
        # then replaces the time.
        requested = self._deletions.get(uid) or deletion_time(pod)
        if kind == DELETED:
            self._deletions.pop(uid, None)
        elif requested:
            self._deletions[uid] = requested
            # Bounded: a pod whose deletion no watch has shown would stay for ever.
            if len(self._deletions) > MOST_WAITING_PODS:
                del self._deletions[next(iter(self._deletions))]
        return requested

    def _news_of(self, where: tuple[str, str], resource: GroupResource) -> _News | None:
        if where not in self._news and len(self._news) >= MOST_WAITING_JOBS:
            HISTORY_ENTRIES.inc(result="lost")
            return None
        return self._news.setdefault(where, _News(resource))

    # -- the thread --------------------------------------------------------------------------------
    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Write what waits, for at most `seconds`. The rest is lost, and counted as lost."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds)
        with self._lock:
            lost_jobs, self._news = len(self._news), {}
        if lost_jobs:
            HISTORY_ENTRIES.inc(lost_jobs, result="lost")

    def _run(self) -> None:
        while not self._stop.wait(self._pause_seconds()):
            self.write()
        self.write()
        self._store.close()

    def _pause_seconds(self) -> float:
        return backoff_seconds(self._failures, WRITE_SECONDS, RETRY_MOST_SECONDS)

    def write(self) -> None:
        """Write what waits. Never raises. What cannot be written waits for the next call."""
        # The store drops jobs by `now`, and before the first answer of the API server that is the local clock. A clock
        # that is a week ahead would drop everything.
        if not self._shown:
            return
        with self._lock:
            news, self._news = self._news, {}
            self._pods_waiting = self._moments_waiting = 0
            listed, self._listed = self._listed, []
            terms = self._terms
        try:
            entries = [_try(self._make_entry, where, changes) for where, changes in news.items()]
            self._put_entries([entry for entry in entries if entry is not None])
            # If `_compare_with_lists` fails, these entries must not wait for another write.
            news = {}
            self._compare_with_lists(listed, terms)
        except OperatorError as error:
            if not self._failures:
                log.warning("the history cannot be written; it waits, and reconciling goes on", error=error.message)
            self._failures += 1
            self._take_back(news)
            with self._lock:
                if terms == self._terms:
                    self._listed = list(dict.fromkeys([*listed, *self._listed]))
        except Exception:
            # Another try would meet the same bug, so what was taken is not put back.
            log.exception("the history has met a bug; what waited for it is lost", jobs=len(news))
            HISTORY_ENTRIES.inc(len(news), result="lost")
        else:
            if self._failures:
                log.info("the history is written again")
            self._failures = 0

    def _put_entries(self, entries: list[Entry]) -> None:
        try:
            left = self._store.put(entries, self._now())
        except OperatorError:
            raise
        except Exception:
            if len(entries) < 2:
                raise
            # One entry that meets a bug must not cost the others.
            log.exception("the history has met a bug; each entry is written by itself", jobs=len(entries))
            left = sum((self._put_alone(entry) for entry in entries), LeftOut())
        HISTORY_ENTRIES.inc(len(entries) - left.entries, result="written")
        HISTORY_ENTRIES.inc(left.entries, result="lost")
        HISTORY_ENTRIES.inc(left.parts, result="cut")

    def _put_alone(self, entry: Entry) -> LeftOut:
        try:
            return self._store.put([entry], self._now())
        except OperatorError:
            raise
        except Exception:
            log.exception("an entry is left out of the history", namespace=entry.namespace, uid=entry.uid)
            return LeftOut(entries=1)

    def _make_entry(self, where: tuple[str, str], news: _News) -> Entry:
        if news.raw is None:
            # Only pods have changed: the job was deleted before them, or kept its phase.
            summary = self._gone.get(where)
        else:
            summary = summary_of(news.resource, news.raw, deleted_at=news.deleted_at)
        pods = {
            uid: kept
            for uid, (pod, gone_at, deletion_at) in news.pods.items()
            if (kept := _try(kept_pod, pod, gone_at=gone_at, deletion_at=deletion_at))
        }
        job = None if news.raw is None else _try(kept_job, news.raw)
        return Entry(
            where[0], where[1], summary, self._keep_until(summary), job=job, pods=pods, moments=tuple(news.moments)
        )

    def _keep_until(self, summary: Summary | None) -> float:
        at = from_rfc3339(summary.at) if summary is not None and summary.at else None
        # A job that lives is kept from its last change on, any other job from its end.
        return self._now() + max(LIVE_SECONDS, self._seconds) if at is None else at + self._seconds

    def _take_back(self, news: dict[tuple[str, str], _News]) -> None:
        """Put back what could not be written. Newer changes win."""
        with self._lock:
            for where, old in news.items():
                newer = self._news.get(where)
                if newer is None and len(self._news) >= MOST_WAITING_JOBS:
                    HISTORY_ENTRIES.inc(result="lost")
                    continue
                self._news[where] = old if newer is None else _merge_news(old, newer)
            self._pods_waiting = sum(len(changes.pods) for changes in self._news.values())
            self._moments_waiting = sum(len(changes.moments) for changes in self._news.values())

    def _compare_with_lists(self, listed: list[str], terms: int) -> None:
        """Compare the history with the lists that have ended, and correct its summaries. `terms`: `_terms` when the
        lists were taken."""
        if not listed:
            return
        sources = {(resource_of(source), namespace_of(source)) for source in listed}
        summaries, at = self._store.summaries(), to_rfc3339(self._now())
        with self._lock:
            # The term has ended meanwhile. Its lists lack the jobs of the next leader, which would count as deleted.
            if terms != self._terms:
                return
            corrected = [
                self._correct_summary(summary, at)
                for summary in summaries
                if {(summary.resource, ""), (summary.resource, summary.namespace)} & sources
            ]
        entries = [Entry(s.namespace, s.uid, s, self._keep_until(s)) for s in corrected if s is not None]
        self._store.put(entries, self._now())

    def _correct_summary(self, summary: Summary, at: str) -> Summary | None:
        """The summary as the list of its resource has it; None if it is right."""
        where = summary.namespace, summary.uid
        live = self._live.get(where)
        if live is None:
            # The job was deleted while no watcher ran. The time is unknown, so the present time is written.
            return None if summary.deleted_at or where in self._gone else replace(summary, deleted_at=at)
        # Within one history of the cluster a UID never comes back, and a phase is written when it changes.
        if not self._restored or (not summary.deleted_at and summary.phase == live.phase):
            return None
        ended_at = summary.ended_at if live.phase in END_PHASES else ""
        return replace(summary, phase=live.phase, ended_at=ended_at, deleted_at="")


def _merge_news(old: _News, new: _News) -> _News:
    return _News(
        new.resource,
        new.raw if new.raw is not None else old.raw,
        new.deleted_at or old.deleted_at,
        [*old.moments, *new.moments],
        {**old.pods, **new.pods},
    )


def _try(make: Callable[..., T], *given: object, **more: object) -> T | None:
    """The result of `make`; None if it meets a bug."""
    try:
        return make(*given, **more)
    except Exception:
        # A tenant can write objects of any shape. They must not cost the history of others.
        log.exception("an object is left out of the history")
        HISTORY_ENTRIES.inc(result="lost")
        return None


def _namespace_and_uid(obj: Json) -> tuple[str, str] | None:
    meta = obj.get("metadata") or {}
    namespace, uid = meta.get("namespace"), meta.get("uid")
    return (str(namespace), str(uid)) if namespace and uid else None
