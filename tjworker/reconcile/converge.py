"""The last part of a pass over a job that lives: create and delete what its roles need, and report its state.

`STEPS` run in order. Decides nothing about ends or restarts: the steps of `core.STEPS` have. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from tjworker.api import labels
from tjworker.api.model import After
from tjworker.api.needs import EveryNode
from tjworker.api.resources import PODS
from tjworker.api.status import ALL_RUN, FAILED_CREATE, FAILED_DELETE, FULL_SIZE, JobStatus, Phase, ScaleRecord
from tjworker.reconcile import outcome, phase
from tjworker.reconcile.addons import ADDONS
from tjworker.reconcile.attempts import record_running
from tjworker.reconcile.children import strays
from tjworker.reconcile.conditions import clear_condition, drop_condition, is_true, set_condition
from tjworker.reconcile.first_status import WAIT_SECONDS, may_wait_for_pods
from tjworker.reconcile.frameworks import find_framework
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Event, Patch, Plan, Write
from tjworker.reconcile.pod_group import GangPass, is_withheld, see_gang
from tjworker.reconcile.policies.backoff import Resting, find_resting
from tjworker.reconcile.policies.limits import seconds_to_deadline
from tjworker.reconcile.policies.stuck_deletion import StuckDeletions, find_stuck_deletions, report_deletions
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.unusable import find_kept, is_of_old_attempt
from tjworker.reconcile.workloads import WORKLOADS, jobwide
from tjworker.reconcile.workloads.owner import unjudged


class Convergence(NamedTuple):
    """The value that each step takes and returns."""

    p: Pass
    """With `status` as the steps have set it so far."""
    scales: tuple[ScaleRecord, ...]
    phase: Phase
    """The job's new phase."""
    resting: Resting
    gang: GangPass
    stuck: StuckDeletions
    writes: tuple[Write, ...] = ()
    """Writes of the pass, and one more if there are more than `writes_per_pass`."""
    addon_events: tuple[Event, ...] = ()
    plan: Plan = Plan()

    @classmethod
    def begin(cls, p: Pass) -> Convergence:
        for addon in ADDONS:
            p = addon.prepare(p)
        scales = phase.scale_changes(p.job, p.job.status, p.at)
        new = phase.live_phase(p.job.status.phase, p.roles, restarted=bool(p.restarted), scaled=bool(scales))
        gang = see_gang(p)
        resting, stuck = find_resting(p.roles, p.now), find_stuck_deletions(p.pods, p.now)
        return cls(p._replace(gang=gang.membership), scales, new, resting, gang, stuck)

    def with_status(self, status: JobStatus) -> Convergence:
        return self._replace(p=self.p.with_status(status))

    def wake_within(self, seconds: float | None) -> Convergence:
        p = self.p.wake_within(seconds)
        # Most timers do not come first.
        return self if p is self.p else self._replace(p=p)


def converge(p: Pass) -> Plan:
    """The plan that brings the job's objects to what its roles want."""
    c = Convergence.begin(p)
    for step in STEPS:
        c = step(c)
    return replace(c.plan, requeue_after_seconds=c.p.wake_seconds)


def shape_workloads(c: Convergence) -> Convergence:
    """Find the writes that each role, addon and gang needs."""
    p = c.p
    # Some pods stay for now: those that rest, as a crashing program must not restart in a busy loop, and those whose
    # role cannot create pods until its spec is corrected.
    staying = c.resting.pods | find_kept(p)
    due = (
        w
        for w in _list_writes(p, c.gang)
        if not (w.resource == PODS and w.name in staying and not isinstance(w, Patch))
    )
    # One more than the pass makes: so `Pass.to_plan` sees that there are more.
    return c._replace(writes=tuple(islice(due, p.rules.writes_per_pass + 1)))


def count_running(c: Convergence) -> Convergence:
    """Record which pods are made and run, and the numbers of each role."""
    p = c.p
    made = _created_indices(c.writes[: p.rules.writes_per_pass])
    if not p.job.status.start_time:
        # An earlier pass has made pods and deferred the first status to this one.
        made |= {n: made.get(n, set()) | v.indices("pending") | v.indices("scheduled") for n, v in p.roles.items()}
    status = record_running(phase.with_scale_records(p.status, c.scales), p.roles, c.phase, made)
    return c.with_status(outcome.numbers(p.job, status, p.roles, live=True))


def set_conditions(c: Convergence) -> Convergence:
    status = _with_conditions(c)
    events: tuple[Event, ...] = ()
    for addon in ADDONS:
        status, reported = addon.report(c.p, status)
        events += reported
    if not c.p.job.autoscaled and not c.p.job.errors:
        # The autoscaler wrote it before edlPolicy was edited, and does not read the job any more. It still reads a job
        # that goes on with its last numbers because of an error in its spec, and would write the condition again.
        status = drop_condition(status, FULL_SIZE)
    if c.phase == "Running" and not status.start_running_time:
        begun = {"start_running_time": c.p.at, "suspended_seconds_before_running": status.suspended_seconds}
        status = status.model_copy(update=begun)
    return c.with_status(status)._replace(addon_events=events)


