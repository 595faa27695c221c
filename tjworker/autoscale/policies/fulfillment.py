"""The seeds' policy: one more replica for each job, the least fulfilled first, until the cluster is full; one fewer, from the
most fulfilled, while more is asked for than there is. It shares out what is free and takes nobody's replicas for a later
job's sake beyond that job's own pods: the first of many jobs may keep most of the cluster. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.autoscale.fast import scale_all_jobs_dry_run
from tjworker.autoscale.problem import Problem


def plan(problem: Problem) -> Mapping[str, int]:
    return scale_all_jobs_dry_run(problem.jobs, problem.resource, problem.max_load_desired)
