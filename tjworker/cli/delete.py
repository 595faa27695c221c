"""`tj delete`: deletes jobs and waits until they are gone. By UID: a new job of the same name stays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from tjworker.cli.console import echo
from tjworker.cli.options import in_namespace, job_names
from tjworker.cli.output import print_result

if TYPE_CHECKING:
    from tjworker.cli.cluster import Cluster
    from tjworker.cli.jobs import FoundJob

_LOOK_EVERY_SECONDS = 0.2


@click.command(short_help="Delete jobs and everything they own.")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=job_names)
@click.option("--wait/--no-wait", default=True, help="Wait until each is gone, its pods included (default).")
@click.option("--timeout", type=click.FloatRange(min=0), default=0.0, help="Seconds to wait; 0, the default: no limit.")
@click.option("-o", "--output", type=click.Choice(["name"]), help="Print the name instead of a sentence.")
@in_namespace
def delete(jobs: tuple[str, ...], wait: bool, timeout: float, output: str | None, namespace: str | None) -> int:
    """Delete each JOB with its pods and services.

    \b
    tj delete digits
    """
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import EXIT_FAILED, UserError
    from tjworker.cli.jobs import find_job

    deadline = time.monotonic() + timeout if timeout else float("inf")
    code = 0
    with user_cluster() as cluster:
        where = namespace or cluster.namespace
        for name in jobs:
            try:
                found = find_job(cluster.api, where, name)
                cluster.api.delete(found.resource, where, found.name, uid=str(found.raw["metadata"]["uid"]))
                if wait:
                    _until_gone(cluster, found, deadline)
                print_result(f"{name}: {'deleted' if wait else 'is being deleted'}", found, output)
            except UserError as error:  # like kubectl, go on with the other jobs
                echo(f"tj: {error}", err=True)
                code = EXIT_FAILED
    return code


def _until_gone(cluster: Cluster, job: FoundJob, deadline: float) -> None:
    """Wait for the job, then for its pods, which the garbage collector deletes after it."""
    from tjworker.api import labels
    from tjworker.cli.errors import UserError
    from tjworker.cli.jobs import job_pods

    name, uid = job.name, job.raw["metadata"]["uid"]
    while True:
        now = cluster.api.get(job.resource, job.namespace, name)
        there = now is not None and now["metadata"]["uid"] == uid
        pods = [p for p in job_pods(cluster.api, job) if p["metadata"]["labels"].get(labels.JOB_UID) == uid]
        # `kubectl delete --wait` returns as soon as the job is gone. Its pods still hold their GPUs then, and a job of
        # the same name would wait for their names.
        if not there and not pods:
            return
        if time.monotonic() > deadline:
            held = ", ".join((now or {}).get("metadata", {}).get("finalizers") or []) if there else ""
            left = ", ".join(pod["metadata"]["name"] for pod in pods[:5])
            why = f"its finalizers: {held}" if held else f"its pods still exist: {left}"
            raise UserError(f"{name} is not gone yet; {why}. `tj events {name}` may say more")
        time.sleep(_LOOK_EVERY_SECONDS)
