"""What the commands share: which job, in which namespace, and how a shell completes its name."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

COMPLETES_WITHIN_SECONDS = 2.0
"""Nobody waits longer for a key press."""

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
    """The jobs that begin like that, with their phases; none when the cluster does not answer soon: a shell that
    completes has no place for a message."""
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
    """The roles of the job that is named already, else of every job: click does not tell of an argument before an
    option that is still without its value."""
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
