"""Carry out a Plan: the one status write, then creates and deletes several at a time, then the events about them.

Decides nothing. Safe to run twice and to be cut off anywhere: the status write names the resourceVersion it was decided
on, creates have fixed names, deletes name a UID. The status goes first, so that after a crash the next pass knows the
intent.

A pass that takes long stops between two writes, so that no job keeps a worker: what it has not written its next turn
does. What failed is tried last then.
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
from tjworker.base import Conflict, Fenced, Invalid, OperatorError, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import is_about_the_object
from tjworker.kube.port import Json
from tjworker.lease import Lease
from tjworker.reconcile.plan import Create, Delete, Patch, Plan, Write
from tjworker.secret_content import secret_content
from tjworker.settings import Settings
from tjworker.stragglers import Stragglers
from tjworker.telemetry.events import EventRecorder
from tjworker.telemetry.job_metrics import count_status
from tjworker.threads import Threads

Job = TrainingJob | InvalidJob

LOG_TAIL_LINES = 20
LOG_TAIL_BYTES = 2048
LOG_TAILS_A_PASS = 3
"""A hundred pods that fail at once log the same; reading them all would delay the pass."""
PASS_SECONDS = 10.0
"""A pass that is so old begins no more writes: its job joins the line again, as after `writes_per_pass`. So a webhook
that is away, for which each write waits, costs its own jobs their turns and no others theirs: a pass takes so long and
one more write, which `request_timeout_seconds` bounds. No write waits for a thread that another pass keeps."""
UNTOLD_SECONDS = 1.0
"""So old a pass may be when it makes the pods of a new job without a status before them. A holder that slept meanwhile
writes the status, which proves its view; one whose clock slept with it is told by the renewal of its lease."""
REFUSED_CREATES_A_PASS = 3
"""So many creates that are refused for what they make alone do not keep the others back. A template of ten thousand
pods that the API server does not take costs a pass no more; those that failed are tried last in the next one."""
MAKE_PODS = frozenset({PODS, REPLICASETS, BATCH_JOBS})
"""What is counted as a job's first pod."""
LOG_TAILS_SECONDS = 2.0
"""For all of a pass together: the status write waits for them, and a kubelet may accept a request and stay silent."""


@dataclass(slots=True)
class Outcome:
    """What a pass did. `job` is the job after the status write."""

    job: Job
    creates: int = 0
    made_pods: bool = False
    """Among them is a pod, or what makes pods."""
    deletes: int = 0
    patches: int = 0
    status_writes: int = 0
    refused: OperatorError | None = None
    """Of the first create that the API server refused, unless it called the child invalid."""
    invalid: Invalid | None = None
    """The API server called a child invalid: the first of them."""
    refusals: int = 0
    """Creates that were refused, each for what it makes alone."""
    blocked: bool = False
    """A create was refused for a reason that holds for any other (a quota, no answer): no more were tried."""
    beside: OperatorError | None = None
    """The first error of a create of what only stands beside the job. Nothing was kept back for it."""
    undeleted: OperatorError | None = None
    """The first delete or patch that failed. Where that is about its object alone, the other writes were made; else
    (no answer, a missing permission) it was the last of the pass."""
    untold: JobStatus | None = None
    """As of the plan: it has not been written."""
    written: Counter[tuple[str, str]] = field(default_factory=Counter, compare=False)
    """("created", "pods") -> how many; for people."""
    left: int = 0
    """Writes for which there was no time left."""

    def refuse(self, error: OperatorError, *, alone: bool) -> None:
        self.refusals += alone
        self.blocked |= not alone
        if isinstance(error, Invalid):
            self.invalid = self.invalid or error
        else:
            self.refused = self.refused or error

    def summary(self) -> str:
        counts: dict[str, list[str]] = {}
        for (verb, plural), n in sorted(self.written.items()):
            counts.setdefault(verb, []).append(f"{n} {plural if n > 1 else plural.removesuffix('s')}")
        parts = [f"{verb} {', '.join(counted)}" for verb, counted in counts.items()]
        if self.refused or self.invalid:
            parts.append("a create was refused")
        if self.beside:
            parts.append("a create of what stands beside the job was refused")
        if self.undeleted:
            parts.append("a delete has failed")
        if self.left:
            parts.append(f"{self.left} more when it is its turn again")
        return ", ".join([(self.untold or self.job.status).phase or "accepted", *parts])


