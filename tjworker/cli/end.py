"""`tj preempt` and `tj fail`: end a job by hand, with a reason that its status keeps. They write an annotation on which
the operator acts; cleanPodPolicy decides which pods are deleted.
"""

from __future__ import annotations

import click

from tjworker.api import labels
from tjworker.cli.options import in_namespace, which_job
from tjworker.cli.output import as_object, print_result


@click.command(short_help="End a job as Preempted.")
@which_job
@click.option("-m", "--message", default="preempted by hand (tj preempt)", help="Why; the status keeps it.")
@as_object
@in_namespace
def preempt(job: str, message: str, output: str | None, namespace: str | None) -> int:
    """End JOB as Preempted, for good, and delete its pods to make room. To let it wait instead, use `tj suspend`.

    \b
    tj preempt digits -m "the room is needed for release 7"
    """
    return _end(job, message, namespace, output, labels.ANNOTATION_PREEMPTED)


@click.command(short_help="End a job as Failed.")
@which_job
@click.option("-m", "--message", default="failed by hand (tj fail)", help="Why; the status keeps it.")
@as_object
@in_namespace
def fail(job: str, message: str, output: str | None, namespace: str | None) -> int:
    """End JOB as Failed, for good, without waiting for its program to fail.

    \b
    tj fail digits -m "the loss is NaN since epoch 3"
    """
    return _end(job, message, namespace, output, labels.ANNOTATION_FAILED)


def _end(job: str, message: str, namespace: str | None, output: str | None, annotation: str) -> int:
    from tjworker.cli.jobs import FoundJob, ending, opened_job

    if not message.strip():
        raise click.BadParameter("a message must say something", param_hint="--message")
    with opened_job(job, namespace) as (cluster, found):
        # An annotation, not the status: the next pass would write over a status, and this needs no right on it.
        patch = ending(found, annotation, message)
        raw = cluster.api.merge_patch(found.resource, found.namespace, found.name, patch)
        said = f"{job}: ends as {annotation}; `tj get {job}` shows how far it is"
        print_result(said, FoundJob(found.resource, raw), output)
        return 0
