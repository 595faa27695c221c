"""Executes a Plan: the status write, then creates, deletes and patches several at a time, then the events.

Decides nothing. Safe to run twice and to be cut off anywhere: the status write names the resourceVersion it was decided
on, creates have fixed names, deletes name a UID. The status is written first, so that after a crash the next pass knows
the intent.

A pass that takes long stops between two writes and leaves the rest to the job's next turn, so that no job occupies a
worker. The next turn tries last what failed in this one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tjworker.api.kinds import written_status
from tjworker.api.labels import JOB_UID
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS
from tjworker.api.status import FAILED_CREATE, JobStatus
from tjworker.base import Conflict, Fenced, Invalid, JsonDict, OperatorError, Transient
from tjworker.execution.lease import Lease
from tjworker.execution.secret_content import secret_content
from tjworker.execution.stragglers import Stragglers
from tjworker.execution.threads import Threads
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import is_about_the_object
from tjworker.reconcile.plan import Create, Delete, LogTail, Patch, Plan, Write
from tjworker.settings import Settings
from tjworker.telemetry.events import EventRecorder
from tjworker.telemetry.job_metrics import count_status

Job = TrainingJob | InvalidJob

LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 2048
LOG_TAILS_A_PASS = 3
"""Pods that fail together mostly log the same, and reading every log would delay the pass."""
PASS_SECONDS = 10.0
"""A pass older than this begins no more writes. Its job is queued again, as after `writes_per_pass`. So a webhook that
does not answer delays only the jobs whose writes wait for it: each of their passes takes this long and one write more,
which `request_timeout_seconds` bounds."""
DEFERRED_STATUS_SECONDS = 1.0
"""A pass older than this writes the status before it creates the first pods of a new job. The status write proves that
the view was fresh, which matters if the process slept. If the clock slept with the process, the renewal of the lease
fails instead."""
REFUSED_CREATES_A_PASS = 3
"""After so many creates that the API server refused for their own content, a pass begins no more creates. Fewer do not
hold back the others. This bounds the cost of a template that the API server refuses ten thousand times."""
POD_SOURCES = frozenset({PODS, REPLICASETS, BATCH_JOBS})
"""Resources whose creation counts as that of a job's first pod."""
LOG_TAILS_SECONDS = 2.0
"""For all log tails of a pass together: the status write waits for them, and a kubelet may accept a request and send
nothing."""


@dataclass(slots=True)
class Outcome:
    """What a pass has written. `job` is the job after the status write."""

    job: Job
    made_pods: bool = False
    """A create made a pod, or an object that makes pods."""
    status_writes: int = 0
    create_error: OperatorError | None = None
    """The first refusal of a create, unless the API server called the child invalid."""
    invalid_child: Invalid | None = None
    """The first refusal in which the API server called a child invalid."""
    refused_alone: int = 0
    """Creates that were refused for their own content or name."""
    creates_blocked: bool = False
    """A create failed for a reason that holds for every create, such as a quota: no more were tried."""
    optional_error: OperatorError | None = None
    """The first refusal of an optional object. It held back no other write."""
    delete_error: OperatorError | None = None
    """The first delete or patch that failed. If the error concerns only its object, the other writes were made; if not
    (no answer, a missing permission), it ended the pass."""
    deferred_status: JobStatus | None = None
    """The plan's status, not written yet."""
    written: Counter[tuple[str, str]] = field(default_factory=Counter)
    """("created", "pods") -> count, for `summary`."""
    writes_left: int = 0
    """Writes for which the pass had no time left."""

    @property
    def job_with_deferred_status(self) -> Job:
        """The job as it is once the deferred status is written."""
        return self.job if self.deferred_status is None else replace(self.job, status=self.deferred_status)

    def add_refused_create(self, error: OperatorError, *, alone: bool) -> None:
        """`alone`: the error concerns only this object."""
        self.refused_alone += alone
        self.creates_blocked |= not alone
        if isinstance(error, Invalid):
            self.invalid_child = self.invalid_child or error
        else:
            self.create_error = self.create_error or error

    def summary(self) -> str:
        """The text that Flower shows for a pass that went well."""
        counts: dict[str, list[str]] = {}
        for (verb, plural), n in sorted(self.written.items()):
            counts.setdefault(verb, []).append(f"{n} {plural if n > 1 else plural.removesuffix('s')}")
        parts = [f"{verb} {', '.join(counted)}" for verb, counted in counts.items()]
        if self.create_error or self.invalid_child:
            parts.append("a create was refused")
        if self.optional_error:
            parts.append("a create of an optional object was refused")
        if self.delete_error:
            parts.append("a delete has failed")
        if self.writes_left:
            parts.append(f"{self.writes_left} more when it is its turn again")
        return ", ".join([self.job_with_deferred_status.status.phase or "accepted", *parts])


