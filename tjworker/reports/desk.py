"""Takes reports: accepts or refuses each, and writes the accepted ones into the status of their job.

Each report is checked against the present state of its token, its pod and its job. A job is written at most every
WRITE_SECONDS. Reports between two writes wait in memory for the next one, so a process that dies loses the reports of
some seconds. A write patches only the progress, and names the resourceVersion that it is based on: it overwrites no
change of a worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Literal

import structlog

from tjworker.api import labels
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.naming import selector
from tjworker.api.owners import controller
from tjworker.api.progress import (
    Placement,
    Progress,
    Refusal,
    Report,
    fold_report,
    parse_report,
    read_progress,
    with_progress,
)
from tjworker.api.reporting import audience, job_of_path
from tjworker.api.resources import PODS
from tjworker.api.status import REPORT_REFUSED, REPORTED, JobStatus
from tjworker.api.timefmt import to_rfc3339
from tjworker.base import Conflict, JobName, JsonDict, OperatorError, Uid, mapping
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NOT_FOUND
from tjworker.reconcile.conditions import clear_condition, set_condition
from tjworker.reports.rights import keeper_of, placement, why_not
from tjworker.reports.tokens import Sender, Tokens
from tjworker.telemetry.metrics import PROGRESS_REPORTS, PROGRESS_WRITES

log = structlog.get_logger(__name__)

# A write of a status costs the API server as much as three or four creates (docs/internals/performance.md).
WRITE_SECONDS = 10.0
"""Between two writes of one job."""
REPORT_SECONDS = 1.0
"""Between two reports of one job."""
FORGET_SECONDS = 600.0
"""A job that sends no report for longer is forgotten. Its next report starts from the status."""
TRIES = 3
"""For one write: other processes may write the status at the same moment."""
WRITERS = 16
"""How many jobs are written concurrently. One after another, at 18 ms per job, 10,000 jobs took 180 s, and each is due
every 10 s."""
MOST_WAITING = 32
LOCK_SECONDS = 2.0
"""How long a report waits for the job's previous report or write."""
_STILL = Placement(replicas=1, nodes=1, settled=False)
"""A placement that counts no speeds. They are counted at the write, which reads the job's pods."""
_WRITTEN = (*REPORTED, "conditions")


WriteResult = Literal["written", "failed", "unchanged", "dropped"]
"""The result of a write, as PROGRESS_WRITES explains it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to a report. `reason` is '' if the report is accepted."""

    code: int
    reason: str = ""
    message: str = ""


_EARLY = Verdict(
    429, "TooManyRequests", f"another report of this job came less than {REPORT_SECONDS:g} s ago; report less often"
)
_AWAY = Verdict(503, "ServiceUnavailable", "the API server does not answer; report again")


@dataclass(slots=True)
class _Book:
    """The state of one job between two writes."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    uid: str = ""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Role -> the attempt of the whole role when the last report was received."""
    known: Progress = field(default_factory=Progress)
    """The progress, including the waiting reports."""
    waiting: list[tuple[Report, float]] = field(default_factory=list)
    """(report, time of receipt in Unix seconds)."""
    reporter: JsonDict = field(default_factory=dict)
    """The pod that sent the last report."""
    refusal: Refusal | None = None
    """The newest refusal since the last write, for a condition of the job."""
    reported_at: float = float("-inf")
    """Monotonic seconds."""
    written_at: float = float("-inf")
    """Monotonic seconds."""

    @property
    def has_news(self) -> bool:
        return bool(self.waiting) or self.refusal is not None


