"""`tj timeline`: the life of a job as a Gantt chart of its phases and pods. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tjworker.cli.console import echo
from tjworker.cli.options import in_namespace, which_job
from tjworker.cli.output import dump

if TYPE_CHECKING:
    from tjworker.cli.chart import Chart


@click.command(short_help="Draw when a job was in which phase, and its pods.")
@which_job
@click.option(
    "-o", "--output", type=click.Choice(["text", "svg", "json", "yaml"]), default="text", help="How to draw it."
)
@in_namespace
def timeline(job: str, output: str, namespace: str | None) -> int:
    """Draw the life of JOB: when it was in which phase, when each pod waited, started, ran and ended, what scaled it
    and what failed. Deleted pods are drawn from Kubernetes' Events, which last for an hour; a deleted job is drawn
    from the history.

    \b
    tj timeline digits
    tj timeline digits -o svg > digits.svg      to look at in a browser
    """
    from tjworker.cli import rows
    from tjworker.cli.chart import chart
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import NoSuchJob, UserError
    from tjworker.cli.jobs import find_job, job_events, job_pods, readable, with_named
    from tjworker.cli.past import past_instead

    with user_cluster() as cluster:
        where = namespace or cluster.namespace
        try:
            found = find_job(cluster.api, where, job)
        except NoSuchJob as error:
            of_past = past_instead(where, job, error).chart()
            if of_past is None:
                raise UserError(f"the history has no object of {job} that can be drawn; see `tj describe`") from None
            drawn = of_past
        else:
            model, _ = readable(with_named(cluster.api, found))
            drawn = chart(model, job_pods(cluster.api, found), job_events(cluster.api, found), rows.utc_now())
    if output in ("json", "yaml"):
        dump(_as_object(drawn), output)
    elif output == "svg":
        from tjworker.cli.chartsvg import svg

        echo(svg(drawn), nl=False)
    else:
        _print_text(drawn)
    return 0


def _print_text(drawn: Chart) -> None:
    import shutil
    import sys

    from tjworker.cli.charttext import lines

    # Blocks in an encoding without them would raise UnicodeEncodeError in the middle of the chart.
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    width = max(60, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 80
    echo("\n".join(lines(drawn, width, letters="utf" not in encoding)))


def _as_object(drawn: Chart) -> dict[str, Any]:
    import orjson

    # It writes dataclasses and times, whole seconds with `Z` as Kubernetes does.
    found: dict[str, Any] = orjson.loads(orjson.dumps(drawn, option=orjson.OPT_UTC_Z | orjson.OPT_OMIT_MICROSECONDS))
    return found
