"""What Kubeflow's TFJob and KubeDL's have in common. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.kinds.guests.shape import Specs
from tjworker.api.model import EndPolicy

ROLES = ("PS", "Worker", "Chief", "Master", "Evaluator")
LONE = ("Chief", "Master")


def complete(success_policy: str | None, specs: Specs) -> Mapping[str, EndPolicy]:
    """With the chief; without one with the first worker, or, as the policy says, the last."""
    chiefs = [name for name in LONE if name in specs]
    if chiefs:
        return {chiefs[0]: "All"}
    return {"Worker": "All" if success_policy == "AllWorkers" else "Rank0"}
