"""`tj scale`: set the number of replicas of one role. One write; running it twice changes nothing more.

The API server checks the bounds; its refusal is what the user reads. The elastic role goes through the scale
subresource, as `kubectl scale` does; a role that the CRD's one scale path does not name is patched in the spec.
"""

from __future__ import annotations

import click

from tjworker.cli.console import complain
from tjworker.cli.options import in_namespace, role_names, which_job
from tjworker.cli.output import as_object, print_result


@click.command(short_help="Set the number of replicas of a role.")
@which_job
@click.option("--replicas", type=click.IntRange(min=0), required=True, help="How many.")
@click.option(
    "--role", shell_complete=role_names, help="Which role; default: the one that `kubectl scale` moves (trainer)."
)
@as_object
@in_namespace
def scale(job: str, replicas: int, role: str | None, output: str | None, namespace: str | None) -> int:
    """Set the number of replicas of a role of JOB. Replicas that run are not restarted.

    \b
    tj scale digits --replicas 5
    """
    from tjworker.cli.jobs import FoundJob, autoscaler_goes_on, opened_job, scaling

    with opened_job(job, namespace) as (cluster, found):
        where, asked = found.namespace, scaling(found, role, replicas)
        # Without a resourceVersion, as `kubectl scale` does it by default: the number is the user's, whatever has
        # changed since the job was read.
        cluster.api.merge_patch(found.resource, where, found.name, asked.patch, subresource=asked.subresource)
        changed = f"{asked.before} -> {replicas}" if asked.before != replicas else f"is {replicas} already"
        # The subresource `scale` answers with a Scale, not with the job.
        raw = cluster.api.get(found.resource, where, found.name) if output else None
        print_result(f"{job}: {asked.role} {changed}", found if raw is None else FoundJob(found.resource, raw), output)
        if goes_on := autoscaler_goes_on(found, asked.role, cluster.operator):
            complain(goes_on)
        return 0
