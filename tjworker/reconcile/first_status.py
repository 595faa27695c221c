"""Jobs whose first status may wait for their pods, which saves 4.7 ms of the API server's CPU per job. Pure.

So much costs a status write, as much as four creates. A new job needs none before its pods are created: their
names are fixed, so an interrupted pass is simply repeated, and the pods soon show what the status would. The write
would also prove that the job has not ended long ago while the view is old. `may_wait_for_pods` checks that in another
way (docs/adr/0030-no-status-before-the-pods.md).
"""

from __future__ import annotations

from tjworker.api.status import JobStatus
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Plan

WAIT_SECONDS = 1.0
"""The first status waits this long for events of the pods. Then it is written in any case."""
YOUNG_SECONDS = 10.0
"""No view of a job is older than the job. So a job of this age cannot have ended long ago, and its user's later edits
arrive soon. Long enough for the first passes of a burst of hundreds of jobs."""
CLOCKS_SECONDS = 2.0
"""How far the API server's clock, which gives the time of creation, may be ahead."""


def may_wait_for_pods(p: Pass, plan: Plan) -> bool:
    """True if this pass creates all first objects of a new job, and has nothing else to report."""
    status = plan.status
    if status is None or status.phase != "Pending" or plan.events or not _makes_all(p, plan):
        return False
    if status.host_ports is not None:
        # The ports come from a range in the settings, which may be another one in the next pass.
        return False
    created = p.job.created_at
    return created is not None and -CLOCKS_SECONDS <= p.now - created < YOUNG_SECONDS and _is_new(p)


def _makes_all(p: Pass, plan: Plan) -> bool:
    # Deaths of pods that controllers keep are counted with the help of the status, so there the status comes first.
    if any(role.workload != "Pod" for role in p.job.roles):
        return False
    return 0 < len(plan.writes) <= p.rules.writes_per_pass and all(isinstance(write, Create) for write in plan.writes)


def _is_new(p: Pass) -> bool:
    """True if the job has no status, no objects and no earlier passes."""
    seen = p.observed
    if seen.left_out_bytes:
        # The status records that an event has reported the large spec.
        return False
    # A snapshot of the object that the job names is no obstacle: the next pass reads the same object, unless its owner
    # edits it within this second.
    status = p.job.status.model_copy(update={"snapshot": {}}) if p.job.status.snapshot else p.job.status
    return status == JobStatus() and seen.untouched and not (seen.died_passes or seen.pods or seen.services)
