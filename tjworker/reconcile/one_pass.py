"""Pass: the value that each step of `core.STEPS` takes and returns. Frozen. Pure.

It holds what was observed, the status as decided so far, the roles as that status shows them, and the other parts of
the plan: decisions, logs to read, when to look again, the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tjworker.api.model import TrainingJob
from tjworker.api.needs import Need
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.ownership import own_pods
from tjworker.api.status import MAX_FAILURES, Ending, EndPhase, Failure, JobStatus
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile import outcome
from tjworker.reconcile.gangs.gang import Membership
from tjworker.reconcile.nodes import NodeFindings, mark_node_troubles
from tjworker.reconcile.plan import LogTail, Plan
from tjworker.reconcile.rules import Rules, keeps_all
from tjworker.reconcile.views import Views, view_roles


@dataclass(frozen=True, slots=True)
class FinalFailure:
    """A failure that no restart follows."""

    failure: Failure
    why: str
    """Why no restart follows, for people."""
    reason: str = ""
    """Reason of the job's end, if a limit forbids the restart."""
    phase: EndPhase = "Failed"
    """Phase of the job's end."""


# A tuple, as a pass makes a dozen of them: `dataclasses.replace` takes five times as long as `_replace`.
class Pass(NamedTuple):
    job: TrainingJob
    observed: Observed
    """With `lost` and `gpu_fault` on the pods whose node has failed."""
    now: float
    """Unix seconds."""
    at: str
    """`now` as Kubernetes writes it."""
    rules: Rules
    status: JobStatus
    pods: tuple[PodRecord, ...]
    """The pods that belong to the job, sorted by name."""
    roles: Views
    shown: JobStatus
    """The status from which `roles` was made."""
    grace_seconds: float | None = None
    """Until the grace period of the next failed node is over. The job is looked at then, whatever its phase."""
    needs: tuple[Need, ...] = ()
    """Needs of the plan that come from nodes."""
    keeps_all: bool = False
    """At its end the job keeps its objects: the setting `autoclean` is off, and ReplicaSets and a batch Job keep its
    pods."""
    wake_seconds: float | None = None
    """When to look again while the job lives."""
    end: Ending | None = None
    """The end that was decided. No later step runs."""
    proposed: Ending | None = None
    """Used unless a later step finds a failed role, which is the better reason."""
    plan: Plan | None = None
    """The plan of the whole pass. No later step runs."""
    decisions: tuple[str, ...] = ()
    log_tails: tuple[LogTail, ...] = ()
    restarted: str = ""
    """Why this pass replaces pods, for people; '' if it replaces none."""
    final: FinalFailure | None = None
    """The first final failure of this pass."""
    gang: Membership | None = None
    """The gang that the pods join which this pass creates."""

    @classmethod
    def begin(cls, job: TrainingJob, observed: Observed, now: float, rules: Rules) -> Pass:
        """The pass before its first step."""
        kept = keeps_all(job, rules.autoclean)
        if kept:
            job = replace(job, clean_pod_policy="None")
        at = to_rfc3339(now)
        own = own_pods(job, observed)
        status = outcome.accept(job, now, rules, own)
        nodes = mark_node_troubles(job, status, observed, now, rules)
        if not job.status.start_time and not any(p.scheduled_at is not None or p.started_at is not None for p in own):
            # The first status was deferred until these pods are seen, and no scheduler or kubelet has reported on one
            # yet: they cannot have met a failed node.
            nodes = NodeFindings(observed, status)
        pods = own if nodes.observed is observed else own_pods(job, nodes.observed)
        roles = view_roles(job, nodes.observed, pods, nodes.status)
        return cls(
            job,
            nodes.observed,
            now,
            at,
            rules,
            nodes.status,
            pods,
            roles,
            shown=nodes.status,
            grace_seconds=nodes.next_seconds,
            needs=nodes.needs,
            keeps_all=kept,
        )

    def with_status(self, status: JobStatus) -> Pass:
        """With a status that changes no role."""
        return self if status is self.status else self._replace(status=status)

    def with_new_attempts(self, status: JobStatus) -> Pass:
        """With the status after a decision, and the roles that follow from it."""
        # Most passes decide nothing, and making the roles of ten thousand pods takes a quarter of a second.
        if (status.attempts, status.phase) == (self.shown.attempts, self.shown.phase):
            return self.with_status(status)
        roles = view_roles(self.job, self.observed, self.pods, status)
        return self._replace(status=status, shown=status, roles=roles)

    def log_decisions(self, *decisions: str) -> Pass:
        return self._replace(decisions=self.decisions + decisions) if decisions else self

    def log_restarts(self, why: Sequence[str]) -> Pass:
        """Note that pods are replaced, each for one of these reasons. The status reports the first reason of a pass."""
        of = f"{len(why)} restarts, the first: " if len(why) > 1 else ""
        return self._replace(restarted=self.restarted or f"{of}{why[0]}") if why else self

    def add_failures(self, failures: Sequence[Failure]) -> Pass:
        """Add failures of pods to the status, newest first, and request their logs."""
        if not failures:
            return self
        # Of many at once the first are kept: usually they have caused the others.
        ordered = sorted(failures, key=lambda f: (f.time, f.pod))
        newest_first = (*reversed(ordered[:MAX_FAILURES]), *self.status.failures)[:MAX_FAILURES]
        tails = tuple(LogTail(f.pod, f.container) for f in failures if f.container)
        status = self.status.model_copy(update={"failures": newest_first})
        return self._replace(status=status, log_tails=self.log_tails + tails)

    def wake_within(self, seconds: float | None) -> Pass:
        """Look again after this many seconds at the latest."""
        sooner = _sooner(self.wake_seconds, seconds)
        return self if sooner == self.wake_seconds else self._replace(wake_seconds=sooner)

    def end_with(self, phase: EndPhase, reason: str, message: str) -> Pass:
        """The job ends. No later step runs."""
        return self._replace(end=self._end(phase, reason, message))

    def end_unless_failed(self, reason: str, message: str) -> Pass:
        """The job fails with this reason, unless a later step finds a failed role, which is the better reason."""
        return self._replace(proposed=self.proposed or self._end("Failed", reason, message))

    def _end(self, phase: EndPhase, reason: str, message: str) -> Ending:
        return Ending(phase=phase, reason=reason, message=message[:1024], time=self.at)

    def to_plan(self, plan: Plan) -> Plan:
        """The plan of the whole pass: `plan`, with what the steps have added."""
        # A big job goes to the back of the queue after `writes_per_pass` writes, so that it does not starve the others.
        most = self.rules.writes_per_pass
        wait = _sooner(plan.requeue_after_seconds, self.grace_seconds)
        return replace(
            plan,
            writes=plan.writes[:most],
            log_tails=self.log_tails,
            needs=(*self.needs, *plan.needs),
            decisions=self.decisions + plan.decisions,
            requeue_after_seconds=0 if len(plan.writes) > most else wait,
        )


Step = Callable[[Pass], Pass]


def _sooner(*waits: float | None) -> float | None:
    return min((w for w in waits if w is not None), default=None)