_VERBS: Mapping[type[Write], str] = {Create: "created", Delete: "deleted", Patch: "patched"}


@dataclass(slots=True)
class _Result:
    """Of one write, which another thread may have made."""

    write: Write
    answer: Json | None = None
    error: OperatorError | None = None
    found: bool = False
    """Of a create: the object was there already, maybe changed since by others; or the next pass is to see it."""


class Executor:
    """One a process, for passes beside each other. Owns threads, so make it after the fork.

    A pass makes its writes in its own thread, and as many beside it as threads are free at that moment. While the
    writes of others hang, it makes one after another, and is slower by that; it waits for none of theirs."""

    def __init__(self, kube: KubeClient, events: EventRecorder, settings: Settings) -> None:
        self._kube = kube
        self._events = events
        self._width = settings.write_concurrency
        self._log_tails_a_pass = LOG_TAILS_A_PASS if settings.log_tails else 0
        self._stragglers = Stragglers()
        self._threads = Threads(self._width, "write")

    def apply(self, job: Job, plan: Plan, lease: Lease) -> Outcome:
        """Raises Conflict when the plan was decided on a stale view (then nothing was created or deleted), Fenced when
        the lease is lost, Transient or Terminal when the API server does not accept the status. What becomes of the
        other writes is in the Outcome."""
        outcome = Outcome(job)
        if plan.status is not None:
            self.write_status(outcome, self._with_log_tails(job, plan), lease)
        elif plan.untold is not None and lease.held_seconds < UNTOLD_SECONDS and not self._has_failed(plan, lease):
            lease.renew_once()
            outcome.untold = plan.untold
        elif plan.untold is not None:
            self.write_status(outcome, plan.untold, lease)
        elif plan.writes:
            self._prove_fresh(job)
        self._write_all(outcome, plan.writes, lease)
        for event in plan.events:
            self._events.event(outcome.job, event.type, event.reason, event.message)
        return outcome

    def _has_failed(self, plan: Plan, lease: Lease) -> bool:
        """The last create of this job in this process: what comes of the next is told in its status."""
        return any(self._stragglers.has(_straggler(lease, write)) for write in plan.writes)

    def write_status(self, outcome: Outcome, status: JobStatus, lease: Lease) -> None:
        job = outcome.job
        lease.ensure()
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
        version = _version(answer)
        lease.versions.append((job.name.resource, version))
        count_status(job, status)
        outcome.job = replace(job, status=status, resource_version=version)
        outcome.status_writes += 1

    def _prove_fresh(self, job: Job) -> None:
        """A pass without a status write has no proof of its view; one GET is the proof. Rare: the pass resumes one that
        was cut off, or continues a big job."""
        live = self._kube.get(job.name.resource, job.name.namespace, job.name.name)
        if live is None or live["metadata"]["uid"] != job.uid or _version(live) != job.resource_version:
            raise Conflict(f"{job.name.key} has changed since this view", reason="StaleView")

    def _with_log_tails(self, job: Job, plan: Plan) -> JobStatus:
        """Best effort: a log that cannot be read, or not in time, is left out."""
        assert plan.status is not None  # noqa: S101  the caller has looked
        tails: dict[tuple[str, str], str] = {}
        asked = plan.log_tails[: self._log_tails_a_pass]
        for wanted in asked:
            try:
                tails[wanted.pod, wanted.container] = self._kube.log_tail(
                    job.name.namespace,
                    wanted.pod,
                    wanted.container,
                    lines=LOG_TAIL_LINES,
                    limit_bytes=LOG_TAIL_BYTES,
                    timeout_seconds=LOG_TAILS_SECONDS / len(asked),
                )
            except OperatorError:
                continue
        if not tails:
            return plan.status
        failures = tuple(
            # A replacement has its predecessor's name, and that one's log was asked for in its own time.
            f
            if f.log_tail or f in job.status.failures
            else f.model_copy(update={"log_tail": tails.get((f.pod, f.container), "")})
            for f in plan.status.failures
        )
        return plan.status.model_copy(update={"failures": failures})

    def _write_all(self, outcome: Outcome, writes: Sequence[Write], lease: Lease) -> None:
        # One create at a time after a refused one, so that a job over its quota costs one failing request a pass.
        told = {(c.type, c.reason) for c in outcome.job.status.conditions}
        width = 1 if ("Running", FAILED_CREATE) in told else self._width
        ordered = self._stragglers.last(writes, lambda write: _straggler(lease, write))
        ordered = self._stragglers.last(ordered, lambda write: _refused_child(lease, write))
        waiting = deque(sorted(ordered, key=lambda write: not _is_needed(write)))
        begun = outcome.status_writes > 0
        while waiting:
            if begun and lease.held_seconds >= PASS_SECONDS:
                outcome.left = len(waiting)
                return
            lease.ensure()
            begun = True
            if outcome.blocked or outcome.refusals >= REFUSED_CREATES_A_PASS:
                waiting = deque(w for w in waiting if not isinstance(w, Create))
            failed: OperatorError | None = None
            for result in self._batch(outcome.job, waiting, width, lease):
                failed = self._account(outcome, result, lease) or failed
            # Only now: the writes beside it have happened and must be accounted for.
            if failed and (isinstance(failed, Conflict | Fenced) or failed.retry_after_seconds is not None):
                raise failed
            if failed:
                outcome.undeleted = outcome.undeleted or failed
                return

    def _batch(self, job: Job, waiting: deque[Write], width: int, lease: Lease) -> list[_Result]:
        """Makes the first of them, and beside it the next ones for which a thread is free, up to `width` in all. What
        others need comes alone."""

        def one(write: Write) -> _Result:
            try:
                lease.check()
                return self._write(job, write)
            except OperatorError as error:
                return _Result(write, error=error)

        if not waiting:
            return []
        # This thread makes the first write itself: it would only wait, and handing a write over costs half a write.
        own = waiting.popleft()
        width = 1 if _is_needed(own) else width
        others: list[Future[_Result]] = []
        while waiting and len(others) < width - 1:
            begun = self._threads.begin(partial(one, waiting[0]))
            if begun is None:
                break
            waiting.popleft()
            others.append(begun)
        return [one(own), *(other.result() for other in others)]

    def _write(self, job: Job, write: Write) -> _Result:
        namespace = job.name.namespace
        if isinstance(write, Create):
            return self._create(job, write)
        if isinstance(write, Delete):
            return _Result(write, self._delete(namespace, write))
        return _Result(write, self._kube.merge_patch(write.resource, namespace, write.name, write.body))

    def _delete(self, namespace: str, write: Delete) -> Json | None:
        """In the version in which it was seen; where that is over, in the present one, if it is the job's still."""
        delete = partial(
            self._kube.delete, write.resource, namespace, write.name, uid=write.uid, grace_seconds=write.grace_seconds
        )
        try:
            return delete(version=write.rv)
        except Conflict:
            if not write.rv:
                raise
            live = self._kube.get(write.resource, namespace, write.name)
            if live is None:
                return None
            owners = {o.get("uid") for o in live["metadata"].get("ownerReferences", ())}
            if live["metadata"]["uid"] != write.uid or write.owner_uid not in owners:
                # Another object, or let go since: the view was old. It is a stranger's now.
                raise
            return delete(version=_version(live))

    def _create(self, job: Job, write: Create) -> _Result:
        if write.holds:
            return self._create_secret(job, write)
        try:
            made = self._kube.create(write.resource, job.name.namespace, write.body)
            return _Result(write, None if write.needed else made, found=write.awaited)
        except Conflict as conflict:
            if conflict.reason != "AlreadyExists":
                raise
            # Ours, from a pass that was cut off after the create: as good as created. Foreign: refused.
            live = self._kube.get(write.resource, job.name.namespace, write.name)
            if live is not None and write.needed and (_has_its_owner(write.body, live) or not _owners(live)):
                return _Result(write)
            if live is not None and not write.needed and _is_the_same(write.body, live):
                return _Result(write, live, found=True)
            message = f'{write.body["kind"]} "{write.name}" exists already and {_whose(write.body, live)}'
            raise Transient(message, status=409, reason="AlreadyExists") from conflict

    def _create_secret(self, job: Job, write: Create) -> _Result:
        """Without an answer: no watch shows Secrets, so none of its version may be waited for."""
        try:
            self._kube.create(write.resource, job.name.namespace, {**write.body, **secret_content(write.holds)})
        except Conflict as conflict:
            if conflict.reason != "AlreadyExists":
                raise
        return _Result(write)

    def _account(self, outcome: Outcome, result: _Result, lease: Lease) -> OperatorError | None:
        """Returns the error that ends the pass, if there is one. A refused create does not end it, nor does a refusal
        that is about one object alone: a protected pod must not keep the others."""
        write, error = result.write, result.error
        if isinstance(error, Fenced):
            return error
        # What succeeds beside a create that holds up all others says nothing of those.
        held_up = error is not None or (isinstance(write, Create) and outcome.blocked)
        alone = error is not None and not _is_needed(write) and _is_about_one_child(error)
        beside = isinstance(write, Create) and write.beside
        if not beside:  # it keeps nothing back, and may not come before what was kept back either
            self._stragglers.note(_straggler(lease, write), failed=held_up)
            if isinstance(write, Create):
                self._stragglers.note(_refused_child(lease, write), failed=alone)
        if error is None:
            # What another has written since is news, and so is that nothing is left: no echo of ours.
            news = result.found or (isinstance(write, Delete) and _gone_at_once(result.answer))
            if version := _version(result.answer):
                (lease.gone if news else lease.versions).append((write.resource, version))
            outcome.written[_VERBS[type(write)], write.resource.partition(".")[0]] += 1
            if isinstance(write, Create):
                outcome.creates += 1
                outcome.made_pods |= write.resource in MAKE_PODS and not write.beside
            elif isinstance(write, Delete):
                outcome.deletes += 1
            else:
                outcome.patches += 1
        elif beside:
            outcome.beside = outcome.beside or error
        elif not isinstance(write, Create):
            if not is_about_the_object(error):
                return error
            outcome.undeleted = outcome.undeleted or error
        else:
            outcome.refuse(error, alone=alone)
        return None