_VERBS: Mapping[type[Write], str] = {Create: "created", Delete: "deleted", Patch: "patched"}


@dataclass(slots=True)
class _Result:
    """The result of one write, which may have been made in another thread."""

    write: Write
    answer: JsonDict | None = None
    error: OperatorError | None = None
    is_news: bool = False
    """The next pass must see the object that was created: it was there already, maybe changed by others, or the plan
    waits for it."""


class Executor:
    """One per process, for concurrent passes. Owns threads, so create it after the fork.

    A pass writes in its own thread, and in as many others as are free at that moment. While the writes of other passes
    hang, it writes one object after another. It never waits for a thread."""

    def __init__(self, kube: KubeClient, events: EventRecorder, settings: Settings) -> None:
        self._kube = kube
        self._events = events
        self._width = settings.write_concurrency
        self._log_tails_a_pass = LOG_TAILS_A_PASS if settings.log_tails else 0
        self._stragglers = Stragglers()
        self._threads = Threads(self._width, "write")

    def apply(self, job: Job, plan: Plan, lease: Lease) -> Outcome:
        """Execute the plan. Raises Conflict if it was decided on a stale view (nothing was created or deleted then),
        Fenced if the lease is lost, Transient or Terminal if the API server does not accept the status. The Outcome has
        the errors of the other writes."""
        outcome = Outcome(job)
        if plan.status is not None:
            self.write_status(outcome, self._with_log_tails(job, plan.status, plan.log_tails), lease)
        elif plan.deferred_status is not None:
            if self._may_defer_status(plan, lease):
                # The renewal proves by Redis' clock that this process did not sleep, as a status write would (ADR 30).
                lease.renew_once()
                outcome.deferred_status = plan.deferred_status
            else:
                self.write_status(outcome, plan.deferred_status, lease)
        elif plan.writes:
            self._prove_fresh(job)
        self._write_all(outcome, plan.writes, lease)
        # Last: `outcome.job` has the version after the status write, to which the events refer.
        for event in plan.events:
            self._events.event(outcome.job, event.type, event.reason, event.message)
        return outcome

    def _may_defer_status(self, plan: Plan, lease: Lease) -> bool:
        """True if the first pods may be created before the status is written. Not after a failed create: the status
        must then report how the next try ended."""
        failed_before = any(self._stragglers.has(_straggler(lease, write)) for write in plan.writes)
        return lease.held_seconds < DEFERRED_STATUS_SECONDS and not failed_before

    def write_status(self, outcome: Outcome, status: JobStatus, lease: Lease) -> None:
        """Write the status in the version of the job that `outcome` has, and put the written job into `outcome`."""
        job = outcome.job
        lease.ensure()
        # A PUT with the version of the view: the API server refuses it with 409 if the job has changed since. The uid
        # refuses a job that was created again under the same name.
        body = {
            "apiVersion": job.api_version,
            "kind": job.kind,
            "metadata": {
                "name": job.name.name,
                "namespace": job.name.namespace,
                "uid": job.uid,
                "resourceVersion": str(job.resource_version),
            },
            "status": written_status(job, status),
        }
        answer = self._kube.update_status(job.name.resource, job.name.namespace, job.name.name, body)
        version = _version_of(answer)
        # Until the watch has shown this version, the view of the next pass is stale.
        lease.versions.append((job.name.resource, version))
        count_status(job, status)
        outcome.job = replace(job, status=status, resource_version=version)
        outcome.status_writes += 1

    def _prove_fresh(self, job: Job) -> None:
        """Raise Conflict if the job has changed since the view. A status write would prove that; this pass has none, so
        it needs one GET. Rare: the pass resumes one that was cut off, or continues a big job."""
        live = self._kube.get(job.name.resource, job.name.namespace, job.name.name)
        if live is None or live["metadata"]["uid"] != job.uid or _version_of(live) != job.resource_version:
            raise Conflict(f"{job.name.key} has changed since this view", reason="StaleView")

    def _with_log_tails(self, job: Job, status: JobStatus, wanted: Sequence[LogTail]) -> JobStatus:
        """The status with the log tails of its new failures. Best effort: a log that cannot be read in time is left
        out."""
        tails: dict[tuple[str, str], str] = {}
        bounded = wanted[: self._log_tails_a_pass]
        for tail in bounded:
            try:
                tails[tail.pod, tail.container] = self._kube.log_tail(
                    job.name.namespace,
                    tail.pod,
                    tail.container,
                    lines=LOG_TAIL_LINES,
                    limit_bytes=LOG_TAIL_BYTES,
                    timeout_seconds=LOG_TAILS_SECONDS / len(bounded),
                )
            except OperatorError:
                continue
        if not tails:
            return status
        # Older failures keep what they have: their pods may have had the name of a pod that fails now.
        known = job.status.failures
        failures = tuple(
            f if f.log_tail or f in known else f.model_copy(update={"log_tail": tails.get((f.pod, f.container), "")})
            for f in status.failures
        )
        return status.model_copy(update={"failures": failures})

    def _write_all(self, outcome: Outcome, writes: Sequence[Write], lease: Lease) -> None:
        # One at a time after a refused create, so that a job over its quota costs one failing request per pass.
        conditions = {(c.type, c.reason) for c in outcome.job.status.conditions}
        width = 1 if ("Running", FAILED_CREATE) in conditions else self._width
        # What failed in the last pass comes last: a webhook that does not answer takes up a whole pass.
        ordered = self._stragglers.put_failed_last(writes, lambda write: _straggler(lease, write))
        ordered = self._stragglers.put_failed_last(ordered, lambda write: _refused_child(lease, write))
        # First of all the objects that pods name, such as a Secret: without it their containers would not start.
        waiting = deque(sorted(ordered, key=lambda write: not _is_needed(write)))
        begun = outcome.status_writes > 0
        while waiting:
            # Each pass makes at least one write, however old it is: else a slow job would never come further.
            if begun and lease.held_seconds >= PASS_SECONDS:
                outcome.writes_left = len(waiting)
                return
            lease.ensure()
            begun = True
            if outcome.creates_blocked or outcome.refused_alone >= REFUSED_CREATES_A_PASS:
                waiting = deque(w for w in waiting if not isinstance(w, Create))
            failed: OperatorError | None = None
            for result in self._write_batch(outcome.job, waiting, width, lease):
                failed = self._note_result(outcome, result, lease) or failed
            # Not earlier: the other writes of the batch have happened and must be accounted for.
            if failed and (isinstance(failed, Conflict | Fenced) or failed.retry_after_seconds is not None):
                raise failed
            if failed:
                outcome.delete_error = outcome.delete_error or failed
                return

    def _write_batch(self, job: Job, waiting: deque[Write], width: int, lease: Lease) -> list[_Result]:
        """Take up to `width` writes from `waiting`, as many as there are free threads, and make them concurrently. An
        object that others need is created alone."""

        def try_write(write: Write) -> _Result:
            try:
                # In this thread, right before the request: the lease may have lapsed since the batch began.
                lease.check()
                return self._make_write(job, write)
            except OperatorError as error:
                return _Result(write, error=error)

        if not waiting:
            return []
        # This thread would only wait, so it makes the first write itself. Handing a write to another thread costs half
        # as much as the write.
        own = waiting.popleft()
        width = 1 if _is_needed(own) else width
        others: list[Future[_Result]] = []
        while waiting and len(others) < width - 1:
            begun = self._threads.begin(partial(try_write, waiting[0]))
            if begun is None:
                break
            waiting.popleft()
            others.append(begun)
        return [try_write(own), *(other.result() for other in others)]

    def _make_write(self, job: Job, write: Write) -> _Result:
        namespace = job.name.namespace
        if isinstance(write, Create):
            return self._create(job, write)
        if isinstance(write, Delete):
            return _Result(write, self._delete(namespace, write))
        return _Result(write, self._kube.merge_patch(write.resource, namespace, write.name, write.body))

    def _delete(self, namespace: str, write: Delete) -> JsonDict | None:
        """Delete the object in the version that the view shows; if it has changed since, in its present version,
        provided it still belongs to the job."""
        delete = partial(
            self._kube.delete, write.resource, namespace, write.name, uid=write.uid, grace_seconds=write.grace_seconds
        )
        try:
            return delete(version=write.rv)
        except Conflict:
            # Most conflicts are a status of the kubelet's, which changes a pod's version many times in its life.
            if not write.rv:
                raise
            live = self._kube.get(write.resource, namespace, write.name)
            if live is None:
                return None
            owners = {o.get("uid") for o in live["metadata"].get("ownerReferences", ())}
            if live["metadata"]["uid"] != write.uid or write.owner_uid not in owners:
                # Another object of that name, or its owner reference was removed: it is not the job's any more.
                raise
            return delete(version=_version_of(live))

    def _create(self, job: Job, write: Create) -> _Result:
        if write.holds:
            return self._create_secret(job, write)
        try:
            made = self._kube.create(write.resource, job.name.namespace, write.body)
            return _Result(write, None if write.needed else made, is_news=write.awaited)
        except Conflict as conflict:
            if conflict.reason != "AlreadyExists":
                raise
            live = self._kube.get(write.resource, job.name.namespace, write.name)
            # A user may have made the object, such as a claim, before the job. Pods use it as it is.
            if live is not None and write.needed and (_have_common_owner(write.body, live) or not _owner_uids(live)):
                return _Result(write)
            if live is not None and not write.needed and _was_made_here(write.body, live):
                # An earlier pass was cut off after this create.
                return _Result(write, live, is_news=True)
            message = f'{write.body["kind"]} "{write.name}" exists already and {_describe_owner(write.body, live)}'
            raise Transient(message, status=409, reason="AlreadyExists") from conflict

    def _create_secret(self, job: Job, write: Create) -> _Result:
        """Create a Secret with a new key, unless there is one."""
        try:
            self._kube.create(write.resource, job.name.namespace, {**write.body, **secret_content(write.holds)})
        except Conflict as conflict:
            # Its name contains the job's UID, so it is the job's own. The operator may not read Secrets to check.
            if conflict.reason != "AlreadyExists":
                raise
        # Without the answer: no watch shows Secrets, so a pass that waited for its version would wait for ever.
        return _Result(write)

    def _note_result(self, outcome: Outcome, result: _Result, lease: Lease) -> OperatorError | None:
        """Put the result of a write into `outcome`. Returns the error if it ends the pass. A refused create does not
        end it, nor does an error that concerns one object alone: a protected pod must not hold back the others."""
        write, error = result.write, result.error
        if isinstance(error, Fenced):
            return error
        # A create that succeeded in the same batch as a blocked one does not show that creates work again.
        failed = error is not None or (isinstance(write, Create) and outcome.creates_blocked)
        alone = error is not None and not _is_needed(write) and _concerns_one_object(error)
        optional = isinstance(write, Create) and write.optional
        # An optional object holds nothing back, so it must not move other creates behind the rest either.
        if not optional:
            self._stragglers.note(_straggler(lease, write), failed=failed)
            if isinstance(write, Create):
                self._stragglers.note(_refused_child(lease, write), failed=alone)
        if error is None:
            # The event of an own write is an echo and begins no pass. Not so if others may have written since, or if
            # the object is gone: the next pass waits for that event.
            is_news = result.is_news or (isinstance(write, Delete) and _left_nothing(result.answer))
            if version := _version_of(result.answer):
                (lease.gone if is_news else lease.versions).append((write.resource, version))
            outcome.written[_VERBS[type(write)], write.resource.partition(".")[0]] += 1
            if isinstance(write, Create):
                outcome.made_pods |= write.resource in POD_SOURCES and not write.optional
        elif optional:
            outcome.optional_error = outcome.optional_error or error
        elif not isinstance(write, Create):
            # A missing permission, or no answer, meets every other delete, too.
            if not is_about_the_object(error):
                return error
            outcome.delete_error = outcome.delete_error or error
        else:
            outcome.add_refused_create(error, alone=alone)
        return None


