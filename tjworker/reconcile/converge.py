"""The last part of a pass over a job that lives: bring its objects to what its roles want, and say how it stands.

Decides nothing about ends or restarts: the steps of `core.STEPS` have. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from tjworker.api import labels
from tjworker.api.model import After
from tjworker.api.needs import EveryNode
from tjworker.api.resources import PODS
from tjworker.api.status import ALL_RUN, FAILED_CREATE, FAILED_DELETE, JobStatus, Phase, ScaleRecord
from tjworker.reconcile import outcome, phase
from tjworker.reconcile.addons import hostnetwork, tensorboard
from tjworker.reconcile.attempts import record_running
from tjworker.reconcile.children import strays
from tjworker.reconcile.conditions import clear_condition, is_true, set_condition
from tjworker.reconcile.first_status import WAIT_SECONDS, may_wait_for_pods
from tjworker.reconcile.frameworks import find_framework
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Patch, Plan, Write
from tjworker.reconcile.pod_group import GangPass, is_withheld, see_gang
from tjworker.reconcile.policies.backoff import find_resting
from tjworker.reconcile.policies.limits import seconds_to_deadline
from tjworker.reconcile.policies.stuck_deletion import StuckDeletions, find_stuck_deletions, report_deletions
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.unusable import find_kept, is_of_old_attempt
from tjworker.reconcile.workloads import WORKLOADS, jobwide
from tjworker.reconcile.workloads.owner import unjudged


def converge(p: Pass) -> Plan:
    p = hostnetwork.draw(p)
    job, at = p.job, p.at
    scales = phase.scale_changes(job, job.status, at)
    new = phase.live_phase(job.status.phase, p.roles, restarted=bool(p.restarted), scaled=bool(scales))
    resting = find_resting(p.roles, p.now)
    gang = see_gang(p)
    p = replace(p, gang=gang.membership)
    staying = resting.pods | find_kept(p)
    due = (w for w in _writes(p, gang) if not (w.resource == PODS and w.name in staying and not isinstance(w, Patch)))
    writes = list(islice(due, p.rules.writes_per_pass + 1))  # one more tells `Pass.complete` that there are more
    made = _made(writes[: p.rules.writes_per_pass])
    if not job.status.start_time:  # by a pass that left the first status to this one
        made |= {n: made.get(n, set()) | v.indices("pending") | v.indices("scheduled") for n, v in p.roles.items()}
    status = record_running(phase.with_scale_records(p.status, scales), p.roles, new, made)
    status = outcome.numbers(job, status, p.roles, live=True)
    stuck = find_stuck_deletions(p.pods, p.now)
    status, of_board = tensorboard.tell(p, _conditions(p, status, new, stuck, writes, gang))
    if new == "Running" and not status.start_running_time:
        begun = {"start_running_time": at, "suspended_seconds_before_running": status.suspended_seconds}
        status = status.model_copy(update=begun)
    plan = outcome.finish_plan(job, status, new, at, writes=writes, message=_phase_message(p, new, scales))
    # The echo of an own write queues nothing, so what only the next pass can see is asked for: pods that got their
    # ordinal in this pass are judged in the next, and so is that all run again where a controller was faster than we.
    again = any(unjudged(v) for v in p.roles.values()) or (new == "Restarting" and phase.all_run(p.roles))
    p = p.wake(0.0 if again else None).wake(resting.next_seconds).wake(stuck.next_seconds)
    p = p.wake(tensorboard.next_seconds(p))
    for view in p.roles.values():
        p = p.wake(WORKLOADS[view.role.workload].next_seconds(view, p.now))
    p = p.wake(seconds_to_deadline(job, status, p.now))
    if may_wait_for_pods(p, plan):
        plan, p = replace(plan, status=None, deferred_status=plan.status), p.wake(WAIT_SECONDS)
    gather = 0.0 if plan.writes else outcome.gather_seconds(job.status, plan.status, p.roles, p.now)
    if gather > 0:
        plan, p = replace(plan, status=None), p.wake(gather)
    scaled = tuple(f"scale {s.role} {s.from_} -> {s.to}" for s in scales)
    told = plan.events + (of_board if plan.status else ())
    return replace(
        plan,
        events=told,
        decisions=scaled + plan.decisions,
        needs=(EveryNode(),) if gang.judges_room else (),
        requeue_after_seconds=p.wake_seconds,
    )


def _writes(p: Pass, gang: GangPass) -> Iterator[Write]:
    # A restart of a whole role or job begins when the last pod of the old attempt is gone: a new trainer must not meet
    # an old parameter server.
    old_attempt_lives = any(is_of_old_attempt(r, v) for v in p.roles.values() if v.role.makes_pods for r in v.replicas)
    if not p.job.errors:
        yield from strays(p)
    yield from gang.writes
    held = _held(p, gang)
    if not old_attempt_lives and not gang.waits:
        yield from jobwide.creates(p, held)
    for name in find_framework(p.job).order(p.job):
        view = p.roles[name]
        writes = WORKLOADS[view.role.workload].shape(p, view, not old_attempt_lives and name not in held)
        yield from (w for w in writes if not (gang.waits and is_withheld(w)))
    yield from (w for w in tensorboard.shape(p) if not (gang.waits and is_withheld(w)))


def _held(p: Pass, gang: GangPass) -> dict[str, str]:
    """Roles whose pods are not made yet, as their PodGroup is not there, or as their framework starts them when others
    are ready; and what for."""
    if gang.waits:
        return dict.fromkeys(p.roles, gang.waits)
    framework, held = find_framework(p.job), {}
    for role in p.job.roles:
        if not role.makes_pods:
            held[role.name] = "is made when the spec is mended: the condition Failed says what is wrong"
            continue
        for after in (*role.after, *(After(name, "Ready") for name in framework.waits_for(p.job, role))):
            if why := _still_awaited(p.roles[after.role], after):
                held[role.name] = why
    return held


def _still_awaited(view: RoleView, after: After) -> str:
    """What `after` waits for, for people; '' when it has come about."""
    every = len(view.replicas)
    if after.status == "Complete":
        done = view.count("succeeded")
        return f"is made when the role {after.role} has succeeded: {done} of {every} have" if done < every else ""
    ready, ended = sum(map(_is_ready, view.replicas)), sum(map(_has_ended, view.replicas))
    if ready + ended >= every:
        return ""
    told = f" and {ended} ended" if ended else ""
    return f"is made when the role {after.role} is ready: {ready} of {every} are{told}"


def _is_ready(replica: Replica) -> bool:
    return replica.state == "running" and replica.pod is not None and replica.pod.ready


def _has_ended(replica: Replica) -> bool:
    """It will never be ready again, so no wait for it could end."""
    return replica.state == "succeeded" or (replica.state == "failed" and replica.final)


def _made(writes: Iterable[Write]) -> dict[str, set[int]]:
    """Of each role, the indices whose pod is made."""
    found: dict[str, set[int]] = {}
    for write in writes:
        if isinstance(write, Create) and write.resource == PODS:
            carried = write.body["metadata"]["labels"]
            if labels.TENSORBOARD_CONFIG in carried:
                continue
            found.setdefault(carried[labels.REPLICA_NAME], set()).add(int(carried[labels.REPLICA_INDEX]))
    return found


def _conditions(
    p: Pass, status: JobStatus, new: Phase, stuck: StuckDeletions, writes: Sequence[Write], gang: GangPass
) -> JobStatus:
    at, generation = p.at, p.job.generation
    status = _running_condition(p, status, new, stuck, writes, gang)
    old = status.condition("Restarting")
    if new != "Restarting":
        # Why it was restarted, and when that was over, stays to be read when the events have gone.
        was = f"over; it was: {old.message}" if old is not None else ""
        status = clear_condition(status, "Restarting", "Restarted", was, now=at, generation=generation)
    elif p.restarted or old is None or old.status != "True":
        # What it waits for stands in the condition Running.
        message = p.restarted or "pods are being replaced"
        status = set_condition(status, "Restarting", True, "PodsReplaced", message, now=at, generation=generation)
    if new != "Scaling":
        return clear_condition(status, "Scaling", "Scaled", "the pods have followed", now=at, generation=generation)
    counts = ", ".join(
        f"{n} to {v.role.replicas}" for n, v in p.roles.items() if v.role.name == p.job.scale_role or v.surplus
    )
    return set_condition(status, "Scaling", True, "ReplicasChanged", f"scaling {counts}", now=at, generation=generation)


def _running_condition(
    p: Pass, status: JobStatus, new: Phase, stuck: StuckDeletions, writes: Sequence[Write], gang: GangPass
) -> JobStatus:
    """Of a job that runs before every replica does (`Runs`) it is True, and says beside that what the others wait
    for."""
    told = _tell_running(p, status, new, stuck, writes, gang)
    why = told.condition("Running")
    if new == "Running" or why is None or not phase.runs(p.job, p.roles, new, ran=is_true(status, "Running")):
        return told
    return set_condition(status, "Running", True, why.reason, why.message, now=p.at, generation=p.job.generation)


def _tell_running(
    p: Pass, status: JobStatus, new: Phase, stuck: StuckDeletions, writes: Sequence[Write], gang: GangPass
) -> JobStatus:
    generation, old = p.job.generation, status.condition("Running")
    if new == "Running":
        reason, message = ALL_RUN, phase.tell_all_run(p.roles)
        missing = any(
            isinstance(w, Create) and not w.optional for w in writes
        )  # such as the service of a pod that runs
        if missing and old is not None and old.reason == FAILED_CREATE:
            reason, message = old.reason, old.message
        return set_condition(status, "Running", True, reason, message, now=p.at, generation=generation)
    if old is not None and old.reason == FAILED_CREATE and any(v.count("missing") for v in p.roles.values()):
        # What the API server said about a refused child stays until the child is there.
        return set_condition(status, "Running", False, old.reason, old.message, now=p.at, generation=generation)
    waiting = phase.waiting_for(p.roles, _held(p, gang), gang.told, gang.too_large)
    if old is not None and (old.reason, waiting.reason) == ("ErrImagePull", "ImagePullBackOff"):
        # The kubelet alternates between the two; the first says why.
        return set_condition(status, "Running", False, old.reason, old.message, now=p.at, generation=generation)
    reason = waiting.reason or new
    held = StuckDeletions() if waiting.reason else stuck  # what keeps a pod from starting says more
    told = report_deletions(p.job, status, held, writes, reason, waiting.message, p.at)
    if held.message or (old is not None and old.reason == FAILED_DELETE):
        return told
    return set_condition(status, "Running", False, reason, waiting.message, now=p.at, generation=generation)


def _phase_message(p: Pass, new: Phase, scales: tuple[ScaleRecord, ...]) -> str:
    counts = ", ".join(f"{n} {v.count('running', 'succeeded')}/{v.role.replicas}" for n, v in p.roles.items())
    if new == "Running":
        return f"{phase.tell_all_run(p.roles)} ({counts})"
    if new == "Restarting":
        return p.restarted or f"pods are being replaced ({counts})"
    if new == "Scaling":
        return "; ".join(f"{s.role} from {s.from_} to {s.to}" for s in scales) or counts
    return counts
