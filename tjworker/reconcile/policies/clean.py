"""cleanPodPolicy: which pods go when the job has ended. It holds on every way to an end. Pure."""

from __future__ import annotations

from tjworker.api.model import CleanPodPolicy
from tjworker.api.observed import PodRecord


def goes(policy: CleanPodPolicy, pod: PodRecord) -> bool:
    """All: every pod. Running: those that have not ended, so that the logs of the others can still be read. None: none."""
    if policy == "All":
        return True
    return policy == "Running" and pod.phase not in ("Succeeded", "Failed")
