"""`tj history`: lists jobs that have ended or were deleted, also those that the cluster no longer has. Reads only.

It reads the operator's history store, and so needs the operator's Redis (TJ_REDIS_URL, which a local stack sets). The
page is for users without access to Redis: it shows what they may read in the cluster.
"""

from __future__ import annotations

import dataclasses

import click

from tjworker.cli.console import echo
from tjworker.cli.options import DURATION
from tjworker.cli.output import dump


@click.command(short_help="List jobs that have ended or were deleted.")
@click.option("-n", "--namespace", metavar="NAME", help="Only of this namespace.")
@click.option("--kind", metavar="KIND", help="Only of this kind: AITrainingJob, aitj, pytorchjobs ...")
@click.option("--since", "within", type=DURATION, help="Ended or deleted within that time, such as 15m or 72h.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most jobs to show.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="How to print.")
def history(namespace: str | None, kind: str | None, within: int | None, limit: int, output: str) -> int:
    """List the jobs that have ended or were deleted, the newest first. `tj describe` and `tj timeline` show one of
    them.

    \b
    tj history
    tj history -n team-a --since 2h
    tj describe -n team-a digits
    """
    from tjworker.api.kinds import find_kinds
    from tjworker.cli import past, rows
    from tjworker.cli.errors import UserError
    from tjworker.history.store import ended

    kinds = None if kind is None else {str(one.resource) for one in find_kinds(kind)}
    if kinds == set():
        raise UserError(f"{kind!r} is not a job kind; AITrainingJob, TrainingJob and PyTorchJob are, for example")
    now = rows.utc_now()
    with past.open_store() as store:
        found = ended(store.summaries())
    shown = [
        one
        for one in found
        if namespace in (None, one.namespace)
        and (kinds is None or one.resource in kinds)
        # A time that cannot be read must not hide its job.
        and (within is None or (at := rows.parse_time(one.at)) is None or (now - at).total_seconds() <= within)
    ]
    if output != "table":
        dump({"jobs": [dataclasses.asdict(one) for one in shown[:limit]]}, output)
        return 0
    if not shown:
        echo("the history has no such job" if found else "no job has ended or was deleted yet", err=True)
        return 0
    table = rows.align([("NAMESPACE", *past.HEADER), *((one.namespace, *past.row(one, now)) for one in shown[:limit])])
    echo("\n".join(table), paint=rows.paint)
    if len(shown) > limit:
        echo(f"{len(shown) - limit} more; --limit shows them", err=True)
    return 0
