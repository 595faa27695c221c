"""Takes reports: says of each whether it counts, and writes those that do into the status of their job.

Each report is checked against its token, its pod and its job as they are now. What counts is written at most every
WRITE_SECONDS for each job; reports between two writes wait in memory and go with the next one, so that the end of this
process costs those of some seconds. A write is a patch of the progress alone, and names the version that it rests on:
it takes nothing from what a worker has written meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import structlog

from tjworker.api import labels
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.kinds.base import mapping
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
from tjworker.base import Conflict, JobName, OperatorError, Uid
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NOT_FOUND
from tjworker.reconcile.conditions import clear_condition, set_condition
from tjworker.reports.rights import keeper_of, placement, why_not
from tjworker.reports.tokens import Sender, Tokens
from tjworker.telemetry.metrics import PROGRESS_REPORTS, PROGRESS_WRITES

log = structlog.get_logger(__name__)
Json = dict[str, Any]

WRITE_SECONDS = 10.0
"""Between two writes of one job."""
REPORT_SECONDS = 1.0
"""Between two reports of one job."""
FORGET_SECONDS = 600.0
"""A job that has not reported for so long is forgotten; its next report reads what the status says."""
TRIES = 3
"""Of one write, against others that write the status at the same moment."""
WRITERS = 16
"""Jobs that are written at once. One after another, at 18 ms a job, 10,000 jobs took 180 s, and each is due every
10 s."""
MOST_WAITING = 32
LOCK_SECONDS = 2.0
"""A report waits so long for the one before it, and for a write."""
_STILL = Placement(replicas=1, nodes=1, settled=False)
"""Nothing is known of how the job runs: speeds are counted when they are written."""
_WRITTEN = (*REPORTED, "conditions")


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` is '' for a report that counts."""

    code: int
    reason: str = ""
    message: str = ""


_EARLY = Answer(
    429, "TooManyRequests", f"another report of this job came less than {REPORT_SECONDS:g} s ago; report less often"
)


