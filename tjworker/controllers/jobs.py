"""Passes over jobs: claim the keys whose turn it is; observe, decide and apply for each job; release the keys.

The view comes from Redis, the truth from the API server. A pass waits if it knows that its view is stale. A view that
is stale without its knowledge fails at the first write. Safe to run twice, also concurrently, and to be killed
anywhere. An error ends the pass of one job only; `pass_end.py` says what each kind of error leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.needs import Need
from tjworker.api.observed import Observed
from tjworker.api.reporting import ReportServer
from tjworker.base import Fenced, Invalid, JobKey, OperatorError, Terminal, Transient, parse_key
from tjworker.clock import ClusterClock
from tjworker.controllers.concurrent import ConcurrentPasses
from tjworker.controllers.facts import Facts
from tjworker.controllers.observing import JobObservation, Observer
from tjworker.controllers.optional_objects import OptionalRetries
from tjworker.controllers.pass_end import (
    AwaitWatch,
    Done,
    EndedPass,
    GiveUp,
    LeaseLost,
    PassEnd,
    QueueAgain,
    ReleasedEnd,
    RetryAfter,
    RetryWithBackoff,
    after_error,
    give_up,
)
from tjworker.controllers.priorities import PriorityClasses
from tjworker.controllers.release import STALE_RETRY_SECONDS, Releases
from tjworker.execution.executor import PASS_SECONDS, Executor, Outcome
from tjworker.execution.lease import Lease, too_long
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NOT_INSTALLED, is_about_the_object
from tjworker.publisher import KeyPublisher
from tjworker.reconcile import (
    Plan,
    Rules,
    describe_missing_scheduler,
    reconcile,
    refuse_child,
    report_addon_failure,
    report_create_failure,
    report_delete_failure,
    report_died_passes,
)
from tjworker.settings import Settings
from tjworker.store.port import Store
from tjworker.store.projection import View
from tjworker.telemetry.job_metrics import count_first_pod

log = structlog.get_logger(__name__)

REPORTED_DEATHS = 2
"""Dead passes in a row that the job's status reports. A single one is usually a deploy or a lost node."""

FACT_ROUNDS = 5
"""How often a pass reads facts and decides again, at most."""


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
    """None if reports are off. A certificate authority that cannot be read turns them off with a warning: jobs train
    without reports as well."""
    if not settings.reports_url:
        return None
    try:
        ca_pem = Path(settings.reports_ca_file).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        log.warning(
            "pods cannot report their progress: the authority of the report server cannot be read; make its certificate"
            " with k8s/secrets.sh, and restart the workers",
            file=settings.reports_ca_file,
            error=str(error),
        )
        return None
    return ReportServer(settings.reports_url, ca_pem)


def _key_error(key: str) -> str:
    """Why this text is no key; '' if it is one."""
    try:
        parse_key(key)
    except Invalid as error:
        return f"refused: {error.message}"
    return ""


@dataclass(slots=True)
class JobPass:
    """One pass over one job, as far as it has come."""

    lease: Lease
    view: View
    found: JobObservation | None = None
    """None if the API server must be asked first."""
    plan: Plan | None = None
    """Decided from the view alone."""
    end: PassEnd | None = None
    """Set once the pass has ended."""


JobPasses = ConcurrentPasses[tuple[Lease, PassEnd]]
"""Runs the passes of one task."""


