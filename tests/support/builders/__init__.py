"""Builders of jobs, pods and nodes for tables: say what matters for the case, the rest is sound.

    job = make_job("digits").role("trainer", 2, restart="OnFailure", scope="Pod").status(phase="Running").build()
    pod = make_pod(job, "trainer", 0).on("node-a").running().build()
    seen = observe(make_pod(job, "trainer", 0).running(), make_pod(job, "trainer", 1).failed(exit_code=137))

Every step returns a new builder, so that a common beginning can be shared.
"""

from tests.support.builders.cluster import NodeBuilder, PodBuilder, make_node, make_pod, make_service, observe
from tests.support.builders.job import JobBuilder, make_job
from tests.support.builders.training_job import make_training_job

__all__ = [
    "JobBuilder",
    "NodeBuilder",
    "PodBuilder",
    "make_job",
    "make_node",
    "make_pod",
    "make_service",
    "make_training_job",
    "observe",
]