def _is_needed(write: Write) -> bool:
    return isinstance(write, Create) and write.needed


def _is_about_one_child(error: OperatorError) -> bool:
    """Another create may succeed all the same: admission or validation refused this object, or its name is taken."""
    return is_about_the_object(error) or error.reason == "AlreadyExists"


def _refused_child(lease: Lease, write: Write) -> Hashable:
    return (lease.key, write.resource, write.name, "refused")


def _straggler(lease: Lease, write: Write) -> Hashable:
    """Most creates that fail keep back all further ones, so they count as one (but see `_refused_child`)."""
    return (lease.key, write.resource, "" if isinstance(write, Create) else write.name)


def _is_the_same(made: Mapping[str, Any], live: Json) -> bool:
    """Of this job, and made here. What another operator has made of a guest's job lacks the label, and is in no
    projection (`watcher.projection`)."""
    labelled = JOB_UID not in made["metadata"].get("labels", {}) or JOB_UID in (live["metadata"].get("labels") or {})
    return labelled and _has_its_owner(made, live)


def _has_its_owner(made: Mapping[str, Any], live: Json | None) -> bool:
    return bool(_owners(made) & _owners(live))


def _owners(found: Mapping[str, Any] | None) -> set[str]:
    """By UID."""
    return {owner.get("uid", "") for owner in (found or {}).get("metadata", {}).get("ownerReferences", ())}


def _whose(made: Mapping[str, Any], live: Json | None) -> str:
    if _has_its_owner(made, live):
        return "was made for this job by another operator: delete it, unless it goes by itself"
    owners = (live or {"metadata": {}})["metadata"].get("ownerReferences", ())
    owner = next((o for o in owners if o.get("controller")), None)
    if owner is None:
        return "does not belong to this job: delete it, or rename the job"
    return f"belongs to {owner.get('kind')} {owner.get('name')}: rename this job or its role, or delete that one"


def _version(answer: Json | None) -> int:
    """0 for an answer without one: nothing at all, or the Status that a deletion may return."""
    return int((answer or {}).get("metadata", {}).get("resourceVersion") or 0)


def _gone_at_once(answer: Json | None) -> bool:
    """A delete that left nothing. Its event is news and no echo: the next pass waits for the object to be gone. A pod
    with a grace period stays for a while; the plan expects the event of that."""
    if answer is None or answer.get("kind") == "Status":
        return True
    meta = answer["metadata"]
    return not meta.get("deletionGracePeriodSeconds") and not meta.get("finalizers")