class JobReconciler:
    """One per process. What it remembers of stale passes, PriorityClasses and refusals is an optimisation."""

    def __init__(
        self,
        store: Store,
        kube: KubeClient,
        executor: Executor,
        publisher: KeyPublisher,
        passes: JobPasses,
        settings: Settings,
        *,
        owner: str,
        clock: ClusterClock,
    ) -> None:
        """`owner` names this process in its leases."""
        self._store = store
        self._executor = executor
        self._settings = settings
        self._rules = reconcile_rules(settings)
        self._owner = owner
        self._clock = clock
        self._passes = passes
        self._releases = Releases(store.queue, publisher)
        self._observer = Observer(store, kube, PriorityClasses(kube, clock.monotonic), clock.monotonic)
        self._facts = Facts(kube, self._observer.read_every_node, settings.list_page_size)
        self._optional = OptionalRetries(clock.monotonic)

    def run(self, text: str) -> list[EndedPass]:
        """Make one pass for each key whose turn it is, and return how the passes ended; none if no key is queued.

        `text`, the argument of the task, names a key that was queued; other keys may come first. All keys are back in
        the work queue when this returns. Raises Transient if Redis is away (the resync then brings the keys back), and
        nothing for a fault of a job or of the cluster."""
        refusal = _key_error(text)
        if refusal:
            log.warning("refused a message", error=refusal)
        settings = self._settings
        # A task may serve the keys whose turn it is, whatever its message names.
        named = JobKey("" if refusal else text)
        # Before new keys are taken: this raises if Redis still takes no endings, and then no further key is leased.
        self._releases.send_unsent()
        taken = self._store.queue.acquire_views(named, self._owner, settings.lock_ttl_seconds, settings.keys_per_task)
        self._releases.publish(taken.publish)
        if not taken.views:
            return [EndedPass(JobKey(text), GiveUp(refusal), 0)] if refusal else []
        self._clock.see_redis(taken.at)
        # Create all leases now, also those of passes that wait: a lease is as old as the view that came with it.
        ttl, most = settings.lock_ttl_seconds, settings.task_soft_time_limit_seconds
        passes = [
            JobPass(Lease(self._store.queue, claim, ttl, self._clock.monotonic, most), view)
            for claim, view in taken.views
        ]
        # A soft time limit that hits between a release and its return makes `release` run again for the same passes.
        # Each counts once.
        by_key: dict[JobKey, EndedPass] = {}

        def release(ended: Sequence[tuple[Lease, PassEnd]]) -> None:
            for one in self._releases.release(ended):
                by_key.setdefault(one.key, one)

        self._observe_and_decide(passes)
        ended = [(p.lease, p.end) for p in passes if p.end]
        self._passes.run([partial(self._complete_pass, p) for p in passes if not p.end], release, ended)
        return list(by_key.values())

    def _observe_and_decide(self, passes: Sequence[JobPass]) -> None:
        """First phase: observe and decide, without calling the API server, one job after another in this thread. The
        operator then takes 21 ms of CPU for a job of four pods, and 30 if each pass decides in its thread.

        One read brings the nodes of all jobs, and one round trip renews the leases of all passes that are about to
        create the pods of a new job. Threads would not help: Python runs one at a time."""
        for job_pass in passes:
            self._run_step(job_pass, self._observe_view)
        self._add_nodes([p for p in passes if p.found])
        for job_pass in passes:
            # After deaths the pass may kill this process, so its deaths must be reported before it decides.
            if job_pass.found and job_pass.lease.claim.deaths < REPORTED_DEATHS:
                self._run_step(job_pass, self._decide_from_view)
        # A lease alone is renewed in the executor, which takes one round trip as well.
        deferring = [p.lease for p in passes if p.end is None and p.plan and p.plan.deferred_status]
        if len(deferring) > 1:
            Lease.renew_together(deferring)

    def _add_nodes(self, passes: Sequence[JobPass]) -> None:
        try:
            found = self._observer.with_nodes(p.found for p in passes if p.found)
        except Exception as error:  # noqa: BLE001  each pass meets its own error
            # Each pass with placed pods reads its nodes itself later, and fails alone or not at all.
            log.debug("the nodes of a task's jobs cannot be read at once", error=str(error))
            for job_pass in passes:
                if job_pass.found and job_pass.found.nodes:
                    job_pass.found = None
            return
        for job_pass, with_nodes in zip(passes, found, strict=True):
            job_pass.found = with_nodes

    def _observe_view(self, job_pass: JobPass) -> None:
        job_pass.lease.ensure()
        if not self._settings.scope.serves(parse_key(job_pass.lease.key).namespace):
            # The settings have changed. The watcher will take the job out of Redis; its records grow old until then.
            job_pass.end = Done("another operator serves the job's namespace (TJ_NAMESPACES, TJ_NAMESPACES_EXCLUDED)")
            return
        found = self._observer.observe_view(job_pass.lease.key, job_pass.view)
        if found is None or isinstance(found, JobObservation):
            job_pass.found = found
        else:
            job_pass.end = found

    def _decide_from_view(self, job_pass: JobPass) -> None:
        assert job_pass.found is not None  # noqa: S101  the caller has checked
        job_pass.plan = self._decide(job_pass.found)

    def _complete_pass(self, job_pass: JobPass) -> tuple[Lease, PassEnd]:
        """Second phase: ask the API server and apply. Runs in its own thread if the task has several keys."""
        self._run_step(job_pass, self._ask_and_apply)
        assert job_pass.end is not None  # noqa: S101  every branch of the step sets it
        return job_pass.lease, job_pass.end

    def _run_step(self, job_pass: JobPass, step: Callable[[JobPass], None]) -> None:
        """Run a step of the pass. An error of the step ends the pass."""
        key = job_pass.lease.key
        if refusal := _key_error(key):
            # A key of an earlier version, which named jobs otherwise. `GiveUp` without a time: each resync would
            # publish it again.
            log.warning("refused a key of the queue", error=refusal)
            job_pass.end = GiveUp(refusal)
            return
        try:
            step(job_pass)
        except Fenced as error:
            log.warning("lost the lease of a key; another worker has it", key=key, error=error.message)
            job_pass.end = LeaseLost()
        except (OperatorError, SoftTimeLimitExceeded) as error:
            job_pass.end = self._end_after_error(key, error)
        except Exception as error:
            log.exception("a bug in reconcile", key=key, token=job_pass.lease.claim.token)
            job_pass.end = give_up(f"bug: {type(error).__name__}: {error}")

    def _ask_and_apply(self, job_pass: JobPass) -> None:
        lease, found, plan = job_pass.lease, job_pass.found, job_pass.plan
        died = lease.claim.deaths >= REPORTED_DEATHS
        if found is None:
            lease.ensure()
            # Not after deaths: those must be reported first, and the condition Stalled be taken back later.
            if not died and self._observer.is_resting(lease.key, job_pass.view):
                job_pass.end = Done("the job is suspended: nothing to do")
                return
            observed = self._observer.observe(lease.key, job_pass.view)
            if not isinstance(observed, JobObservation):
                job_pass.end = observed
                return
            (found,) = self._observer.with_nodes([observed])
        if died:
            found = self._report_deaths(lease, found)
        found, plan = self._read_and_decide(lease, found, plan or self._decide(found))
        end = self._apply_plan(lease, found, plan)
        if died:
            job_pass.end = _return_after_deaths(end)
        else:
            # Only after the plan was applied: a pass that fails half-way has something left to do.
            self._observer.note_rest(lease.key, job_pass.view, found, plan)
            job_pass.end = end

    def _report_deaths(self, lease: Lease, found: JobObservation) -> JobObservation:
        """Write into the status that passes over this job die. Before the work that may have caused the deaths: this
        pass may die of it, too."""
        found = replace(found, observed=replace(found.observed, died_passes=lease.claim.deaths))
        plan = report_died_passes(found.job, lease.claim.deaths, self._clock())
        if plan.empty:
            return found
        outcome = self._executor.apply(found.job, plan, lease)
        # Record the write at once. If this pass dies, its echo must not look like a user's change of the job, which
        # would end the wait after deaths.
        self._store.queue.raise_min_observed(lease.claim, lease.written)
        return replace(found, job=outcome.job)

    # -- decide ------------------------------------------------------------------------------------
    def _decide(self, found: JobObservation) -> Plan:
        return reconcile(found.job, found.observed, self._clock(), self._rules)

    def _read_and_decide(self, lease: Lease, found: JobObservation, plan: Plan) -> tuple[JobObservation, Plan]:
        """Read the facts that the plan needs and decide again, until it needs no more. An answer may raise another
        question: a pod may turn out to be on another node."""
        asked: set[Need] = set()
        for _ in range(FACT_ROUNDS):
            missing = [need for need in plan.needs if need not in asked]
            if not missing:
                return found, plan
            observed, read = self._facts.read(missing, found.job, found.observed, lease)
            asked |= read
            found = replace(found, observed=observed)
            plan = self._decide(found)
        if any(need.required for need in plan.needs):
            raise Transient("the job's pods change faster than they can be looked at")
        return found, plan

    # -- apply -------------------------------------------------------------------------------------
    def _apply_plan(self, lease: Lease, found: JobObservation, plan: Plan) -> ReleasedEnd:
        plan = self._optional.hold_back(lease.key, plan)
        outcome = self._execute_plan(lease, found.job, plan)
        if outcome.made_pods and found.is_new:
            count_first_pod(found.job, self._clock())
        wait = plan.requeue_after_seconds
        if outcome.invalid_child is not None or outcome.create_error is not None:
            return self._report_create_error(lease, outcome, found.observed, wait)
        if outcome.delete_error is not None:
            return self._report_delete_error(lease, outcome, outcome.delete_error, wait)
        if outcome.optional_error is not None:
            self._report_optional_error(lease, outcome, outcome.optional_error)
            retry = self._optional.note_refusal(lease.key, plan, outcome.optional_error)
            wait = retry if wait is None else min(retry, wait)
        text = outcome.summary()
        return QueueAgain(text) if wait == 0 or outcome.writes_left else Done(text, wait)

    def _report_create_error(
        self, lease: Lease, outcome: Outcome, observed: Observed, latest_seconds: float | None
    ) -> ReleasedEnd:
        """Write into the status why the API server refused a child. `latest_seconds`: until the plan needs the next
        pass."""
        job = outcome.job_with_deferred_status
        if isinstance(job, InvalidJob):  # it creates nothing
            raise Terminal(f"a create was refused for the invalid job {job.name.key}")
        error = outcome.invalid_child or outcome.create_error or Transient("refused")
        message = error.message
        if error.reason == NOT_INSTALLED:
            message += describe_missing_scheduler(self._rules)
        if outcome.invalid_child is not None:
            plan, goes_on = refuse_child(job, observed, self._clock(), message, made_pods=outcome.made_pods)
            if not goes_on:
                self._execute_plan(lease, job, plan)
                # The next pass deletes what this pass has created.
                return Done(f"refused: {message}", STALE_RETRY_SECONDS)
            # Retry with backoff: a change in the cluster may mend what the API server refuses, and no event says so.
            error = Transient(message, status=error.status, reason=error.reason)
        else:
            plan = report_create_failure(job, self._clock(), message)
        # A create that waited long for its answer has used up the time of the pass. With a deferred status nothing is
        # written yet, so the next pass writes the report before it tries again.
        if not plan.empty and (outcome.deferred_status is None or lease.held_seconds < PASS_SECONDS):
            self._executor.apply(job, plan, lease)
            log.warning("cannot create a child", key=lease.key, uid=job.uid, error=error.message)
        return after_error(error, latest_seconds)

    def _report_optional_error(self, lease: Lease, outcome: Outcome, error: OperatorError) -> None:
        """Write into the status why the API server refused an optional object. The pass has succeeded all the same."""
        job = outcome.job_with_deferred_status
        if isinstance(job, TrainingJob):
            plan = report_addon_failure(job, self._clock(), error.message)
            if not plan.empty:
                self._executor.apply(job, plan, lease)
                log.warning(
                    "cannot create an optional object of a job", key=lease.key, uid=job.uid, error=error.message
                )

    def _report_delete_error(
        self, lease: Lease, outcome: Outcome, error: OperatorError, latest_seconds: float | None
    ) -> ReleasedEnd:
        """Write into the status which object cannot be deleted, and why: the API server refuses it, the operator lacks
        the permission, or there was no answer."""
        if isinstance(outcome.job, TrainingJob):
            plan = report_delete_failure(outcome.job, self._clock(), error.message)
            if not plan.empty:
                self._executor.apply(outcome.job, plan, lease)
                log.warning("cannot delete a child", key=lease.key, uid=outcome.job.uid, error=error.message)
        if is_about_the_object(error):
            # Retry with backoff, whatever class the error has: what refuses, such as a webhook, is mended from outside.
            error = Transient(error.message, status=error.status, reason=error.reason)
        return after_error(error, latest_seconds)

    def _execute_plan(self, lease: Lease, job: TrainingJob | InvalidJob, plan: Plan) -> Outcome:
        outcome = self._executor.apply(job, plan, lease)
        for decision in plan.decisions:
            log.info(decision, key=lease.key, token=lease.claim.token)
        return outcome

    def _end_after_error(self, key: JobKey, error: OperatorError | SoftTimeLimitExceeded) -> ReleasedEnd:
        if not isinstance(error, OperatorError):
            error = too_long(self._settings.task_soft_time_limit_seconds)
        end = after_error(error)
        if isinstance(end, GiveUp):
            why = {"error": error.message, "status": error.status, "reason": error.reason}
            log.error("reconcile failed, not retryable", key=key, **why)
        return end


def _return_after_deaths(end: ReleasedEnd) -> ReleasedEnd:
    """The end of a pass that survived where earlier ones died. The next pass must come soon: it takes the condition
    Stalled back."""
    match end:
        case AwaitWatch() | RetryAfter() | RetryWithBackoff():
            return end
        case GiveUp():
            return replace(end, seconds=0.0)
        case _:
            return QueueAgain(end.text)
