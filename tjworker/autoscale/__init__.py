"""The autoscaler's decisions: (jobs, cluster, now) -> targets. Pure: no I/O, no clock. Names as in PaddlePaddle EDL."""

from tjworker.autoscale.cluster import cluster_resource
from tjworker.autoscale.decide import Decision, Move, decide
from tjworker.autoscale.dryrun import scale_dry_run, search_assignable_node
from tjworker.autoscale.fitting import PlanRejected
from tjworker.autoscale.jobs import ElasticJob, elastic, need_gpu, sorted_jobs
from tjworker.autoscale.policies import POLICIES
from tjworker.autoscale.policies.fulfillment import scale_all_jobs_dry_run
from tjworker.autoscale.resources import ClusterResource, Nodes
from tjworker.autoscale.rules import AutoscaleRules
from tjworker.autoscale.state import JobState, find_pending_job, find_training_jobs_might_be_rescheduled

__all__ = [
    "POLICIES",
    "AutoscaleRules",
    "ClusterResource",
    "Decision",
    "ElasticJob",
    "JobState",
    "Move",
    "Nodes",
    "PlanRejected",
    "cluster_resource",
    "decide",
    "elastic",
    "find_pending_job",
    "find_training_jobs_might_be_rescheduled",
    "need_gpu",
    "scale_all_jobs_dry_run",
    "scale_dry_run",
    "search_assignable_node",
    "sorted_jobs",
]