def _is_needed(write: Write) -> bool:
    return isinstance(write, Create) and write.needed


def _concerns_one_object(error: OperatorError) -> bool:
    """True if another create may succeed: admission or validation refused this object, or its name is taken."""
    return is_about_the_object(error) or error.reason == "AlreadyExists"


def _refused_child(lease: Lease, write: Write) -> Hashable:
    return (lease.key, write.resource, write.name, "refused")


def _straggler(lease: Lease, write: Write) -> Hashable:
    """The entry of a write in the memory of failures. All creates of a resource share one, since most failures of a
    create hold for every other create; `_refused_child` is for the rest."""
    return (lease.key, write.resource, "" if isinstance(write, Create) else write.name)


def _was_made_here(wanted: Mapping[str, Any], live: JsonDict) -> bool:
    """True if this operator created the live object for this job. Another operator's object for a guest's job lacks the
    label, and no projection shows it (`watcher.projection`)."""
    labelled = JOB_UID not in wanted["metadata"].get("labels", {}) or JOB_UID in (live["metadata"].get("labels") or {})
    return labelled and _have_common_owner(wanted, live)


def _have_common_owner(wanted: Mapping[str, Any], live: JsonDict | None) -> bool:
    return bool(_owner_uids(wanted) & _owner_uids(live))