class Desk:
    """Thread-safe."""

    def __init__(self, kube: KubeClient, *, now: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._kube = kube
        self._now = now
        self._monotonic = monotonic
        self._tokens = Tokens(kube, monotonic)
        self._lock = threading.Lock()
        self._books: dict[JobName, _Book] = {}
        self._writers = ThreadPoolExecutor(WRITERS, "report-writer")

    def take(self, path: str, authorization: str, body: bytes) -> Verdict:
        """Judge one report. Never raises OperatorError."""
        try:
            answer = self._take(path, authorization, body)
        except OperatorError as error:
            log.warning("a report cannot be judged", path=path, error=error.message)
            answer = _AWAY
        PROGRESS_REPORTS.inc(result=answer.reason or "Accepted")
        return answer

    def _take(self, path: str, authorization: str, body: bytes) -> Verdict:
        name = job_of_path(path)
        if name is None:
            return Verdict(404, "NotFound", "the path is not /apis/GROUP/VERSION/namespaces/NAMESPACE/JOBS/NAME/status")
        kind, _, token = authorization.partition(" ")
        sender = self._tokens.sender(token.strip(), audience(name)) if kind == "Bearer" else None
        # An audience is free text: a pod of another namespace can project a token for this audience.
        if sender is None or sender.namespace != name.namespace:
            return Verdict(
                403, "Forbidden", f"the token is not that of a pod of {name.key}: send `Bearer` and the token"
            )
        book, report = self._book(name), parse_report(body)
        # Before any request: a pod that reports too often must not load the API server.
        if self._is_early(book, report):
            return self._refuse(book, _EARLY)
        # The lock is held for long only if the API server is slow: that is no fault of the program.
        if not book.lock.acquire(timeout=LOCK_SECONDS):
            return _AWAY
        try:
            return self._take_alone(name, book, sender, report)
        finally:
            book.lock.release()

    def _take_alone(self, name: JobName, book: _Book, sender: Sender, report: Report | Refusal) -> Verdict:
        # Again, with the lock: another report of the job may have been first.
        if self._is_early(book, report):
            return self._refuse(book, _EARLY)
        raw = self._kube.get(name.resource, name.namespace, name.name)
        if raw is None:
            return Verdict(404, "NotFound", f"{name.key} does not exist")
        job = _readable(parse(name.resource, raw))
        pod = self._kube.get(PODS, sender.namespace, sender.pod)
        why = self._why_not(job, pod, sender)
        if job is None or pod is None or why:
            return Verdict(403, "Forbidden", why)
        book.reported_at = self._monotonic()
        # The job was deleted and created again: the waiting reports belong to the old job.
        if book.uid != job.uid:
            book.uid, book.waiting, book.written_at = job.uid, [], float("-inf")
        _see_attempts(book, job)
        book.known = self._fold_waiting(book, job)
        answer = self._count(book, report, pod)
        if self._is_due(book):
            self._write(name, book)
        return answer

    def _is_early(self, book: _Book, report: Report | Refusal) -> bool:
        # The first report of 100 % is never early: a program sends it when it ends.
        done = isinstance(report, Report) and report.percentage == 100 and book.known.percentage != 100
        return not done and self._monotonic() - book.reported_at < REPORT_SECONDS

    def _count(self, book: _Book, report: Report | Refusal, pod: JsonDict) -> Verdict:
        if isinstance(report, Refusal):
            return self._refuse(
                book, Verdict(413 if report.reason == "TooLarge" else 422, report.reason, report.message)
            )
        if report.is_empty:
            return Verdict(200)
        at = self._now()
        known = fold_report(book.known, report, at, _STILL)
        if isinstance(known, Refusal):
            return self._refuse(book, Verdict(422, known.reason, known.message))
        book.known, book.reporter = known, pod
        book.waiting = [*book.waiting, (report, at)][-MOST_WAITING:]
        return Verdict(200)

    def _fold_waiting(self, book: _Book, job: TrainingJob) -> Progress:
        """The progress in the status, with the reports that wait for the next write."""
        known = read_progress(job.status)
        for report, at in book.waiting:
            folded = fold_report(known, report, at, _STILL)
            known = known if isinstance(folded, Refusal) else folded
        return known

    def _why_not(self, job: TrainingJob | None, pod: JsonDict | None, sender: Sender) -> str:
        if pod is None or pod["metadata"]["uid"] != sender.uid:
            return f"pod {sender.pod} of this token does not exist any more"
        if job is None:
            return "the spec of the job cannot be read"
        keeper = keeper_of(pod)
        if keeper is None:
            owner = controller(pod["metadata"])
            return why_not(job, pod, owner["uid"] if owner else "")
        resource, name, uid = keeper
        # Ownership goes through the chain of controllers, as for the garbage collector. Labels prove nothing: a user
        # with the right to patch pods can copy them (ADR 50).
        workload = self._kube.get(resource, sender.namespace, name)
        # A workload of the same name with another UID does not control the pod.
        is_controller = workload is not None and workload["metadata"]["uid"] == uid
        owner = controller(workload["metadata"]) if workload is not None and is_controller else None
        return why_not(job, pod, owner["uid"] if owner else "")

    def _refuse(self, book: _Book, answer: Verdict) -> Verdict:
        book.refusal = Refusal(answer.reason, answer.message)
        return answer

    def _book(self, name: JobName) -> _Book:
        with self._lock:
            return self._books.setdefault(name, _Book())

    # -- writes ------------------------------------------------------------------------------------
    def write_due(self) -> None:
        """Write the jobs that are due, and forget jobs that have stopped to report. Never raises OperatorError."""
        self._write_each(self._is_due)
        for name, book in self._every_book():
            with book.lock:
                # Books are made for each name that a valid token has reported for, and would pile up over months.
                if not book.has_news and self._is_idle(book):
                    with self._lock:
                        self._books.pop(name, None)

    def write_all(self) -> None:
        """Write every job with waiting reports, due or not. For the end of the process."""
        self._write_each(lambda _: True)

    def _write_each(self, wanted: Callable[[_Book], bool]) -> None:
        """Write the wanted jobs that have changes, WRITERS of them concurrently. Returns when all are written."""

        def write(job: tuple[JobName, _Book]) -> None:
            name, book = job
            with book.lock:
                # Again, with the lock: `take` may have written the job meanwhile.
                if book.has_news and wanted(book):
                    self._write(name, book)

        news = [(name, book) for name, book in self._every_book() if book.has_news and wanted(book)]
        list(self._writers.map(write, news))

    def _every_book(self) -> list[tuple[JobName, _Book]]:
        with self._lock:
            return list(self._books.items())

    def _is_due(self, book: _Book) -> bool:
        return self._monotonic() - book.written_at >= WRITE_SECONDS

    def _is_idle(self, book: _Book) -> bool:
        return self._monotonic() - max(book.reported_at, book.written_at) > FORGET_SECONDS

    def _write(self, name: JobName, book: _Book) -> None:
        """Write one job. After a failure the reports wait for the next write. Those of a deleted job are dropped."""
        # Also if the write fails: the next try comes after WRITE_SECONDS, and an API server that is away is not asked
        # each second for each job.
        book.written_at = self._monotonic()
        result = self._try_to_write(name, book)
        PROGRESS_WRITES.inc(result=result)
        if result != "failed":
            book.waiting, book.refusal = [], None

    def _try_to_write(self, name: JobName, book: _Book) -> WriteResult:
        for _ in range(TRIES):
            try:
                return self._patch(name, book)
            except Conflict as error:
                if error.reason == NOT_FOUND:
                    return "dropped"
                # Another process wrote the status first: read it again.
            except OperatorError as error:
                log.warning("progress cannot be written", job=name.key, error=error.message)
                return "failed"
        return "failed"

    def _patch(self, name: JobName, book: _Book) -> WriteResult:
        raw = self._kube.get(name.resource, name.namespace, name.name)
        job = _readable(parse(name.resource, raw)) if raw is not None else None
        if raw is None or job is None or job.uid != book.uid:
            return "dropped"
        _see_attempts(book, job)
        status = self._with_reports(job, book) if book.waiting else job.status
        # An ended job gets its last progress, but no condition any more.
        if not status.ended:
            status = self._with_refusal(job, status, book.refusal)
        changed = status_patch(raw, name, status)
        if not changed:
            return "unchanged"
        # The API server applies a patch without a resourceVersion to whatever object has the name: to a successor of
        # the job, or over a status that a worker has written since.
        meta = {"uid": Uid(job.uid), "resourceVersion": str(job.resource_version)}
        body = {"metadata": meta, "status": changed}
        self._kube.merge_patch(name.resource, name.namespace, name.name, body, subresource="status")
        return "written"

    def _with_refusal(self, job: TrainingJob, status: JobStatus, refusal: Refusal | None) -> JobStatus:
        now, generation = to_rfc3339(self._now()), job.generation
        if refusal is None:
            words = "all reports since the last refusal count"
            return clear_condition(status, REPORT_REFUSED, "Accepted", words, now=now, generation=generation)
        reason, message = refusal.reason, refusal.message
        return set_condition(status, REPORT_REFUSED, True, reason, message, now=now, generation=generation)

    def _with_reports(self, job: TrainingJob, book: _Book) -> JobStatus:
        # By UID: pods of an earlier job of this name may still be in their grace period.
        own = selector({labels.JOB_UID: job.uid})
        pods = list(self._kube.list_page(PODS, job.name.namespace, label_selector=own).items)
        placed, known = placement(job, pods, book.reporter), read_progress(job.status)
        metrics: tuple[tuple[str, str], ...] = ()
        for report, at in book.waiting:
            # For a report from before the last change of scale, the number of replicas is unknown.
            before = placed.moved_at is not None and at < placed.moved_at
            folded = fold_report(known, report, at, _STILL if before else placed)
            if not isinstance(folded, Refusal):
                known, metrics = folded, report.metrics or metrics
        return with_progress(job.status, known, metrics)


def _see_attempts(book: _Book, job: TrainingJob) -> None:
    """Forget the percentages that wait if the job has begun a new attempt since. Their speeds still count."""
    attempts = {name: role.all for name, role in job.status.attempts.roles.items() if role.all}
    if attempts != book.attempts:
        # The restart removed the percentage from the status. An old one there would refuse the reports of the new
        # attempt, which begins at an older checkpoint, as moved backwards.
        book.waiting = [(replace(report, percentage=None, remaining_seconds=None), at) for report, at in book.waiting]
        book.attempts = attempts


def _readable(job: TrainingJob | InvalidJob) -> TrainingJob | None:
    """The readable part of a job; None if there is none."""
    # A job whose spec was made invalid while it runs goes on with the part that is valid, and so do its reports.
    return job.rest if isinstance(job, InvalidJob) else job


def status_patch(raw: JsonDict, name: JobName, status: JobStatus) -> JsonDict:
    """The merge patch that brings the progress of `status` into the object's status; {} if nothing differs."""
    kind = KNOWN_KINDS[name.resource]
    before, after = mapping(kind.own_status(raw.get("status"))), status.to_json()
    part = _merge_patch({k: before[k] for k in _WRITTEN if k in before}, {k: after[k] for k in _WRITTEN if k in after})
    return kind.placed(part) if part else {}


def _merge_patch(before: JsonDict, after: JsonDict) -> JsonDict:
    """The merge patch (RFC 7396) from `before` to `after`: new and changed fields, and null for removed ones."""
    patch: JsonDict = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := _merge_patch(old, value):
                patch[key] = inner
        elif old != value or key not in before:
            patch[key] = value
    return patch
