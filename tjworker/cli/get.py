"""`tj get`: lists jobs, or shows one job with its pods. Reads only."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import click

from tjworker.cli.console import complain, echo, wrapped
from tjworker.cli.options import in_namespace, job_names
from tjworker.cli.output import dump, typed_name

if TYPE_CHECKING:
    from tjworker.base import GroupResource
    from tjworker.cli.cluster import Cluster


@click.command(short_help="Show jobs, or one job and its pods.")
@click.argument("job", required=False, shell_complete=job_names)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "name"]),
    default="table",
    help="How to print.",
)
@in_namespace
@click.option("-A", "--all-namespaces", is_flag=True, help="Jobs of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Print a row for each change, until Ctrl-C.")
def get(job: str | None, output: str, namespace: str | None, all_namespaces: bool, watch: bool) -> int:
    """Show all jobs, or JOB and its pods.

    \b
    tj get                    the jobs of the namespace
    tj get digits             one job, why it is in its phase, its pods and newest failures
    tj get digits -o yaml     everything about it
    tj get tfjobs.kubeflow.org          the jobs of one kind
    tj get tfjobs.kubeflow.org/digits   that one, where two kinds have a digits
    """
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.jobs import kinds_called

    # The name of a job has no dot, but the name of a kind may.
    of_kind, job = (job, None) if job and "." in job and "/" not in job and not watch else (None, job)
    if job and all_namespaces:
        raise click.UsageError("JOB and --all-namespaces exclude each other: a name is unique in a namespace only")
    if watch and output in ("json", "yaml", "name"):
        raise click.UsageError(f"--watch prints rows; it cannot be used with -o {output}")
    with user_cluster() as cluster:
        where = "" if all_namespaces else namespace or cluster.namespace
        if watch:
            return _watch(cluster, job, where, wide=output == "wide")
        if job:
            return _show_one(cluster, job, where, output)
        kinds = kinds_called(cluster.api, of_kind, cluster.operator) if of_kind else []
        return _show_all(cluster, where, output, kinds)


def _show_all(cluster: Cluster, namespace: str, output: str, kinds: list[GroupResource]) -> int:
    from tjworker.cli import rows
    from tjworker.cli.jobs import look

    found, refused = look(cluster.api, namespace, kinds)
    if refused:
        complain(f"left out, as you may not list them: {', '.join(refused)}")
    if output in ("json", "yaml"):
        dump({"apiVersion": "v1", "kind": "List", "items": [f.raw for f in found]}, output)
        return 0
    if output == "name":
        echo("".join(f"{typed_name(f)}\n" for f in found), nl=False)
        return 0
    if not found:
        complain(f"no jobs in {f'namespace {namespace}' if namespace else 'any namespace'}")
        return 0
    wide, now = output == "wide", rows.utc_now()
    table = [rows.job_header(wide=wide), *(rows.job_row(f.raw, now, wide=wide) for f in found)]
    if not namespace:
        namespaces = ["NAMESPACE", *(f.namespace for f in found)]
        table = [(head, *row) for head, row in zip(namespaces, table, strict=True)]
    echo("\n".join(rows.align(table)), paint=rows.paint)
    return 0


def _show_one(cluster: Cluster, name: str, namespace: str, output: str) -> int:
    from tjworker.cli import rows
    from tjworker.cli.jobs import find_job, job_pods, readable, untaken
    from tjworker.cli.narrative import doubts

    found = find_job(cluster.api, namespace, name)
    if output in ("json", "yaml"):
        dump(found.raw, output)
        return 0
    if output == "name":
        echo(typed_name(found))
        return 0
    wide, now = output == "wide", rows.utc_now()
    echo("\n".join(rows.align([rows.job_header(wide=wide), rows.job_row(found.raw, now, wide=wide)])), paint=rows.paint)
    if not wide and (message := rows.job_message(found.raw)):
        echo("\n" + "\n".join(wrapped(message)))
    if waits := untaken(found, cluster.operator):
        echo("\n" + "\n".join(wrapped(waits[:1].upper() + waits[1:])))
    (model, _), pods = readable(found), job_pods(cluster.api, found)
    for doubt in doubts(model, pods, now):
        echo("\n".join(wrapped(doubt)))
    if pods:
        echo("\n" + "\n".join(rows.align([rows.POD_HEADER, *(rows.pod_row(p, now) for p in pods)])), paint=rows.paint)
    if failures := rows.failure_lines(model.status.failures, now):
        echo("\nNEWEST FAILURES\n" + "\n".join(part for line in failures for part in wrapped(line)))
    return 0


def _watch(cluster: Cluster, name: str | None, namespace: str, *, wide: bool) -> int:
    from contextlib import ExitStack

    from tjworker.cli import rows
    from tjworker.cli.errors import report_outage
    from tjworker.cli.informer import Informer
    from tjworker.cli.jobs import find_job
    from tjworker.cli.kinds import installed_kinds

    if name:
        # A misspelt name is refused. Otherwise the command would watch for it for ever.
        name = find_job(cluster.api, namespace, name).name
    changes: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def on_change(kind: str, obj: dict[str, Any]) -> None:
        if kind != "DELETED" and name in (None, obj["metadata"]["name"]):
            changes.put(obj)

    widths = (24, 12, 8, 8, 8, 14, 0)
    echo(_fixed(rows.job_header(wide=wide), widths))
    with ExitStack() as stack:
        for number, resource in enumerate(installed_kinds(cluster.api)):
            # All informers meet the same outage; one of them reports it.
            on_outage = report_outage if number == 0 else None
            stack.enter_context(Informer(cluster.api, resource, namespace, on_change=on_change, on_outage=on_outage))
        while True:
            echo(_fixed(rows.job_row(changes.get(), rows.utc_now(), wide=wide), widths), paint=rows.paint)


def _fixed(row: tuple[str, ...], widths: tuple[int, ...]) -> str:
    """Rows that come one by one cannot be aligned to each other, so the columns have fixed widths."""
    return "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
