"""`tj events`: shows the Events of a job and its pods, by time. Reads only. By default a cluster keeps Events for an
hour (kube-apiserver's --event-ttl).
"""

from __future__ import annotations

import dataclasses

import click

from tjworker.cli.console import echo, wrapped
from tjworker.cli.options import in_namespace, which_job
from tjworker.cli.output import dump


@click.command(short_help="Show the events of a job and its pods.")
@which_job
@click.option("--warnings", is_flag=True, help="Only warnings.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="How to print.")
@in_namespace
def events(job: str, warnings: bool, output: str, namespace: str | None) -> int:
    """Show the Events of JOB, its pods, ReplicaSets and batch Jobs, oldest first, deleted pods included. Kubernetes
    keeps Events for an hour.

    \b
    tj events digits
    tj events digits --warnings
    """
    from tjworker.cli import happenings, rows
    from tjworker.cli.jobs import job_events, opened_job

    with opened_job(job, namespace) as (cluster, found):
        seen = job_events(cluster.api, found)
        shown = [h for h in seen if not warnings or h.type == "Warning"]
        if output != "table":
            dump({"events": [dataclasses.asdict(h) for h in shown]}, output)
            return 0
        if not shown:
            echo(f"no {'warnings' if warnings else 'events'} of {job}; Kubernetes keeps them for an hour", err=True)
            return 0
        now = rows.utc_now()
        table = rows.align([happenings.HEADER, *(happenings.row(h, now) for h in shown)])
        echo("\n".join(part for line in table for part in wrapped(line)))
        return 0
