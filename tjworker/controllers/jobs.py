"""Passes over jobs: claim the keys whose turn it is, then for each job observe, decide, apply, and release the keys.

The view comes from Redis, the truth from the API server: a view that is known to be stale is waited for, one that is
stale without our knowing loses at its first write. Safe to run twice, at the same time, and to be killed anywhere. What
each kind of error leads to is a table in `result.py`; an error costs this job alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.reporting import ReportServer
from tjworker.base import Fenced, Invalid, JobKey, OperatorError, Terminal, Transient, parse_key
from tjworker.clock import ClusterClock
from tjworker.controllers.beside import Beside
from tjworker.controllers.live_children import read_children
from tjworker.controllers.live_nodes import read_nodes
from tjworker.controllers.observing import Observation, Observing
from tjworker.controllers.release import LOST, STALE_RETRY_SECONDS, Releases
from tjworker.controllers.result import BesideRests, Result, Worked, after_error, in_words, not_retryable
from tjworker.executor import PASS_SECONDS, Executor, Outcome
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NOT_INSTALLED, is_about_the_object
from tjworker.lease import Lease, too_long
from tjworker.priorities import PriorityClasses
from tjworker.publisher import KeyPublisher
from tjworker.reconcile import (
    Plan,
    Rules,
    reconcile,
    refuse_child,
    report_create_failure,
    report_delete_failure,
    report_died_passes,
    report_tensorboard_failure,
    tell_what_is_missing,
)
from tjworker.settings import Settings
from tjworker.store.port import Store
from tjworker.store.projection import View
from tjworker.telemetry.job_metrics import count_first_pod

log = structlog.get_logger(__name__)

TOLD_DEATHS = 2
"""Passes in a row that died. One is a deploy, or a node that went."""

LIVE_ROUNDS = 5


def reconcile_rules(settings: Settings) -> Rules:
    return Rules(
        writes_per_pass=settings.writes_per_pass,
        node_failure_grace_seconds=settings.node_failure_grace_seconds,
        creating_duration_seconds=settings.creating_duration_seconds,
        creating_restart_seconds=settings.creating_restart_seconds,
        enable_creating_failed=settings.enable_creating_failed,
        gpu_resources=settings.gpu_resource_list,
        gpu_fault_conditions=settings.gpu_fault_condition_list,
        restart_limit=settings.restart_limit,
        autoclean=settings.autoclean,
        own_namespace=settings.own_namespace,
        git_sync_image=settings.git_sync_image,
        gang=settings.gang_scheduler,
        gang_scheduler_name=settings.gang_scheduler_name,
        host_ports=settings.host_port_range,
        reports=report_server(settings),
    )


def report_server(settings: Settings) -> ReportServer | None:
    """None where reports are off. An authority that cannot be read turns them off, with a warning, and ends nothing: a
    job trains without them as well."""
    if not settings.reports_url:
        return None
    try:
        ca_pem = Path(settings.reports_ca_file).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        log.warning(
            "pods cannot report their progress: the authority of the report server cannot be read; make its certificate"
            " with k8s/secrets.sh, and start the workers anew",
            file=settings.reports_ca_file,
            error=str(error),
        )
        return None
    return ReportServer(settings.reports_url, ca_pem)


def _refused(why: str) -> Result:
    """For good: who put it there must mend it."""
    return Result(why, terminal=True)


def _refusal(key: str) -> str:
    """Why this is no key; '' when it is one."""
    try:
        parse_key(key)
    except Invalid as error:
        return f"refused: {error.message}"
    return ""


@dataclass(slots=True)
class Pass:
    """Over one job: what is known of it so far."""

    lease: Lease
    view: View
    found: Observation | None = None
    plan: Plan | None = None
    """What was decided before anything was asked of the API server."""
    result: Result | None = None
    """It has ended."""


class JobReconciler:
    """One a process. Its memory of stale passes, PriorityClasses and rests is a shortcut, never needed."""

    def __init__(  # noqa: PLR0913
        self,
        store: Store,
        kube: KubeClient,
        executor: Executor,
        publisher: KeyPublisher,
        settings: Settings,
        *,
        owner: str,
        clock: ClusterClock,
        monotonic: Callable[[], float] = time.monotonic,
        threads: bool = True,
    ) -> None:
        """Without `threads` the passes of one task come one after another."""
        self._store = store
        self._kube = kube
        self._executor = executor
        self._settings = settings
        self._rules = reconcile_rules(settings)
        self._owner = owner
        self._clock = clock
        self._monotonic = monotonic
        self._releases = Releases(store.queue, publisher)
        self._observing = Observing(store, kube, PriorityClasses(kube, monotonic))
        self._beside = BesideRests(monotonic)
        self._passes: Beside[tuple[Lease, Result]] = Beside(settings.keys_per_task if threads else 1, monotonic)

    def reconcile(self, text: str) -> str:
        """`run`, in words."""
        return in_words(self.run(text), text)

    def run(self, text: str) -> list[Worked]:
        """One pass for each of the keys whose turn it is; `text`, of the task, names a key that was queued. Returns how
        they ended, none when no key was there; the keys are back in the work queue by then, and nobody needs to try
        again. Raises nothing for a fault of a job or of the cluster, and Transient only when Redis is away; the resync
        brings the keys back."""
        refusal = _refusal(text)
        if refusal:
            log.warning("refused a message", error=refusal)
        settings = self._settings
        named = JobKey("" if refusal else text)
        self._releases.give_back_kept()
        taken = self._store.queue.acquire_views(named, self._owner, settings.lock_ttl_seconds, settings.keys_per_task)
        self._releases.publish(taken.publish)
        if not taken.views:
            return [Worked(JobKey(text), _refused(refusal), 0)] if refusal else []
        self._clock.see_redis(taken.at)
        # All at once: a lease is as old as the view that came with it.
        ttl, most = settings.lock_ttl_seconds, settings.task_soft_time_limit_seconds
        passes = [
            Pass(Lease(self._store.queue, claim, ttl, self._monotonic, most), view) for claim, view in taken.views
        ]
        # The soft limit of time may come between a release and its end: the same are released again then, and count
        # once.
        worked: dict[JobKey, Worked] = {}

        def release(ended: Sequence[tuple[Lease, Result]]) -> None:
            for one in self._releases.release(ended):
                worked.setdefault(one.key, one)

        self._begin(passes)
        ended = [(one.lease, one.result) for one in passes if one.result]
        self._passes.run([partial(self._work, one) for one in passes if not one.result], release, ended)
        return list(worked.values())

    def _begin(self, passes: Sequence[Pass]) -> None:
        """Of each pass what needs no answer of the API server: to observe, and to decide. One job after another, in
        this thread: Python decides one at a time, and code that has just run is in the processor's caches. One read
        brings the nodes of all, and one round trip renews the leases of all that will make the pods of a new job."""
        for one in passes:
            self._guarded(one, self._read)
        self._read_nodes([one for one in passes if one.found])
        for one in passes:
            # What may kill this process is told first.
            if one.found and one.lease.claim.deaths < TOLD_DEATHS:
                self._guarded(one, self._decide_first)
        untold = [one.lease for one in passes if one.result is None and one.plan and one.plan.untold]
        if len(untold) > 1:
            Lease.prove(untold)

    def _read_nodes(self, passes: Sequence[Pass]) -> None:
        """Where that fails, each that has pods on nodes begins anew by itself: it fails alone, or not at all."""
        try:
            found = self._observing.with_nodes(one.found for one in passes if one.found)
        except Exception as error:  # noqa: BLE001  each is told its own
            log.debug("the nodes of a task's jobs cannot be read at once", error=str(error))
            for one in passes:
                if one.found and one.found.nodes:
                    one.found = None
            return
        for one, more in zip(passes, found, strict=True):
            one.found = more

    def _read(self, one: Pass) -> None:
        one.lease.ensure()
        if not self._settings.scope.serves(parse_key(one.lease.key).namespace):
            # The settings have changed, and the watcher is to take the job out of Redis; what stands there gets old.
            one.result = Result("another operator serves the job's namespace (TJ_NAMESPACES, TJ_NAMESPACES_EXCLUDED)")
            return
        found = self._observing.read(one.lease.key, one.view, ask=False)
        if isinstance(found, Result):
            one.result = found
        else:
            one.found = found

    def _decide_first(self, one: Pass) -> None:
        assert one.found is not None  # noqa: S101  the caller has looked
        one.plan = self._decide(one.found)

    def _work(self, one: Pass) -> tuple[Lease, Result]:
        """In a thread of its own, where the task has several keys."""
        self._guarded(one, self._go_on)
        assert one.result is not None  # noqa: S101  it has ended, whichever way
        return one.lease, one.result

    def _guarded(self, one: Pass, step: Callable[[Pass], None]) -> None:
        """A step that fails is the end of its pass."""
        key = one.lease.key
        if refusal := _refusal(key):
            # An earlier version named jobs otherwise. Each resync would publish such a key again.
            log.warning("refused a key of the queue", error=refusal)
            one.result = _refused(refusal)
            return
        try:
            step(one)
        except Fenced as error:
            log.warning("lost the lease of a key; another worker has it", key=key, error=error.message)
            one.result = LOST
        except (OperatorError, SoftTimeLimitExceeded) as error:
            one.result = self._after_error(key, error)
        except Exception as error:
            log.exception("a bug in reconcile", key=key, token=one.lease.claim.token)
            one.result = not_retryable(f"bug: {type(error).__name__}: {error}")

    def _go_on(self, one: Pass) -> None:
        lease, found, plan = one.lease, one.found, one.plan
        if found is None:
            lease.ensure()
            if lease.claim.deaths < TOLD_DEATHS and self._observing.rests(lease.key, one.view):
                one.result = Result("the job is suspended: nothing to do")
                return
            asked = self._observing.read(lease.key, one.view)
            if not isinstance(asked, Observation):
                one.result = asked
                return
            (found,) = self._observing.with_nodes([asked])
        died = lease.claim.deaths >= TOLD_DEATHS
        if died:
            found = self._tell_deaths(lease, found)
        found, plan = self._decide_on_live_answers(lease, found, plan or self._decide(found))
        result = self._apply(lease, found, plan)
        if not died:
            self._observing.note_rest(lease.key, one.view, found, plan)
        # This pass has not died: the next one takes the condition back.
        one.result = replace(result, again=True) if died and not (result.failed or result.stale) else result

    def _tell_deaths(self, lease: Lease, found: Observation) -> Observation:
        """Before anything that this pass may die of: afterwards nobody could."""
        found = replace(found, observed=replace(found.observed, died_passes=lease.claim.deaths))
        plan = report_died_passes(found.job, lease.claim.deaths, self._clock())
        if plan.empty:
            return found
        outcome = self._executor.apply(found.job, plan, lease)
        # Its echo must not look like a change of the job by a user, should this pass die, too.
        self._store.queue.raise_min_observed(lease.claim, lease.written)
        return replace(found, job=outcome.job)

    # -- decide ------------------------------------------------------------------------------------
    def _decide(self, found: Observation) -> Plan:
        return reconcile(found.job, found.observed, self._clock(), self._rules)

    def _decide_on_live_answers(self, lease: Lease, found: Observation, plan: Plan) -> tuple[Observation, Plan]:
        """What the plan rests on and a view will not do for is asked of the API server first. An answer may bring up
        another question, as a pod that turns out to be on another node does."""
        for _ in range(LIVE_ROUNDS):
            observed = found.observed
            if plan.ask_nodes and not observed.live:
                observed = replace(observed, live=read_nodes(self._kube, plan.ask_nodes, lease))
            elif plan.ask_every_node and observed.every_node is None:
                observed = replace(observed, every_node=self._observing.every_node())
            elif plan.confirm:
                observed = read_children(
                    self._kube,
                    found.job.name,
                    found.job.uid,
                    observed,
                    plan.confirm,
                    lease,
                    self._settings.list_page_size,
                )
            else:
                return found, plan
            found = replace(found, observed=observed)
            plan = self._decide(found)
        if plan.confirm:
            raise Transient("the job's pods change faster than they can be looked at")
        return found, plan

    # -- apply -------------------------------------------------------------------------------------
    def _apply(self, lease: Lease, found: Observation, plan: Plan) -> Result:
        plan = self._beside.keep_back(lease.key, plan)
        outcome = self._carry_out(lease, found.job, plan)
        if outcome.made_pods and found.has_nothing_yet:
            count_first_pod(found.job, self._clock())
        wait = plan.requeue_after_seconds
        if outcome.invalid is not None or outcome.refused is not None:
            return self._report_refusal(lease, outcome, found.observed, wait)
        if outcome.undeleted is not None:
            return self._report_undeleted(lease, outcome, outcome.undeleted, wait)
        if outcome.beside is not None:
            self._report_beside(lease, outcome, outcome.beside)
            rests = self._beside.refused(lease.key, plan, outcome.beside)
            wait = rests if wait is None else min(rests, wait)
        return Result(outcome.summary(), again=wait == 0 or outcome.left > 0, after_seconds=wait or None)

    def _report_refusal(
        self, lease: Lease, outcome: Outcome, observed: Observed, latest_seconds: float | None
    ) -> Result:
        """Write into the job's status why the API server refused a child. `latest_seconds`: when the plan wants the
        next pass."""
        job = outcome.job if outcome.untold is None else replace(outcome.job, status=outcome.untold)
        if isinstance(job, InvalidJob):  # it creates nothing
            raise Terminal(f"a create was refused for the invalid job {job.name.key}")
        error = outcome.invalid or outcome.refused or Transient("refused")
        message = error.message
        if error.reason == NOT_INSTALLED:
            message += tell_what_is_missing(self._rules)
        if outcome.invalid is not None:
            plan, goes_on = refuse_child(job, observed, self._clock(), message, made_pods=outcome.made_pods)
            if not goes_on:
                self._carry_out(lease, job, plan)
                # The next pass takes away what this one has made.
                return Result(f"refused: {message}", after_seconds=STALE_RETRY_SECONDS)
            # What the API server refuses may be mended by an edit, which is news, or in the cluster, which is none.
            error = Transient(message, status=error.status, reason=error.reason)
        else:
            plan = report_create_failure(job, self._clock(), message)
        # The create may have waited for its answer: then the next pass tells it, before it tries again.
        if not plan.empty and (outcome.untold is None or lease.held_seconds < PASS_SECONDS):
            self._executor.apply(job, plan, lease)
            log.warning("cannot create a child", key=lease.key, uid=job.uid, error=error.message)
        return after_error(error, latest_seconds)

    def _report_beside(self, lease: Lease, outcome: Outcome, error: OperatorError) -> None:
        """Write into the job's status why the API server refused what only stands beside the job. The pass has done
        its work all the same."""
        job = outcome.job if outcome.untold is None else replace(outcome.job, status=outcome.untold)
        if isinstance(job, TrainingJob):
            plan = report_tensorboard_failure(job, self._clock(), error.message)
            if not plan.empty:
                self._executor.apply(job, plan, lease)
                log.warning("cannot create what stands beside a job", key=lease.key, uid=job.uid, error=error.message)

    def _report_undeleted(
        self, lease: Lease, outcome: Outcome, error: OperatorError, latest_seconds: float | None
    ) -> Result:
        """Write into the job's status what does not go, and why: the API server refuses it, the operator may not, or
        there was no answer."""
        if isinstance(outcome.job, TrainingJob):
            plan = report_delete_failure(outcome.job, self._clock(), error.message)
            if not plan.empty:
                self._executor.apply(outcome.job, plan, lease)
                log.warning("cannot delete a child", key=lease.key, uid=outcome.job.uid, error=error.message)
        if is_about_the_object(error):  # whatever the server called it: what refuses is cured from outside
            error = Transient(error.message, status=error.status, reason=error.reason)
        return after_error(error, latest_seconds)

    def _carry_out(self, lease: Lease, job: TrainingJob | InvalidJob, plan: Plan) -> Outcome:
        outcome = self._executor.apply(job, plan, lease)
        for decision in plan.decisions:
            log.info(decision, key=lease.key, token=lease.claim.token)
        return outcome

    def _after_error(self, key: JobKey, error: OperatorError | SoftTimeLimitExceeded) -> Result:
        if not isinstance(error, OperatorError):
            error = too_long(self._settings.task_soft_time_limit_seconds)
        result = after_error(error)
        if result.terminal:
            why = {"error": error.message, "status": error.status, "reason": error.reason}
            log.error("reconcile failed, not retryable", key=key, **why)
        return result