@dataclass(slots=True)
class _Book:
    """What is kept of one job between two writes."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    uid: str = ""
    known: Progress = field(default_factory=Progress)
    """With the reports that wait."""
    waiting: list[tuple[Report, float]] = field(default_factory=list)
    """With the time of receipt, unix seconds."""
    reporter: Json = field(default_factory=dict)
    """The pod that has reported last."""
    refusal: Refusal | None = None
    """The newest since the last write; a condition of the job will say it."""
    reported_at: float = float("-inf")
    written_at: float = float("-inf")
    """Monotonic, like the one before."""

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

    def take(self, path: str, authorization: str, body: bytes) -> Answer:
        """One report. Never raises."""
        try:
            answer = self._take(path, authorization, body)
        except OperatorError as error:
            log.warning("a report cannot be judged", path=path, error=error.message)
            answer = Answer(503, "ServiceUnavailable", "the API server does not answer; report again")
        PROGRESS_REPORTS.inc(result=answer.reason or "Accepted")
        return answer

    def _take(self, path: str, authorization: str, body: bytes) -> Answer:
        name = job_of_path(path)
        if name is None:
            return Answer(404, "NotFound", "the path is not /apis/GROUP/VERSION/namespaces/NAMESPACE/JOBS/NAME/status")
        kind, _, token = authorization.partition(" ")
        sender = self._tokens.sender(token.strip(), audience(name)) if kind == "Bearer" else None
        if sender is None or sender.namespace != name.namespace:
            return Answer(
                403, "Forbidden", f"the token is not that of a pod of {name.key}: send `Bearer` and the token"
            )
        book, report = self._book(name), parse_report(body)
        # Before the API server is asked: who reports too often costs it nothing.
        if self._is_early(book, report) or not book.lock.acquire(timeout=LOCK_SECONDS):
            return self._refuse(book, _EARLY)
        try:
            return self._take_alone(name, book, sender, report)
        finally:
            book.lock.release()

    def _take_alone(self, name: JobName, book: _Book, sender: Sender, report: Report | Refusal) -> Answer:
        if self._is_early(book, report):
            return self._refuse(book, _EARLY)
        raw = self._kube.get(name.resource, name.namespace, name.name)
        if raw is None:
            return Answer(404, "NotFound", f"{name.key} does not exist")
        job = _readable(parse(name.resource, raw))
        pod = self._kube.get(PODS, sender.namespace, sender.pod)
        why = self._why_not(job, pod, sender)
        if job is None or pod is None or why:
            return Answer(403, "Forbidden", why)
        book.reported_at = self._monotonic()
        if book.uid != job.uid:
            book.uid, book.waiting, book.written_at = job.uid, [], float("-inf")
        book.known = self._folded(book, job)
        answer = self._count(book, report, pod)
        if self._is_due(book):
            self._write(name, book)
        return answer

    def _is_early(self, book: _Book, report: Report | Refusal) -> bool:
        """The report that says that all is done is never early: a program sends it when it ends, whenever that is."""
        done = isinstance(report, Report) and report.percentage == 100 and book.known.percentage != 100
        return not done and self._monotonic() - book.reported_at < REPORT_SECONDS

    def _count(self, book: _Book, report: Report | Refusal, pod: Json) -> Answer:
        if isinstance(report, Refusal):
            return self._refuse(
                book, Answer(413 if report.reason == "TooLarge" else 422, report.reason, report.message)
            )
        if report.is_empty:
            return Answer(200)
        at = self._now()
        known = fold_report(book.known, report, at, _STILL)
        if isinstance(known, Refusal):
            return self._refuse(book, Answer(422, known.reason, known.message))
        book.known, book.reporter = known, pod
        book.waiting = [*book.waiting, (report, at)][-MOST_WAITING:]
        return Answer(200)

    def _folded(self, book: _Book, job: TrainingJob) -> Progress:
        """What the status says, and the reports that wait for the next write."""
        known = read_progress(job.status)
        for report, at in book.waiting:
            folded = fold_report(known, report, at, _STILL)
            known = known if isinstance(folded, Refusal) else folded
        return known

    def _why_not(self, job: TrainingJob | None, pod: Json | None, sender: Sender) -> str:
        if pod is None or pod["metadata"]["uid"] != sender.uid:
            return f"pod {sender.pod} of this token does not exist any more"
        if job is None:
            return "the spec of the job cannot be read"
        keeper = keeper_of(pod)
        if keeper is None:
            owner = controller(pod["metadata"])
            return why_not(job, pod, owner["uid"] if owner else "")
        resource, name, uid = keeper
        found = self._kube.get(resource, sender.namespace, name)
        owner = controller(found["metadata"]) if found is not None and found["metadata"]["uid"] == uid else None
        return why_not(job, pod, owner["uid"] if owner else "")

    def _refuse(self, book: _Book, answer: Answer) -> Answer:
        book.refusal = Refusal(answer.reason, answer.message)
        return answer

    def _book(self, name: JobName) -> _Book:
        with self._lock:
            return self._books.setdefault(name, _Book())

    # -- writes ------------------------------------------------------------------------------------
    def write_due(self) -> None:
        """Write what waits and whose time has come; forget jobs that report no more. Never raises."""
        self._write_each(self._is_due)
        for name, book in self._every_book():
            with book.lock:
                if not book.has_news and self._is_idle(book):
                    with self._lock:
                        self._books.pop(name, None)

    def write_all(self) -> None:
        """At the end of the process: what waits, whether its time has come or not."""
        self._write_each(lambda _: True)

    def _write_each(self, wanted: Callable[[_Book], bool]) -> None:
        """Writes the jobs with news, WRITERS of them at once, and returns when all are written."""

        def write(job: tuple[JobName, _Book]) -> None:
            name, book = job
            with book.lock:
                if book.has_news and wanted(book):  # a report may have written it meanwhile
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
        """A write that fails waits for the next one; that of a job that is gone, for none."""
        book.written_at = self._monotonic()
        for _ in range(TRIES):
            try:
                self._patch(name, book)
            except Conflict as error:
                if error.reason == NOT_FOUND:
                    break
                continue
            except OperatorError as error:
                log.warning("progress cannot be written", job=name.key, error=error.message)
                PROGRESS_WRITES.inc(result="failed")
                return
            PROGRESS_WRITES.inc(result="written")
            break
        else:
            return
        book.waiting, book.refusal = [], None

    def _patch(self, name: JobName, book: _Book) -> None:
        raw = self._kube.get(name.resource, name.namespace, name.name)
        job = _readable(parse(name.resource, raw)) if raw is not None else None
        if raw is None or job is None or job.uid != book.uid:
            return
        status = self._with_reports(job, book) if book.waiting else job.status
        if not status.ended:  # what was reported before the end is written all the same
            status = self._with_refusal(job, status, book.refusal)
        changed = status_patch(raw, name, status)
        if changed:
            meta = {"uid": Uid(job.uid), "resourceVersion": str(job.resource_version)}
            body = {"metadata": meta, "status": changed}
            self._kube.merge_patch(name.resource, name.namespace, name.name, body, subresource="status")

    def _with_refusal(self, job: TrainingJob, status: JobStatus, refusal: Refusal | None) -> JobStatus:
        now, generation = to_rfc3339(self._now()), job.generation
        if refusal is None:
            words = "all reports since the last refusal count"
            return clear_condition(status, REPORT_REFUSED, "Accepted", words, now=now, generation=generation)
        reason, message = refusal.reason, refusal.message
        return set_condition(status, REPORT_REFUSED, True, reason, message, now=now, generation=generation)

    def _with_reports(self, job: TrainingJob, book: _Book) -> JobStatus:
        own = selector({labels.JOB_UID: job.uid})
        pods = list(self._kube.list_page(PODS, job.name.namespace, label_selector=own).items)
        placed, known = placement(job, pods, book.reporter), read_progress(job.status)
        metrics: tuple[tuple[str, str], ...] = ()
        for report, at in book.waiting:
            # Of a report from before the last move nobody knows how many replicas took part.
            before = placed.moved_at is not None and at < placed.moved_at
            folded = fold_report(known, report, at, _STILL if before else placed)
            if not isinstance(folded, Refusal):
                known, metrics = folded, report.metrics or metrics
        return with_progress(job.status, known, metrics)


def _readable(job: TrainingJob | InvalidJob) -> TrainingJob | None:
    """A job whose spec was spoilt while it runs goes on as what is left of it; so do its reports."""
    return job.rest if isinstance(job, InvalidJob) else job


def status_patch(raw: Json, name: JobName, status: JobStatus) -> Json:
    """The merge patch that makes the progress in this object's status that of `status`; {} when it is."""
    kind = KNOWN_KINDS[name.resource]
    before, after = mapping(kind.own_status(raw.get("status"))), status.to_json()
    part = _merge_patch({k: before[k] for k in _WRITTEN if k in before}, {k: after[k] for k in _WRITTEN if k in after})
    return kind.placed(part) if part else {}


def _merge_patch(before: Json, after: Json) -> Json:
    """RFC 7396: what is new or changed, and null for what is gone."""
    patch: Json = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := _merge_patch(old, value):
                patch[key] = inner
        elif old != value or key not in before:
            patch[key] = value
    return patch