def _owner_uids(body: Mapping[str, Any] | None) -> set[str]:
    """The UIDs of its owners."""
    return {owner.get("uid", "") for owner in (body or {}).get("metadata", {}).get("ownerReferences", ())}


def _describe_owner(wanted: Mapping[str, Any], live: JsonDict | None) -> str:
    """For the user: to whom the live object belongs, and what to do about it."""
    if _have_common_owner(wanted, live):
        return "was made for this job by another operator: delete it, unless it goes by itself"
    owners = (live or {"metadata": {}})["metadata"].get("ownerReferences", ())
    owner = next((o for o in owners if o.get("controller")), None)
    if owner is None:
        return "does not belong to this job: delete it, or rename the job"
    return f"belongs to {owner.get('kind')} {owner.get('name')}: rename this job or its role, or delete that one"


def _version_of(answer: JsonDict | None) -> int:
    """The resourceVersion of an answer; 0 if it has none, like the Status that a deletion may return."""
    return int((answer or {}).get("metadata", {}).get("resourceVersion") or 0)


def _left_nothing(answer: JsonDict | None) -> bool:
    """True if the object of a delete is gone already. A pod with a grace period, or an object with finalizers, stays
    for a while."""
    if answer is None or answer.get("kind") == "Status":
        return True
    meta = answer["metadata"]
    return not meta.get("deletionGracePeriodSeconds") and not meta.get("finalizers")
