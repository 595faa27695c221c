"""reconcile(job, observed, now) -> Plan: the one function that decides. Pure: no I/O, no clock, the same input gives the
same Plan.

Level-triggered: it looks at what is, never at what happened, so a missed, doubled or merged event changes nothing. The
order below is the order of precedence: an end that has been decided, annotations, completion, failures and restarts,
limits of time, suspension, and only then what the pods should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tjworker.api import labels
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.ownership import own_pods, own_services
from tjworker.api.status import FAILED_CREATE, Ending, JobStatus, Phase, ScaleRecord
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile import ending, outcome, phase
from tjworker.reconcile.attempts import record_running, record_succeeded
from tjworker.reconcile.conditions import clear_condition, get_condition, set_condition
from tjworker.reconcile.failures import describe
from tjworker.reconcile.plan import Delete, Plan, Write
from tjworker.reconcile.policies.annotations import decide_annotations
from tjworker.reconcile.policies.backoff import find_resting
from tjworker.reconcile.policies.creating import decide_creating
from tjworker.reconcile.policies.ends import job_verdict
from tjworker.reconcile.policies.held import Held, find_held, tell_held
from tjworker.reconcile.policies.kept import decide_kept
from tjworker.reconcile.policies.limits import decide_limits
from tjworker.reconcile.policies.nodes import find_node_troubles
from tjworker.reconcile.policies.restart import Restarts, decide_restarts, join, one_of
from tjworker.reconcile.policies.unseen import LOOK_SECONDS, count_unseen, pods_are_late
from tjworker.reconcile.refusals import INVALID_SPEC, refuse_spec
from tjworker.reconcile.replicas import RoleView, pod_attempt
from tjworker.reconcile.suspend import suspend
from tjworker.reconcile.views import look_again, view_roles
from tjworker.reconcile.workloads import WORKLOADS
from tjworker.reconcile.workloads.owner import delete_owners, unjudged
from tjworker.reconcile.workloads.pod import delete_pod, to_delete
from tjworker.settings import Settings


def reconcile(job: TrainingJob | InvalidJob, observed: Observed, now: float, settings: Settings) -> Plan:
    """What to do about this job now. `now` is in Unix seconds. A job that is being deleted or has ended wants nothing:
    its objects go with it through their owner references."""
    if job.deleted_at:
        return Plan()
    if isinstance(job, InvalidJob):
        return refuse_spec(job, to_rfc3339(now))
    if job.status.ended:
        return ending.after_the_end(job, now)
    job = ending.with_autoclean(job, autoclean=settings.autoclean)
    status = outcome.accept(job, to_rfc3339(now))
    nodes = find_node_troubles(job, status, observed, now, settings)
    plan = _decide(job, nodes.status, nodes.observed, now, settings)
    return _cap(_sooner(plan, nodes.next_seconds), settings.writes_per_pass)


def _decide(job: TrainingJob, status: JobStatus, observed: Observed, now: float, settings: Settings) -> Plan:
    at = to_rfc3339(now)
    views, seen = view_roles(job, observed, status), status
    if status.ending is not None:
        return ending.carry_out(job, status, status.ending, views, observed, now)

    status = record_succeeded(status, views)
    end = decide_annotations(job.annotations, at)
    if end is None:
        verdict = job_verdict(job, views)
        if verdict.verdict == "complete":
            if pods_are_late(job, views, observed, now):
                return Plan(requeue_after_seconds=LOOK_SECONDS)
            end = Ending(phase="Succeed", reason=verdict.reason, message=verdict.message, time=at)
    if end is not None:
        unseen = count_unseen(status, views, at)
        plan = ending.carry_out(job, unseen.status, end, views, observed, now)
        return replace(plan, log_tails=unseen.log_tails, decisions=(*unseen.decisions, *plan.decisions))

    if job.suspend or status.suspend_time:
        status, views, still = suspend(job, status, views, observed, now)
        if still is not None:
            return still

    restarts = decide_restarts(job, status, views, at)
    views, seen = look_again(job, observed, restarts.status, views, seen), restarts.status
    kept, kept_end = decide_kept(job, restarts.status, views, at, settings.restart_limit)
    restarts = join(restarts, kept)
    views, seen = look_again(job, observed, restarts.status, views, seen), restarts.status
    creating = decide_creating(restarts.status, views, now, settings)
    restarts = replace(
        restarts,
        decisions=restarts.decisions + creating.decisions,
        restarted=restarts.restarted or bool(creating.decisions),
        why=restarts.why or one_of(creating.decisions),
    )
    status = creating.status
    views = look_again(job, observed, status, views, seen)
    end = _failure_end(job, restarts, views, at) or kept_end or creating.end or decide_limits(job, status, now)[0]
    if end is not None:
        plan = ending.carry_out(job, status, end, views, observed, now)
        return replace(plan, log_tails=restarts.log_tails, decisions=(*restarts.decisions, *plan.decisions))
    return _sooner(_live(job, status, views, observed, restarts, now), creating.next_seconds)


def _sooner(plan: Plan, seconds: float | None) -> Plan:
    """The plan, looked at again after so many seconds at the latest."""
    waits = [w for w in (plan.requeue_after_seconds, seconds) if w is not None]
    return replace(plan, requeue_after_seconds=min(waits, default=None))


def _failure_end(job: TrainingJob, restarts: Restarts, views: Mapping[str, RoleView], at: str) -> Ending | None:
    verdict = job_verdict(job, views)
    if verdict.verdict != "failed":
        return None
    reason, message = verdict.reason, verdict.message
    if restarts.final is not None:
        reason = restarts.final_reason or reason
        message = f"{describe(restarts.final)}; {restarts.why_final}"
    elif job.status.failures:
        message = describe(job.status.failures[0])
    return Ending(phase="Failed", reason=reason, message=message[:1024], time=at)


def _live(
    job: TrainingJob,
    status: JobStatus,
    views: Mapping[str, RoleView],
    observed: Observed,
    restarts: Restarts,
    now: float,
) -> Plan:
    at = to_rfc3339(now)
    scales = phase.scale_changes(job, job.status, at)
    new = phase.live_phase(job.status.phase, views, restarted=restarts.restarted, scaled=bool(scales))
    status = record_running(phase.with_scale_records(status, scales), views, new)
    status = outcome.numbers(job, status, views, live=True)
    own = own_pods(job, observed)
    held = find_held(own, now)
    status = _live_conditions(job, status, views, new, restarts, at, held)
    if new == "Running" and not status.start_running_time:
        status = status.model_copy(update={"start_running_time": at})

    # A restart of a whole role or job begins when the last pod of the old attempt is gone: a new trainer must not meet an
    # old parameter server.
    old_attempt_lives = any(
        r.state == "outdated" and r.pod is not None and pod_attempt(r.pod) < v.attempts.all
        for v in views.values()
        for r in v.replicas
    )
    writes: list[Write] = [*_strays(job, views, own, observed)]
    for view in views.values():
        writes += WORKLOADS[view.role.workload].shape(job, view, observed, not old_attempt_lives)
    resting = find_resting(views, now)
    writes = [w for w in writes if not (isinstance(w, Delete) and w.resource == "pods" and w.name in resting.pods)]
    decisions = restarts.decisions + tuple(f"scale {s.role} {s.from_} -> {s.to}" for s in scales)
    message = _phase_message(new, views, restarts, scales)
    plan = outcome.finish_plan(job, status, new, at, writes=writes, message=message)
    plan = replace(
        plan,
        log_tails=restarts.log_tails,
        decisions=decisions + plan.decisions,
        requeue_after_seconds=decide_limits(job, status, now)[1],
    )
    # The echo of an own write queues nothing, so what only the next pass can see is asked for: pods that this one has numbered
    # to be judged, and that all run again where a controller was faster than our look.
    judge = 0.0 if any(unjudged(v) for v in views.values()) or (new == "Restarting" and phase.all_run(views)) else None
    return _sooner(_sooner(_sooner(plan, judge), resting.next_seconds), held.next_seconds)


def _strays(
    job: TrainingJob, views: Mapping[str, RoleView], own: Iterable[PodRecord], observed: Observed
) -> list[Write]:
    """Own pods and services of a role that the spec no longer has."""
    known = {r.name for v in views.values() for r in v.replicas}
    known |= {p.name for v in views.values() for p in (*v.surplus, *v.others)}
    pods: list[Write] = [
        delete_pod(p, "its role is not in the spec")
        for p in own
        if p.name not in known and p.owner_uid == job.uid and to_delete(p)
    ]
    roles = set(views)
    services: list[Write] = [
        Delete("services", s.name, s.uid, why="its role is not in the spec")
        for s in own_services(job, observed)
        if s.labels.get(labels.REPLICA_NAME) not in roles
    ]
    return [*delete_owners(job, observed, roles), *pods, *services]


def _live_conditions(
    job: TrainingJob,
    status: JobStatus,
    views: Mapping[str, RoleView],
    new: Phase,
    restarts: Restarts,
    at: str,
    held: Held,
) -> JobStatus:
    status = _running_condition(job, status, views, new, at, held)
    generation = job.generation
    refused = get_condition(status, "Failed")
    if refused is not None and refused.reason == INVALID_SPEC:
        mended = "the spec can be used again"
        status = set_condition(status, "Failed", False, "SpecMended", mended, now=at, generation=generation)
    old = get_condition(status, "Restarting")
    if new != "Restarting":
        # Why it was restarted, and when that was over, stays to be read when the events have gone.
        was = f"over; it was: {old.message}" if old is not None else ""
        status = clear_condition(status, "Restarting", "Restarted", was, now=at, generation=generation)
    elif restarts.why or old is None or old.status != "True":
        # What it waits for stands in the condition Running.
        message = restarts.why or "pods are being replaced"
        status = set_condition(status, "Restarting", True, "PodsReplaced", message, now=at, generation=generation)
    if new == "Scaling":
        counts = ", ".join(
            f"{n} to {v.role.replicas}" for n, v in views.items() if v.role.name == job.scale_role or v.surplus
        )
        return set_condition(
            status, "Scaling", True, "ReplicasChanged", f"scaling {counts}", now=at, generation=generation
        )
    return clear_condition(status, "Scaling", "Scaled", "the pods have followed", now=at, generation=generation)


def _running_condition(
    job: TrainingJob, status: JobStatus, views: Mapping[str, RoleView], new: Phase, at: str, held: Held
) -> JobStatus:
    if new == "Running":
        message = "every desired replica runs"
        return set_condition(status, "Running", True, "AllReplicasRunning", message, now=at, generation=job.generation)
    old = get_condition(status, "Running")
    if old is not None and old.reason == FAILED_CREATE and any(v.count("missing") for v in views.values()):
        return status  # what the API server said about a refused child stays until the child is there
    waiting = phase.waiting_for(views)
    if old is not None and (old.reason, waiting.reason) == ("ErrImagePull", "ImagePullBackOff"):
        return status  # the kubelet goes to and fro between the two; the first says why
    if held.message and not waiting.reason:
        return tell_held(job, status, held, new, waiting.message, at)
    reason = waiting.reason or new
    return set_condition(status, "Running", False, reason, waiting.message, now=at, generation=job.generation)


def _phase_message(
    new: Phase, views: Mapping[str, RoleView], restarts: Restarts, scales: tuple[ScaleRecord, ...]
) -> str:
    counts = ", ".join(f"{n} {v.count('running', 'succeeded')}/{v.role.replicas}" for n, v in views.items())
    if new == "Running":
        return f"every desired replica runs ({counts})"
    if new == "Restarting":
        return restarts.why or f"pods are being replaced ({counts})"
    if new == "Scaling":
        return "; ".join(f"{s.role} from {s.from_} to {s.to}" for s in scales) or counts
    return counts


def _cap(plan: Plan, most: int) -> Plan:
    """A big job goes to the back of the queue after so many writes, so that no job starves the others."""
    if len(plan.writes) <= most:
        return plan
    return replace(plan, writes=plan.writes[:most], requeue_after_seconds=0)
