"""The autoscaler's decisions: (jobs, cluster, now) -> targets. Pure: no I/O, no clock. Names as in seed 003."""

from tjworker.autoscale.dryrun import scale_dry_run, search_assignable_node
from tjworker.autoscale.fast import scale_all_jobs_dry_run
from tjworker.autoscale.jobs import ElasticJob, elastic, need_gpu, sorted_jobs
from tjworker.autoscale.resources import ClusterResource, Nodes

__all__ = [
    "ClusterResource", "ElasticJob", "Nodes", "elastic", "need_gpu", "scale_all_jobs_dry_run", "scale_dry_run",
    "search_assignable_node", "sorted_jobs",
]
