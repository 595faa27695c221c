"""`tj suspend` deletes a job's pods and lets it wait; `tj resume` lets it go on. Both write `spec.suspend` once; to run
them twice changes nothing more.
"""

from __future__ import annotations

import click

from tjworker.cli.options import in_namespace, which_job
from tjworker.cli.output import as_object, print_result


@click.command(short_help="Delete a job's pods and let it wait.")
@which_job
@as_object
@in_namespace
def suspend(job: str, output: str | None, namespace: str | None) -> int:
    """Delete the pods of JOB and let it wait until `tj resume`. Its time limits stop, its successes are
    kept, and no restart is counted.

    \b
    tj suspend digits
    """
    return _write(job, namespace, output, suspend=True)


@click.command(short_help="Let a suspended job go on.")
@which_job
@as_object
@in_namespace
def resume(job: str, output: str | None, namespace: str | None) -> int:
    """Continue JOB after `tj suspend`: create its pods again, and let its time limits run on.

    \b
    tj resume digits
    """
    return _write(job, namespace, output, suspend=False)


def _write(job: str, namespace: str | None, output: str | None, *, suspend: bool) -> int:
    from tjworker.cli.jobs import FoundJob, opened_job, suspending

    with opened_job(job, namespace) as (cluster, found):
        patch = suspending(found, suspend)
        if patch is None:
            print_result(f"{job} is suspended already" if suspend else f"{job} is not suspended", found, output)
            return 0
        raw = cluster.api.merge_patch(found.resource, found.namespace, found.name, patch)
        said = f"{job}: suspended; `tj resume {job}` lets it go on" if suspend else f"{job}: resumed"
        print_result(said, FoundJob(found.resource, raw), output)
        return 0
