"""One pass over one key: hold it, read its view, decide, carry out, let go. What each kind of error leads to stands here.

The view comes from Redis, the truth from the API server: a view that is known to be old is waited for, one that is old
without our knowing loses at the first write. Safe to run twice, at the same time, and to be killed anywhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from tjworker.api import dialects
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.observed import NodeRecord, Observed
from tjworker.api.records_json import decode, decode_view
from tjworker.base import Conflict, Fenced, Invalid, JobKey, OperatorError, Terminal, Transient, parse_key
from tjworker.executor import Executor, Outcome
from tjworker.kube.errors import NO_PERMISSION
from tjworker.kube.port import KubeApi
from tjworker.lease import Lease
from tjworker.priorities import PriorityClasses
from tjworker.reconcile import Plan, reconcile, refuse_child, report_create_failure
from tjworker.settings import Settings
from tjworker.store.port import Store, View

log = structlog.get_logger(__name__)

STALE_RETRY_SECONDS = 0.25
"""The watch usually shows an own write within milliseconds; its echo queues nothing, so the pass asks to come back."""
STALE_LONGEST_SECONDS = 15.0
"""Each further wait in a row is twice as long, up to this: a watch that is away for minutes must not keep workers busy."""
OLD_REMEMBERED = 1_000
"""Keys of which a process counts such passes; then it forgets them all, and begins anew."""
SLOW_LANE_SECONDS = 300.0


class Publisher(Protocol):
    def publish(self, keys: Iterable[JobKey]) -> int: ...


class Worker:
    """One a process, made after the fork."""

    def __init__(
        self,
        store: Store,
        kube: KubeApi,
        executor: Executor,
        publisher: Publisher,
        settings: Settings,
        *,
        owner: str,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._kube = kube
        self._executor = executor
        self._publisher = publisher
        self._settings = settings
        self._owner = owner
        self._clock = clock
        self._monotonic = monotonic
        self._old: dict[JobKey, int] = {}
        """Key -> passes in a row, of this process, whose view was old."""
        self._priorities = PriorityClasses(kube, monotonic)

    def handle(self, text: str) -> str:
        """Run one pass for the key `text`; the answer is what Flower shows as the result. Raises nothing for a job's or
        the cluster's fault, Transient only when Redis is away (the resync brings the key back)."""
        try:
            key = parse_key(text).key
        except Invalid as error:
            log.warning("refused a message", error=error.message)
            return f"refused: {error.message}"
        taken = self._store.acquire_view(key, self._owner, self._settings.lock_ttl_seconds)
        if taken is None:
            return "nothing to do: not queued any more, or another worker has it"
        hold, view = taken
        lease = Lease(self._store, hold, self._settings.lock_ttl_seconds, self._monotonic)
        try:
            return self._pass(lease, view)
        except OperatorError as error:
            return self._after_error(lease, error)
        except SoftTimeLimitExceeded:
            limit = self._settings.task_soft_time_limit_seconds
            return self._failed(
                lease, Transient(f"the pass took longer than {limit:.0f} s (TJ_TASK_SOFT_TIME_LIMIT_SECONDS)")
            )
        except Exception as error:
            # A bug must cost this job alone: it is logged whole, the job goes to the slow lane, the worker lives on.
            log.exception("a bug in a pass", key=key, token=hold.token)
            self._finish(lease, after_seconds=SLOW_LANE_SECONDS)
            return f"bug: {type(error).__name__}: {error}; next try in {SLOW_LANE_SECONDS:.0f} s"

    def _after_error(self, lease: Lease, error: OperatorError) -> str:
        """What each of the kinds of error leads to."""
        if isinstance(error, Fenced):
            log.warning("lost the lease of a key; another worker goes on", key=lease.key, error=error.message)
            return "lost the lease"
        if isinstance(error, Conflict):
            # The view was old. The write that made it so comes by watch and may be an echo of ours, so ask to come back.
            self._finish_old(lease)
            log.debug("the view was old", key=lease.key, error=error.message)
            return f"the view was old: {error.message}"
        if isinstance(error, Transient) or error.status in NO_PERMISSION:  # a missing right is granted from outside
            return self._failed(lease, error)
        log.error("cannot work on a job", key=lease.key, error=error.message, status=error.status, reason=error.reason)
        self._finish(lease, after_seconds=SLOW_LANE_SECONDS)
        return f"{type(error).__name__}: {error.message}; next try in {SLOW_LANE_SECONDS:.0f} s"

    def _pass(self, lease: Lease, view: View) -> str:
        if not view.synced:
            # The watcher queues every unfinished job once the projection is whole again.
            self._finish(lease, after_seconds=STALE_RETRY_SECONDS * 4)
            return "the projection is being filled"
        if view.stale:
            self._finish_old(lease)
            return "waits for the watch to show an own write"
        raw, observed = decode_view(view.job, view.children, seen=view.seen)
        name = parse_key(lease.key)
        if raw is not None and raw.get("finished"):
            # The projection keeps next to nothing of a finished job; only a TTL brings one here.
            raw = self._kube.get(name.plural, name.namespace, name.name)
        if raw is None:
            self._finish(lease)
            return "the job is gone"
        if name.plural not in dialects.DIALECTS:
            raise Terminal(f"no dialect reads {name.plural}")
        job = dialects.parse(name.plural, raw)
        if isinstance(job, TrainingJob) and job.priority and not job.status.ended:
            job = replace(job, priority_class=self._priorities.find(job.priority))
        nodes = sorted({p.node for p in observed.pods if p.node})
        if nodes and not job.status.ended:
            found = {name: decode("nodes", data) for name, data in self._store.nodes(nodes).items()}
            observed = replace(observed, nodes={n: r for n, r in found.items() if isinstance(r, NodeRecord)})
        return self._decide_and_apply(lease, job, observed)

    def _decide_and_apply(self, lease: Lease, job: TrainingJob | InvalidJob, observed: Observed) -> str:
        plan = reconcile(job, observed, self._clock(), self._settings)
        outcome = self._executor.apply(job, plan, lease)
        self._log(lease, plan)
        if outcome.invalid is not None or outcome.refused is not None:
            return self._refused(lease, outcome, observed, plan.requeue_after_seconds)
        self._finish(lease, again=plan.requeue_after_seconds == 0, after_seconds=plan.requeue_after_seconds or None)
        return outcome.summary()

    def _refused(self, lease: Lease, outcome: Outcome, observed: Observed, next_seconds: float | None) -> str:
        """`next_seconds`: when the pass wants to be followed by another, as of its plan."""
        job = outcome.job
        if isinstance(job, InvalidJob):  # it creates nothing
            raise Terminal(f"a create was refused for the invalid job {job.name.key}")
        if outcome.invalid is not None:
            plan = refuse_child(job, observed, self._clock(), outcome.invalid.message)
            self._executor.apply(job, plan, lease)
            self._log(lease, plan)
            # What this pass has created is news to the clean-up.
            self._finish(lease, after_seconds=STALE_RETRY_SECONDS)
            return f"refused: {outcome.invalid.message}"
        error = outcome.refused or Transient("refused")
        plan = report_create_failure(job, self._clock(), error.message)
        if not plan.empty:
            self._executor.apply(job, plan, lease)
            log.warning("a child cannot be made", key=lease.key, uid=job.uid, error=error.message)
        return self._failed(lease, error, next_seconds)

    def _failed(self, lease: Lease, error: OperatorError, next_seconds: float | None = None) -> str:
        """Again after a growing wait; sooner where a timer of the job is over before that (`next_seconds`): the grace of a
        node, a limit of time. One that is due at once waits all the same: a refused pass is no reason to be in a hurry."""
        if error.retry_after_seconds is not None:
            self._finish(lease, after_seconds=error.retry_after_seconds)
            return f"{error.message}; next try in {error.retry_after_seconds:.0f} s, as the server asked"
        backoff = self._finish(lease, failed=True, after_seconds=next_seconds or None)
        wait = min(backoff or 0, next_seconds or math.inf)
        log.warning("a pass failed", key=lease.key, error=error.message, next_try_seconds=wait)
        return f"{error.message}; next try in {wait:.0f} s"

    def _finish_old(self, lease: Lease) -> None:
        """The view was old: again soon, and less soon each time. News queues the key at once all the same."""
        if len(self._old) > OLD_REMEMBERED:
            self._old.clear()
        times = self._old[lease.key] = self._old.get(lease.key, 0) + 1
        self._finish(
            lease, after_seconds=min(STALE_LONGEST_SECONDS, STALE_RETRY_SECONDS * 2 ** min(times - 1, 16)), old=True
        )

    def _finish(
        self,
        lease: Lease,
        *,
        again: bool = False,
        after_seconds: float | None = None,
        failed: bool = False,
        old: bool = False,
    ) -> float | None:
        if not old:
            self._old.pop(lease.key, None)
        result = self._store.finish(lease.hold, lease.written, again=again, after_seconds=after_seconds, failed=failed)
        if result.publish:
            self._publisher.publish([lease.key])
        return result.backoff_seconds

    def _log(self, lease: Lease, plan: Plan) -> None:
        for decision in plan.decisions:
            log.info(decision, key=lease.key, token=lease.hold.token)
