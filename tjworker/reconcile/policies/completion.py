"""When a role and its job end: completePolicy and failPolicy of both. Success has priority over failure. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
        return p._replace(plan=Plan(requeue_after_seconds=LOOK_SECONDS))
    return count_late_failures(p).end_with("Succeed", verdict.reason, verdict.message)


def end_by_failure(p: Pass) -> Pass:
    """End the job if its failPolicy is met, or else as an earlier step has proposed. The message is about the final
    failure of this pass, or else about the last failure before it."""
    verdict = job_verdict(p.job, p.roles)
    if verdict.verdict != "failed":
        return p if p.proposed is None else p._replace(end=p.proposed)
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
    """The role's own verdict. Only finally failed replicas count as failed, not those that are restarted."""
    role = view.role
    if not role.replicas:
        # Scaled to 0: no replica has succeeded or failed.
        return ""
    if _met(role.complete_policy, view.indices("succeeded"), view.complete):
        return "complete"
    final = [r for r in view.replicas if r.state == "failed" and r.final]
    failed = frozenset(r.index for r in final)
    if failed and _met(role.fail_policy, failed, len(failed) == role.replicas):
        return "failed"
    if role.fails_when_evicted and any(r.pod is not None and r.pod.reason == EVICTED for r in final):
        return "failed"
    # Every pod has ended and neither policy is met: for example, two of three succeeded with failPolicy All. Waiting
    # would hang the job. With None, the user wants that the role never ends the job.
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
    """The verdict on the job, from those on its roles. A job that has only roles with the policy None never ends by
    itself."""
    if enough := _describe_enough(job, views):
        return JobVerdict("complete", "Completed", enough)
    verdicts = {name: role_verdict(view) for name, view in views.items()}
    # A role with the policy None never ends by itself, as parameter servers do. So the job policy All does not wait for
    # it, nor for a role without replicas.
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
    """For people, the replicas whose success completes the job. `complete`: the roles that are complete."""
    deciding = complete if job.complete_policy == "All" else complete[:1]
    if len(deciding) == len(views) and all(v.count("succeeded") == v.role.replicas for v in views.values()):
        return "all roles are complete"
    return " and ".join(_describe_success(views[name]) for name in deciding)


def _describe_success(view: RoleView) -> str:
    role, succeeded = view.role, view.count("succeeded")
    if role.complete_policy == "Rank0":
        return f"replica 0 of role {role.name} has succeeded"
    if role.complete_policy == "Any":
        return f"a replica of role {role.name} has succeeded"
    if succeeded == role.replicas:
        return f"role {role.name} has succeeded"
    idle = role.replicas - succeeded
    return f"every replica of role {role.name} that started has succeeded; {idle} beyond minReplicas never started"


def _describe_enough(job: TrainingJob, views: Mapping[str, RoleView]) -> str:
    """For people, that `job.enough` is reached; '' if it is not."""
    if job.enough is None:
        return ""
    done = sum(len(views[name].indices("succeeded")) for name in job.enough.roles if name in views)
    wanted = f"{job.enough.replicas} of {', '.join(job.enough.roles)}"
    return f"{wanted} have succeeded ({_progress(views)})" if done >= job.enough.replicas else ""


def _progress(views: Mapping[str, RoleView]) -> str:
    return ", ".join(f"{n} {v.count('succeeded')}/{v.role.replicas}" for n, v in views.items())
