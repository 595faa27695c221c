"""One task of a worker."""

from __future__ import annotations

from tjworker.controllers.jobs import JobReconciler
from tjworker.controllers.pass_end import describe_passes


def reconcile_key(jobs: JobReconciler, key: str) -> str:
    """Play the task for this key. Returns the text that Flower shows."""
    return describe_passes(jobs.run(key), key)
