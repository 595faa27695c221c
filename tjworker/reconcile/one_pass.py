"""Pass: the one value that the steps of `core.STEPS` hand on. Frozen: a step returns the next one.

It holds what was observed, the status as decided so far, the roles as that status shows them, and what the plan will
say beside the status: decisions, logs to read, when to look again, the end. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

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
    """Why not, for people."""
    reason: str = ""
    """Of the end that it brings, where a limit forbids the restart."""
    phase: EndPhase = "Failed"
    """Of the end that it brings."""


@dataclass(frozen=True, slots=True)
class Pass:
    job: TrainingJob
    observed: Observed
    """With `lost` and `gpu_fault` on the pods whose node has failed."""
    now: float
    at: str
    """`now`, as Kubernetes writes it."""
    rules: Rules
    status: JobStatus
    pods: tuple[PodRecord, ...]
    """The job's own, by name."""
    roles: Views
    shown: JobStatus
    """The status that `roles` shows."""
    grace_seconds: float | None = None
    """Until the next failed node's grace is over: looked at then in every phase."""
    needs: tuple[Need, ...] = ()
    """Of the Plan."""
    keeps_all: bool = False
    """Without autoclean, nothing of a job that ReplicaSets and a batch Job keep is taken away at its end, whichever."""
    wake_seconds: float | None = None
    """When to look again while the job lives."""
    end: Ending | None = None
    """Decided: no further step is asked."""
    proposed: Ending | None = None
    """An end that comes unless a role has failed: that says more."""
    plan: Plan | None = None
    """The pass is over with this plan: no further step is asked."""
    decisions: tuple[str, ...] = ()
    log_tails: tuple[LogTail, ...] = ()
    restarted: str = ""
    """Why this pass replaces pods, for people; '' when it replaces none."""
    final: FinalFailure | None = None
    """The first of this pass."""
    gang: Membership | None = None
    """Of the pods that this pass makes."""

    @classmethod
    def begin(cls, job: TrainingJob, observed: Observed, now: float, rules: Rules) -> Pass:
        kept = keeps_all(job, rules.autoclean)
        if kept:
            job = replace(job, clean_pod_policy="None")
        at = to_rfc3339(now)
        own = own_pods(job, observed)
        status = outcome.accept(job, at, rules, own)
        nodes = mark_node_troubles(job, status, observed, now, rules)
        if not job.status.start_time and not any(p.scheduled_at or p.started_at for p in own):
            # The first status waited for these pods, and no scheduler or kubelet has told of one yet: as if it had been
            # told before.
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

    def note(self, status: JobStatus) -> Pass:
        """Write down what the roles already show: they stay as they are."""
        return self if status is self.status else replace(self, status=status)

    def follow(self, status: JobStatus) -> Pass:
        """The status after a decision. Roles are viewed again only where attempts or phase have changed: most passes
        decide nothing, and one look at ten thousand pods takes a quarter of a second."""
        if (status.attempts, status.phase) == (self.shown.attempts, self.shown.phase):
            return self.note(status)
        roles = view_roles(self.job, self.observed, self.pods, status)
        return replace(self, status=status, shown=status, roles=roles)

    def decide(self, *decisions: str) -> Pass:
        return replace(self, decisions=self.decisions + decisions) if decisions else self

    def restart(self, why: Sequence[str]) -> Pass:
        """Pods are replaced, each for one of these reasons. The first reason of a pass is told to the user."""
        of = f"{len(why)} restarts, the first: " if len(why) > 1 else ""
        return replace(self, restarted=self.restarted or f"{of}{why[0]}") if why else self

    def met(self, failures: Sequence[Failure]) -> Pass:
        """Pods failed: into the status, newest first, and their logs are asked for. Of many at once the first are kept:
        the others mostly follow from them."""
        if not failures:
            return self
        ordered = sorted(failures, key=lambda f: (f.time, f.pod))
        told = (*reversed(ordered[:MAX_FAILURES]), *self.status.failures)[:MAX_FAILURES]
        tails = tuple(LogTail(f.pod, f.container) for f in failures if f.container)
        status = self.status.model_copy(update={"failures": told})
        return replace(self, status=status, log_tails=self.log_tails + tails)

    def wake(self, seconds: float | None) -> Pass:
        """Look again after so many seconds at the latest."""
        sooner = _sooner(self.wake_seconds, seconds)
        return self if sooner == self.wake_seconds else replace(self, wake_seconds=sooner)

    def ending(self, phase: EndPhase, reason: str, message: str) -> Pass:
        return replace(self, end=self._end(phase, reason, message))

    def propose(self, phase: EndPhase, reason: str, message: str) -> Pass:
        return replace(self, proposed=self.proposed or self._end(phase, reason, message))

    def _end(self, phase: EndPhase, reason: str, message: str) -> Ending:
        return Ending(phase=phase, reason=reason, message=message[:1024], time=self.at)

    def complete(self, plan: Plan) -> Plan:
        """The plan of the whole pass. A big job goes to the back of the queue after `writes_per_pass` writes: it must
        not starve the others."""
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
