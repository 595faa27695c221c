"""What the end policies of a job mean together. Pure."""

from __future__ import annotations

from tjworker.api.model import TrainingJob


def race_to_end(job: TrainingJob) -> str:
    """That several roles can each end the job, which is seldom meant: a role completes by default. '' if one at most
    can. Source: the tables of docs/lifecycle.md, "When a job ends"."""
    # The manifests of a guest are written for its own operator, and some of their policies are derived.
    if job.complete_policy != "Any" or job.is_guest:
        return ""
    # A role without replicas cannot complete, so it wins no race.
    racing = [role.name for role in job.roles if role.complete_policy != "None" and role.replicas]
    if len(racing) < 2:
        return ""
    return (
        f"spec.completePolicy Any: the first of the roles {', '.join(racing)} to complete ends the job, whatever the"
        " others do; set completePolicy None for each role that must not end it"
    )
