"""The event that a job's spec is too large for the projection, once for each spec. Pure."""

from __future__ import annotations

from dataclasses import replace

from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed
from tjworker.base import MOST_KEPT_OF_A_JOB
from tjworker.reconcile.plan import Event, Plan

LARGE_SPEC = "LargeSpec"
"""Reason of the event."""


def report_large_spec(job: TrainingJob, observed: Observed, plan: Plan) -> Plan:
    """The plan with the event, if the operator reads the spec from the API server and has not reported it."""
    # Reported once for each version of the spec: `observedGeneration` records that.
    size = observed.left_out_bytes
    if not size or plan.status is None or job.status.observed_generation == plan.status.observed_generation:
        return plan
    message = (
        f"spec, labels and annotations have {-(-size // 1024)} KiB together. The operator keeps at most"
        f" {MOST_KEPT_OF_A_JOB >> 10} KiB of a job in Redis, so it reads this one from the API server in each pass. The"
        " job is served all the same, a little later than others; put what is large into a ConfigMap or a volume"
    )
    return replace(plan, events=(*plan.events, Event("Warning", LARGE_SPEC, message)))
