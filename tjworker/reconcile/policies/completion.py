"""When a role is done, and when the job is: completePolicy and failPolicy of both. Complete goes before fail. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tjworker.api.model import EndPolicy, JobEndPolicy, TrainingJob
from tjworker.api.observed import EVICTED
from tjworker.reconcile.failures import describe
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Plan
from tjworker.reconcile.policies.late_failures import LOOK_SECONDS, count_late_failures, pods_are_late
from tjworker.reconcile.replicas import RoleView

Verdict = Literal["", "complete", "failed"]


@dataclass(frozen=True, slots=True)
class JobVerdict:
    verdict: Verdict
    reason: str = ""
    message: str = ""


def end_by_completion(p: Pass) -> Pass:
    verdict = job_verdict(p.job, p.roles)
    if verdict.verdict != "complete":
        return p
    if pods_are_late(p):
        return replace(p, plan=Plan(requeue_after_seconds=LOOK_SECONDS))
    return count_late_failures(p).end_with("Succeed", verdict.reason, verdict.message)


def end_by_failure(p: Pass) -> Pass:
    """By replicas that have failed for good, else as a step before has proposed. The message is of the failure that no
    restart follows, else of the last one before this pass."""
    verdict = job_verdict(p.job, p.roles)
    if verdict.verdict != "failed":
        return p if p.proposed is None else replace(p, end=p.proposed)
    if p.final is not None:
        reason = p.final.reason or verdict.reason
        return p.end_with(p.final.phase, reason, f"{describe(p.final.failure)}; {p.final.why}")
    before = p.job.status.failures
    return p.end_with("Failed", verdict.reason, describe(before[0]) if before else verdict.message)


def _met(policy: EndPolicy, indices: frozenset[int], all_met: bool) -> bool:
    if policy == "Any":
        return bool(indices)
    if policy == "Rank0":
        return 0 in indices
    return policy == "All" and all_met


def role_verdict(view: RoleView) -> Verdict:
    """'failed' looks only at replicas that have failed for good; one that is to be restarted is not failed."""
    role = view.role
    if not role.replicas:
        return ""  # scaled to none: no replica has succeeded or failed
    if _met(role.complete_policy, view.indices("succeeded"), view.complete):
        return "complete"
    final = [r for r in view.replicas if r.state == "failed" and r.final]
    failed = frozenset(r.index for r in final)
    if failed and _met(role.fail_policy, failed, len(failed) == role.replicas):
        return "failed"
    if role.fails_when_evicted and any(r.pod is not None and r.pod.reason == EVICTED for r in final):
        return "failed"
    # Every pod has ended and neither policy is met, for example two of three succeeded with failPolicy All: nothing
    # will ever change that, and waiting would hang the job. With None the user has said "never by itself".
    if failed and view.settled and "None" not in (role.fail_policy, role.complete_policy):
        return "failed"
    return ""


def _job_met(policy: JobEndPolicy, hit: list[str], relevant: list[str]) -> bool:
    if policy == "Any":
        return bool(hit)
    if policy == "All":
        return bool(relevant) and set(hit) >= set(relevant)
    return False


def job_verdict(job: TrainingJob, views: Mapping[str, RoleView]) -> JobVerdict:
    """A role whose own policy is None never ends by itself, so a job policy All does not wait for it: parameter servers
    serve until the others are done. Nor for a role of no replicas; and a job that has only such roles just waits."""
    if enough := _enough(job, views):
        return JobVerdict("complete", "Completed", enough)
    verdicts = {name: role_verdict(view) for name, view in views.items()}
    complete = [n for n, v in verdicts.items() if v == "complete"]
    can_complete = [n for n, v in views.items() if v.role.complete_policy != "None" and v.role.replicas]
    if _job_met(job.complete_policy, complete, can_complete):
        return JobVerdict("complete", "Completed", f"{_what_decided(job, views, complete)} ({_progress(views)})")
    failed = [n for n, v in verdicts.items() if v == "failed"]
    can_fail = [n for n, v in views.items() if v.role.fail_policy != "None" and v.role.replicas]
    if _job_met(job.fail_policy, failed, can_fail):
        return JobVerdict("failed", "ReplicaFailed", f"role {', '.join(failed)} has failed")
    return JobVerdict("")


def _what_decided(job: TrainingJob, views: Mapping[str, RoleView], complete: Sequence[str]) -> str:
    """The replicas whose success completes the job. `complete`: the roles that are."""
    deciding = complete if job.complete_policy == "All" else complete[:1]
    if len(deciding) == len(views) and all(v.count("succeeded") == v.role.replicas for v in views.values()):
        return "all roles are complete"
    return " and ".join(_who_succeeded(views[name]) for name in deciding)


def _who_succeeded(view: RoleView) -> str:
    role, succeeded = view.role, view.count("succeeded")
    if role.complete_policy == "Rank0":
        return f"replica 0 of role {role.name} has succeeded"
    if role.complete_policy == "Any":
        return f"a replica of role {role.name} has succeeded"
    if succeeded == role.replicas:
        return f"role {role.name} has succeeded"
    idle = role.replicas - succeeded
    return f"every replica of role {role.name} that started has succeeded; {idle} beyond minReplicas never started"


def _enough(job: TrainingJob, views: Mapping[str, RoleView]) -> str:
    if job.enough is None:
        return ""
    done = sum(len(views[name].indices("succeeded")) for name in job.enough.roles if name in views)
    wanted = f"{job.enough.replicas} of {', '.join(job.enough.roles)}"
    return f"{wanted} have succeeded ({_progress(views)})" if done >= job.enough.replicas else ""


def _progress(views: Mapping[str, RoleView]) -> str:
    return ", ".join(f"{n} {v.count('succeeded')}/{v.role.replicas}" for n, v in views.items())