def write_plan(c: Convergence) -> Convergence:
    """Make the plan of the writes and the status."""
    p = c.p
    message = _phase_message(p, c.phase, c.scales)
    plan = outcome.finish_plan(
        p.job, p.status, c.phase, p.at, writes=c.writes, message=message, too_large=c.gang.too_large
    )
    scaled = tuple(f"scale {s.role} {s.from_} -> {s.to}" for s in c.scales)
    needs = (EveryNode(),) if c.gang.judges_room else ()
    return c._replace(plan=replace(plan, decisions=scaled + plan.decisions, needs=needs))


def set_timers(c: Convergence) -> Convergence:
    """Ask for the next pass when the first timer of the job is due."""
    p = c.p
    # The echo of an own write begins no pass, so the next pass must be asked for if only it can decide: about pods that
    # got their ordinal in this pass, or whether all pods run again because a controller already replaced them.
    again = any(unjudged(v) for v in p.roles.values()) or (c.phase == "Restarting" and phase.all_run(p.roles))
    waits = [0.0 if again else None, c.resting.next_seconds, c.stuck.next_seconds]
    waits += [addon.next_seconds(p) for addon in ADDONS]
    waits += [WORKLOADS[view.role.workload].next_seconds(view, p.now) for view in p.roles.values()]
    waits.append(seconds_to_deadline(p.job, p.status, p.now))
    for seconds in waits:
        c = c.wake_within(seconds)
    return c


def defer_first_status(c: Convergence) -> Convergence:
    """Leave the first status of a new job to the pass that sees its pods. That saves one write per job (ADR 30)."""
    if not may_wait_for_pods(c.p, c.plan):
        return c
    plan = replace(c.plan, status=None, deferred_status=c.plan.status)
    return c._replace(plan=plan).wake_within(WAIT_SECONDS)


def gather_numbers(c: Convergence) -> Convergence:
    """Leave a status that differs in numbers only to a later pass, which then writes several changes at once."""
    # Writes need the proof of a recent view, which the status write gives at no further cost.
    if c.plan.writes:
        return c
    seconds = outcome.gather_seconds(c.p.job.status, c.plan.status, c.p.roles, c.p.now)
    return c._replace(plan=replace(c.plan, status=None)).wake_within(seconds) if seconds > 0 else c


def add_addon_events(c: Convergence) -> Convergence:
    # Only with a status write: without one, the next pass would send the same events again.
    if c.plan.status is None:
        return c
    return c._replace(plan=replace(c.plan, events=c.plan.events + c.addon_events))


STEPS: tuple[Callable[[Convergence], Convergence], ...] = (
    shape_workloads,
    count_running,
    set_conditions,
    write_plan,
    set_timers,
    defer_first_status,
    gather_numbers,
    add_addon_events,
)


def _list_writes(p: Pass, gang: GangPass) -> Iterator[Write]:
    # A restart of a whole role or job begins when the last pod of the old attempt is gone: a new trainer must not
    # connect to an old parameter server.
    old_attempt_lives = any(is_of_old_attempt(r, v) for v in p.roles.values() if v.role.makes_pods for r in v.replicas)
    # A spec with errors may lack a role by mistake. Its pods stay until the user corrects it.
    if not p.job.errors:
        yield from strays(p)
    yield from gang.writes
    held = _find_held(p, gang)
    if not old_attempt_lives and not gang.waits:
        yield from jobwide.creates(p, held)
    for name in find_framework(p.job).order(p.job):
        view = p.roles[name]
        writes = WORKLOADS[view.role.workload].shape(p, view, not old_attempt_lives and name not in held)
        yield from (w for w in writes if not (gang.waits and is_withheld(w)))
    for addon in ADDONS:
        yield from (w for w in addon.shape(p) if not (gang.waits and is_withheld(w)))


def _find_held(p: Pass, gang: GangPass) -> dict[str, str]:
    """Role -> what it waits for: roles whose pods are not created yet, because their PodGroup does not exist or their
    framework starts them after others."""
    # Some gang schedulers place a pod alone if it exists before its group.
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
    """What `after` waits for, for people; '' if it waits no longer."""
    every = len(view.replicas)
    if after.status == "Complete":
        done = view.count("succeeded")
        return f"is made when the role {after.role} has succeeded: {done} of {every} have" if done < every else ""
    ready, ended = sum(map(_is_ready, view.replicas)), sum(map(_has_ended, view.replicas))
    if ready + ended >= every:
        return ""
    and_ended = f" and {ended} ended" if ended else ""
    return f"is made when the role {after.role} is ready: {ready} of {every} are{and_ended}"


