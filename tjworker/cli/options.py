"""Options and arguments that commands share: the job, its namespace, and completion of its name in a shell."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

COMPLETES_WITHIN_SECONDS = 2.0
"""A user does not wait longer for the Tab key."""

without_logs = click.option(
    "-q",
    "--no-logs",
    "--quiet",
    "no_logs",
    is_flag=True,
    help="With --wait: show phases, but not the programs' output.",
)
in_namespace = click.option("-n", "--namespace", help="Namespace; default: the context's.")


def job_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The jobs whose names begin with `incomplete`, with their phases. [] if the cluster does not answer in time: a
    shell cannot show a message while it completes."""
    from tjworker.base import OperatorError
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import UserError
    from tjworker.cli.jobs import list_jobs
    from tjworker.cli.rows import job_phase

    try:
        with user_cluster(request_timeout_seconds=COMPLETES_WITHIN_SECONDS, quiet=True) as cluster:
            found = list_jobs(cluster.api, ctx.params.get("namespace") or cluster.namespace)
    except (OperatorError, UserError, OSError):
        return []
    return [
        CompletionItem(name, help=job_phase(job.status) or None)
        for job in found
        if (name := str(job.raw["metadata"]["name"])).startswith(incomplete)
    ]


def role_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The roles of the job that the command line names, else of every job: click does not pass an argument that comes
    before an option whose value is incomplete."""
    from tjworker.base import OperatorError
    from tjworker.cli import jobs
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import UserError

    try:
        with user_cluster(request_timeout_seconds=COMPLETES_WITHIN_SECONDS, quiet=True) as cluster:
            found = jobs.list_jobs(cluster.api, ctx.params.get("namespace") or cluster.namespace)
    except (OperatorError, UserError, OSError):
        return []
    asked = ctx.params.get("job")
    names = {role for job in found if asked in (None, job.raw["metadata"]["name"]) for role in jobs.role_names(job)}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


which_job = click.argument("job", shell_complete=job_names)
