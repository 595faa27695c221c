"""`tj resume`: a job that waits makes its pods again. One write of `spec.suspend`; running it twice changes nothing more."""

from __future__ import annotations

import click


@click.command("resume", short_help="Let a suspended job go on.")
@click.argument("job")
@click.option("-n", "--namespace", help="Namespace; default: the context's.")
def command(job: str, namespace: str | None) -> int:
    """Let JOB go on after `tj suspend`: its pods are made again, its time limits go on where they were.

    \b
    tj resume digits
    """
    from tjworker.cli.suspend import write_suspend

    return write_suspend(job, namespace, suspend=False)