def _is_ready(replica: Replica) -> bool:
    return replica.state == "running" and replica.pod is not None and replica.pod.ready


def _has_ended(replica: Replica) -> bool:
    """True if the replica will never be ready again: no wait for it could end."""
    return replica.state == "succeeded" or (replica.state == "failed" and replica.final)


def _created_indices(writes: Iterable[Write]) -> dict[str, set[int]]:
    """Role -> indices whose pod these writes create."""
    found: dict[str, set[int]] = {}
    for write in writes:
        # An addon's pod is no replica.
        if isinstance(write, Create) and write.resource == PODS and not write.optional:
            carried = write.body["metadata"]["labels"]
            found.setdefault(carried[labels.REPLICA_NAME], set()).add(int(carried[labels.REPLICA_INDEX]))
    return found


def _with_conditions(c: Convergence) -> JobStatus:
    p, new, at, generation = c.p, c.phase, c.p.at, c.p.job.generation
    status = _with_running_condition(c)
    old = status.condition("Restarting")
    if new != "Restarting":
        # The condition keeps the reason of the last restart: the events about it expire.
        was = f"over; it was: {old.message}" if old is not None else ""
        status = clear_condition(status, "Restarting", "Restarted", was, now=at, generation=generation)
    elif p.restarted or old is None or old.status != "True":
        # The condition Running says what the job waits for.
        message = p.restarted or "pods are being replaced"
        status = set_condition(status, "Restarting", True, "PodsReplaced", message, now=at, generation=generation)
    if new != "Scaling":
        return clear_condition(status, "Scaling", "Scaled", "the pods have followed", now=at, generation=generation)
    counts = ", ".join(
        f"{n} to {v.role.replicas}" for n, v in p.roles.items() if v.role.name == p.job.scale_role or v.surplus
    )
    return set_condition(status, "Scaling", True, "ReplicasChanged", f"scaling {counts}", now=at, generation=generation)


def _with_running_condition(c: Convergence) -> JobStatus:
    """The condition Running. For a job that runs before every replica does (`Runs`) it is True, and its message says
    what the others wait for."""
    p = c.p
    status = _with_condition_of_all(c)
    why = status.condition("Running")
    runs = phase.runs(p.job, p.roles, c.phase, ran=is_true(p.status, "Running"))
    if c.phase == "Running" or why is None or not runs:
        return status
    return set_condition(p.status, "Running", True, why.reason, why.message, now=p.at, generation=p.job.generation)


def _with_condition_of_all(c: Convergence) -> JobStatus:
    """The condition Running, True if every replica runs."""
    p, status, new = c.p, c.p.status, c.phase
    generation, old = p.job.generation, status.condition("Running")
    if new == "Running":
        reason, message = ALL_RUN, phase.describe_all_run(p.roles)
        # A running job may still lack an object, such as the service of a pod.
        missing = any(isinstance(w, Create) and not w.optional for w in c.writes)
        if missing and old is not None and old.reason == FAILED_CREATE:
            reason, message = old.reason, old.message
        return set_condition(status, "Running", True, reason, message, now=p.at, generation=generation)
    if old is not None and old.reason == FAILED_CREATE and any(v.count("missing") for v in p.roles.values()):
        # The API server's refusal of a child stays in the condition until the child exists.
        return set_condition(status, "Running", False, old.reason, old.message, now=p.at, generation=generation)
    waiting = phase.waiting_for(p.roles, _find_held(p, c.gang), c.gang.message, c.gang.too_large)
    if old is not None and (old.reason, waiting.reason) == ("ErrImagePull", "ImagePullBackOff"):
        # The kubelet alternates between the two reasons. The first one says why.
        return set_condition(status, "Running", False, old.reason, old.message, now=p.at, generation=generation)
    reason = waiting.reason or new
    # The reason why a pod does not start says more than a deletion that is stuck.
    stuck = StuckDeletions() if waiting.reason else c.stuck
    if stuck.message or (old is not None and old.reason == FAILED_DELETE):
        return report_deletions(p.job, status, stuck, c.writes, reason, waiting.message, p.at)
    return set_condition(status, "Running", False, reason, waiting.message, now=p.at, generation=generation)


def _phase_message(p: Pass, new: Phase, scales: tuple[ScaleRecord, ...]) -> str:
    counts = ", ".join(f"{n} {v.count('running', 'succeeded')}/{v.role.replicas}" for n, v in p.roles.items())
    if new == "Running":
        return f"{phase.describe_all_run(p.roles)} ({counts})"
    if new == "Restarting":
        return p.restarted or f"pods are being replaced ({counts})"
    if new == "Scaling":
        return "; ".join(f"{s.role} from {s.from_} to {s.to}" for s in scales) or counts
    return counts
