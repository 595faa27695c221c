"""When the first status of a job may wait for its pods. Pure.

A status write costs the API server as much as four creates. A new job needs none before its pods are made: their names
are fixed, so that a pass that is cut off is simply done again, and what it would tell is told by the pods a moment
later. What the write proves beside that, that the job is not long over and only its view is old, is proved otherwise
(docs/adr/0030-no-status-before-the-pods.md).
"""

from __future__ import annotations

from tjworker.api.status import JobStatus
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Plan

WAIT_SECONDS = 1.0
"""The first status waits so long for news of the pods; then it says how they stand all the same."""
YOUNG_SECONDS = 10.0
"""No view of a job is older than the job: one that was created so recently cannot have ended long ago, and what its
user has changed since is a moment away. Long enough for the first passes of a burst of hundreds of jobs."""
CLOCKS_SECONDS = 2.0
"""The API server's clock, which says when the job was created, may be ahead by so much."""


def may_wait_for_pods(p: Pass, plan: Plan) -> bool:
    """This pass makes the first objects of a job, all of them, and has nothing else to tell."""
    status = plan.status
    if status is None or status.phase != "Pending" or plan.events or not _makes_all(p, plan):
        return False
    if status.host_ports is not None:  # drawn from the owner's range, which may be another one in the next pass
        return False
    created = from_rfc3339(p.job.created_at)
    return created is not None and -CLOCKS_SECONDS <= p.now - created < YOUNG_SECONDS and _is_new(p)


def _makes_all(p: Pass, plan: Plan) -> bool:
    """Pods that controllers keep are counted by what the status says of them: for those it goes first."""
    if any(role.workload != "Pod" for role in p.job.roles):
        return False
    return 0 < len(plan.writes) <= p.rules.writes_per_pass and all(isinstance(write, Create) for write in plan.writes)


def _is_new(p: Pass) -> bool:
    """Nothing was told, made or tried before, and nothing of it is there."""
    seen = p.observed
    if seen.left_out_bytes:  # an event tells of it, once: the status remembers
        return False
    # The object that the job names was read again in this pass: the next one reads the same, unless its owner edits it
    # within this second.
    told = p.job.status.model_copy(update={"snapshot": {}}) if p.job.status.snapshot else p.job.status
    return told == JobStatus() and seen.untouched and not (seen.died_passes or seen.pods or seen.services)
