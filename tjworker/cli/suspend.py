"""`tj suspend`: a job's pods go, the job waits; and the write that `tj resume` shares. One write of `spec.suspend`; running it
twice changes nothing more.
"""

from __future__ import annotations

import click


@click.command("suspend", short_help="Delete a job's pods and let it wait.")
@click.argument("job")
@click.option("-n", "--namespace", help="Namespace; default: the context's.")
def command(job: str, namespace: str | None) -> int:
    """Delete the pods of JOB and let it wait until `tj resume`. Its time limits stand still, what has succeeded stays so, and
    no restart is counted.

    \b
    tj suspend digits
    """
    return write_suspend(job, namespace, suspend=True)


def write_suspend(job: str, namespace: str | None, *, suspend: bool) -> int:
    """The exit code."""
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.jobs import find_job, suspending

    with user_cluster() as cluster:
        where = namespace or cluster.namespace
        found = find_job(cluster.api, where, job)
        patch = suspending(found, suspend)
        if patch is None:
            click.echo(f"{job} is suspended already" if suspend else f"{job} is not suspended")
            return 0
        cluster.api.merge_patch(found.plural, where, job, patch)
        click.echo(f"{job}: suspended; `tj resume {job}` lets it go on" if suspend else f"{job}: resumed")
        return 0
