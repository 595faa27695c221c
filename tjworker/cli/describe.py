"""`tj describe`: how a job stands and why, in sentences. Reads only. `-o yaml` of `tj get` has the raw fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tjworker.cli.console import echo
from tjworker.cli.options import in_namespace, which_job

if TYPE_CHECKING:
    from tjworker.cli.narrative import Section


@click.command(short_help="Say how a job stands, and why.")
@which_job
@in_namespace
def describe(job: str, namespace: str | None) -> int:
    """Say how JOB stands: why it waits or failed, who restarted it and when the next try comes, what the autoscaler
    did, how much is left of its time limits, and how old all that is.

    \b
    tj describe digits
    """
    from tjworker.cli import narrative, rows
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.jobs import find_job, job_events, job_pods, parsed

    with user_cluster() as cluster:
        where = namespace or cluster.namespace
        found = find_job(cluster.api, where, job)
        pods = job_pods(cluster.api, found)
        seen = job_events(cluster.api, found)
        sections = narrative.describe(found.raw, parsed(found), pods, seen, rows.utc_now())
    echo("\n\n".join("\n".join(_shown(section)) for section in sections))
    return 0


def _shown(section: Section) -> list[str]:
    """Lines as wide as the terminal; as long as they are where nobody looks at them."""
    import shutil
    import sys
    import textwrap

    indent = "  " if section.title else ""
    width = max(40, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 10_000
    body = []
    for line in section.lines:
        if line.startswith(" "):  # a line of a log: as it stands
            body.append(indent + line)
        else:
            body.extend(textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=indent + "  "))
    return [section.title, *body] if section.title else body
