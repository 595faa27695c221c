"""`tj logs`: the logs of all replicas of a job, each line with its replica in front. Reads only.

With -f it also follows pods that come later (replacements, a scale-up) and ends when the job has ended and every log
has been read to its end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tjworker.base import printable
from tjworker.cli.console import echo
from tjworker.cli.fold import Fold
from tjworker.cli.options import DURATION, in_namespace, role_names, which_job

if TYPE_CHECKING:
    from tjworker.cli.jobs import FoundJob
    from tjworker.cli.logstream import Excerpt, Wanted


@click.command(short_help="Show or follow the logs of all replicas.")
@which_job
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, pods that come later included.")
@click.option("--role", shell_complete=role_names, help="Only this role.")
@click.option("--index", type=click.IntRange(min=0), help="Only this replica of the role.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last N lines of each.")
@click.option("--since", "since_seconds", type=DURATION, help="Only lines that are younger, such as 30s, 5m or 2h.")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@click.option("-p", "--previous", is_flag=True, help="Logs of the previous run of restarted containers.")
@in_namespace
def logs(job: str, follow: bool, role: str | None, index: int | None, namespace: str | None, **which: Any) -> int:
    """Show the logs of all replicas of JOB. With -f, a line marks each pod that was replaced.

    \b
    tj logs digits -f
    tj logs digits --role trainer --index 0 --tail 20
    tj logs digits --since 5m --timestamps
    """
    from tjworker.cli.jobs import check_replica, job_pods, main_container, opened_job, with_named
    from tjworker.cli.logstream import Excerpt, Follower, Wanted, read_log, targets

    excerpt = Excerpt(**which)
    if follow and excerpt.previous:
        raise click.UsageError("--follow and --previous exclude each other: a run that is over has no more lines")
    with opened_job(job, namespace) as (cluster, named):
        where, found = named.namespace, with_named(cluster.api, named)
        check_replica(found, role, index)
        wanted = Wanted(role, index)
        if follow:
            with printer(fold=not excerpt.timestamps) as emit:
                Follower(cluster, found, wanted, excerpt, emit).run()
            return 0
        main = main_container(found)
        chosen = [t for pod in job_pods(cluster.api, found) for t in targets(pod, wanted, main)]
        if not chosen:
            _print_last_words(found, wanted)
            return 0
        wrote = False
        with printer(fold=not excerpt.timestamps) as emit:
            for target in chosen:
                for line in read_log(cluster.transport, where, target, excerpt):
                    emit(target.label, line)
                    wrote = True
        if not wrote:
            echo(_nothing(job, excerpt), err=True)
        return 0


def _nothing(job: str, excerpt: Excerpt) -> str:
    if excerpt.previous:
        return (
            "no container was restarted in its pod: a replica that fails gets a new pod, and"
            f" `tj describe {job}` has the last lines of the one before"
        )
    return f"no lines; `tj describe {job}` says how its pods do"


def _print_last_words(job: FoundJob, wanted: Wanted) -> None:
    """Print the last lines of failed pods from the status, for a job without such pods. Raises UserError if the status
    has none."""
    from tjworker.cli.errors import UserError
    from tjworker.cli.logstream import last_words
    from tjworker.cli.rows import job_phase

    name, status = job.name, job.status
    found = list(last_words(job, wanted))
    if not found:
        if not status.get("completionTime"):
            phase = job_phase(status) or "not accepted yet"
            raise UserError(f"{name} ({phase}) has no such pods now; `tj describe {name}` says what it waits for")
        if status.get("refused"):
            raise UserError(f"{name} was refused and never had pods; `tj describe {name}` says what to mend")
        raise UserError(
            f"{name} has ended ({status.get('phase')}), and its pods were deleted with their logs, as"
            " spec.cleanPodPolicy says (default: All). `Running` keeps those that have ended; `tj logs -f` follows a"
            " job while it runs"
        )
    echo(f"the pods of {name} are gone; its status has the last lines of those that failed:", err=True)
    with printer(fold=True) as emit:
        for label, line in found:
            emit(label, line)


@contextmanager
def printer(*, fold: bool) -> Iterator[Callable[[str, str], None]]:
    """Prints `label | line`. On a terminal each label has a colour of its own, and with `fold` a traceback that another
    replica has shown already is one line."""
    if not sys.stdout.isatty():  # a file, or a program that reads it: a log is what the program wrote
        yield _plain
        return
    colours = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_yellow")
    given: dict[str, str] = {}
    folds = Fold()

    def show(label: str, line: str) -> None:
        colour = given.setdefault(label, colours[len(given) % len(colours)])
        echo(f" {line}", head=click.style(f"{printable(label)} |", fg=colour))
        sys.stdout.flush()

    def emit(label: str, line: str) -> None:
        for shown in folds.line(label, line) if fold else [(label, line)]:
            show(*shown)

    try:
        yield emit
    finally:
        for shown in folds.rest():
            show(*shown)


def _plain(label: str, line: str) -> None:
    # Flushed with each line: Python fills a block of 8 KiB for a pipe, so `tj logs -f | grep loss` would be silent for
    # minutes.
    sys.stdout.write(f"{label} | {line}\n")
    sys.stdout.flush()
