"""What a policy is given. Pure data: a policy that needs more (priorities, a rate of change) adds a field with a
default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.resources import ClusterResource


@dataclass(frozen=True, slots=True)
class Problem:
    jobs: Sequence[ElasticJob]
    resource: ClusterResource
    max_load_desired: float = 0.97
    """The part of the cluster's CPUs that may be requested; GPUs may be to the last one."""
