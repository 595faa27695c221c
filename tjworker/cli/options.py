"""Options and arguments that commands share: the job, its namespace, and completion of its name in a shell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tjworker.cli.jobs import FoundJob

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


class _Duration(click.ParamType):  # type: ignore[type-arg]  # before 8.4 click's types take no parameter
    """Seconds, written as kubectl reads them: 90s, 5m, 1h30m."""

    name = "duration"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(?=.)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", value, re.ASCII)
        if match is None:
            self.fail(f"{value!r} is not a duration such as 30s, 5m or 1h30m", param, ctx)
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        if not (total := hours * 3600 + minutes * 60 + seconds):
            self.fail(f"{value!r} is not above 0", param, ctx)
        return total


DURATION = _Duration()
in_namespace = click.option("-n", "--namespace", help="Namespace; default: the context's.")


def job_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The jobs whose names begin with `incomplete`, with their phases."""
    from tjworker.cli.rows import job_phase

    return [
        CompletionItem(job.name, help=job_phase(job.status) or None)
        for job in _jobs_there(ctx)
        if job.name.startswith(incomplete)
    ]


def role_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The roles of the job that the command line names, else of every job: click does not pass an argument that comes
    before an option whose value is incomplete."""
    from tjworker.cli import jobs

    asked = ctx.params.get("job")
    names = {role for job in _jobs_there(ctx) if asked in (None, job.name) for role in jobs.role_names(job)}
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _jobs_there(ctx: click.Context) -> list[FoundJob]:
    """The jobs of the namespace that the command line names. [] if the cluster does not answer in time: a shell cannot
    show a message while it completes."""
    from tjworker.base import OperatorError
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import UserError
    from tjworker.cli.jobs import list_jobs

    try:
        with user_cluster(request_timeout_seconds=COMPLETES_WITHIN_SECONDS, quiet=True) as cluster:
            return list_jobs(cluster.api, ctx.params.get("namespace") or cluster.namespace)
    except (OperatorError, UserError, OSError):
        return []


which_job = click.argument("job", shell_complete=job_names)
