"""When a role is done, and when the job is: completePolicy and failPolicy of both. Complete goes before fail. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tjworker.api.model import EndPolicy, JobEndPolicy, TrainingJob
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
    return count_late_failures(p).ending("Succeed", verdict.reason, verdict.message)


def end_by_failure(p: Pass) -> Pass:
    """By replicas that have failed for good, else as a step before has proposed. The message is of the failure that no
    restart follows, else of the last one before this pass."""
    verdict = job_verdict(p.job, p.roles)
    if verdict.verdict != "failed":
        return p if p.proposed is None else replace(p, end=p.proposed)
    if p.final is not None:
        reason = p.final.reason or verdict.reason
        return p.ending(p.final.phase, reason, f"{describe(p.final.failure)}; {p.final.why}")
    before = p.job.status.failures
    return p.ending("Failed", verdict.reason, describe(before[0]) if before else verdict.message)


def _met(policy: EndPolicy, indices: frozenset[int], replicas: int) -> bool:
    if policy == "Any":
        return bool(indices)
    if policy == "Rank0":
        return 0 in indices
    if policy == "All":
        # A surplus replica does not count: only those wanted now.
        return len(indices) == replicas
    return False


def role_verdict(view: RoleView) -> Verdict:
    """'failed' looks only at replicas that have failed for good; one that is to be restarted is not failed."""
    role = view.role
    if not role.replicas:
        return ""  # scaled to none: no replica has succeeded or failed
    if role.complete_policy != "None" and _met(role.complete_policy, view.indices("succeeded"), role.replicas):
        return "complete"
    failed = frozenset(r.index for r in view.replicas if r.state == "failed" and r.final)
    if failed and _met(role.fail_policy, failed, role.replicas):
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
        what = "all roles are" if job.complete_policy == "All" else f"role {complete[0]} is"
        return JobVerdict("complete", "Completed", f"{what} complete ({_progress(views)})")
    failed = [n for n, v in verdicts.items() if v == "failed"]
    can_fail = [n for n, v in views.items() if v.role.fail_policy != "None" and v.role.replicas]
    if _job_met(job.fail_policy, failed, can_fail):
        return JobVerdict("failed", "ReplicaFailed", f"role {', '.join(failed)} has failed")
    return JobVerdict("")


def _enough(job: TrainingJob, views: Mapping[str, RoleView]) -> str:
    if job.enough is None:
        return ""
    done = sum(len(views[name].indices("succeeded")) for name in job.enough.roles if name in views)
    wanted = f"{job.enough.replicas} of {', '.join(job.enough.roles)}"
    return f"{wanted} have succeeded ({_progress(views)})" if done >= job.enough.replicas else ""


def _progress(views: Mapping[str, RoleView]) -> str:
    return ", ".join(f"{n} {v.count('succeeded')}/{v.role.replicas}" for n, v in views.items())
