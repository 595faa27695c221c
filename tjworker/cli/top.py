"""`tj top`: how full the cluster is, what the queue holds, what the workers do. Reads only."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tjworker.base import JsonDict
from tjworker.cli.console import echo
from tjworker.cli.output import dump

if TYPE_CHECKING:
    from tjworker.cli.cluster import Cluster
    from tjworker.cli.load import JobProgress, Worker
    from tjworker.cli.room import Room
    from tjworker.settings import Settings
    from tjworker.store.work_queue import QueueStats

# Celery cannot know how many workers there are, so each question takes the whole time.
ANSWER_SECONDS = 1.0


@click.command(short_help="Show the load of cluster, queue and workers.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="How to print.")
def top(output: str) -> int:
    """Show what the pods of each job request of each node, what the work queue holds, and what each worker does now.
    Requests, not usage, decide whether one more replica finds a node; `kubectl top` shows usage.

    Queue and workers are read from the operator's Redis: set TJ_REDIS_URL, except with a local stack.
    """
    from tjworker.cli.cluster import choose_kubeconfig, missing_settings, user_cluster

    os.environ.update(missing_settings(choose_kubeconfig(quiet=True)))
    with user_cluster() as cluster:
        found, jobs = _cluster(cluster)
    settings = _settings()
    stats, workers, why = operator(settings)
    if output != "table":
        dump(_as_object(found, jobs, stats, workers, why), output)
    else:
        _print(found, jobs, settings, stats, workers, why)
    return 0


def _settings() -> Settings:
    from tjworker.cli.errors import UserError
    from tjworker.settings import settings_or_exit

    try:
        return settings_or_exit()
    except SystemExit as refusal:
        raise UserError(str(refusal)) from None


def _cluster(cluster: Cluster) -> tuple[Room, dict[str, JobProgress]]:
    from tjworker.api.resources import NODES, PODS
    from tjworker.cli.jobs import list_jobs
    from tjworker.cli.load import job_progress
    from tjworker.cli.room import room

    jobs = list_jobs(cluster.api, "")
    found = room(cluster.api.list_all(NODES), cluster.api.list_all(PODS))
    return found, {f"{job.namespace}/{job.name}": job_progress(job.status) for job in jobs}


def operator(settings: Settings) -> tuple[QueueStats | None, list[Worker], str]:
    """Queue and workers; or why they cannot be asked: a user of the cluster may not reach the operator's Redis."""
    import redis
    from kombu.exceptions import OperationalError

    from tjworker.app import make_app
    from tjworker.base import OperatorError
    from tjworker.cli.load import workers
    from tjworker.store.connect import open_store

    try:
        # Without a record key: `tj` reads the queue's numbers, and no record.
        stats = open_store(settings.redis_url, settings.key_prefix).queue.stats()
        app = make_app(settings)
        inspect = app.control.inspect(timeout=ANSWER_SECONDS)
        return stats, workers(inspect.stats() or {}, inspect.active() or {}), ""
    except OperatorError as error:
        return None, [], error.message.removesuffix("; trying again")
    except (OperationalError, redis.RedisError, OSError) as error:
        return None, [], " ".join(str(error).split())


def _print(
    found: Room,
    jobs: dict[str, JobProgress],
    settings: Settings,
    stats: QueueStats | None,
    workers: list[Worker],
    why: str,
) -> None:
    from tjworker.cli.load import cluster_lines, job_lines, worker_lines
    from tjworker.cli.rows import queue_line

    sections = [cluster_lines(found, settings.gpu_resource_list), job_lines(found, jobs)]
    if stats is None:
        sections.append([f"Queue and workers: {why}", "  -> name the operator's Redis in TJ_REDIS_URL"])
    else:
        oldest = f"; the oldest has waited for {stats.oldest_seconds:.1f} s" if stats.queued else ""
        sections += [[f"Queue: {queue_line(stats)}{oldest}"], worker_lines(workers)]
    echo("\n\n".join("\n".join(section) for section in sections))


def _as_object(
    found: Room, jobs: dict[str, JobProgress], stats: QueueStats | None, workers: list[Worker], why: str
) -> JsonDict:
    return {
        "nodes": {
            name: {"ready": node.ready, "unschedulable": node.unschedulable, "allocatable": dict(node.allocatable)}
            for name, node in found.nodes.items()
        },
        "requests": {node or "-": asdict(asked) for node, asked in found.requests.items()},
        "jobs": {
            name: {"phase": jobs[name].phase if name in jobs else "", "requests": asdict(asked)}
            | ({"done": jobs[name].done, "left": jobs[name].left} if name in jobs else {})
            for name, asked in found.holders.items()
        },
        "queue": None if stats is None else asdict(stats),
        "workers": [asdict(worker) for worker in workers],
        "error": why,
    }
