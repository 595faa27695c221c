"""`tj doctor`: checks everything that a running job needs, says how to mend what is wrong, and prints every setting.
Changes nothing.

It reads with the rights of the user. With the kubeconfig of a local stack, the stack's settings count for what the
environment does not set. Exit code 1 if a check has failed.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tjworker.base import OperatorError
from tjworker.cli.checks.check import Check, good
from tjworker.cli.cluster import choose_kubeconfig, missing_settings, open_cluster
from tjworker.cli.console import echo, terminal_width, wrapped
from tjworker.cli.errors import UserError
from tjworker.cli.output import dump

if TYPE_CHECKING:
    from tjworker.settings import Settings

_HERE = "this machine"
_MARKS = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "red"), "skipped": ("skip", "cyan")}


@click.command(short_help="Check Redis, cluster and operator; print the settings.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="How to print.")
def doctor(output: str) -> int:
    """Check Redis, the cluster, CRDs, permissions, the operator's processes and clocks, and say how to mend what
    is wrong. Then print every setting with its value and where it comes from.

    Exit code 1 when a check has failed; a warning is not a failure.
    """
    kubeconfig = choose_kubeconfig()
    of_stack = missing_settings(kubeconfig)
    checks, settings = examine(kubeconfig, of_stack)
    rows = list(setting_rows(settings, of_stack)) if settings else []
    if output != "table":
        dump(_as_object(checks, rows), output)
    else:
        _print_table(checks, rows)
    return 0 if good(checks) else 1


def examine(kubeconfig: Path | None, of_stack: Mapping[str, str]) -> tuple[list[Check], Settings | None]:
    """(every check, the settings; None if they are invalid)."""
    from pydantic import ValidationError

    os.environ.update(of_stack)  # everything that reads settings in this process must read the same
    refusal = ""
    try:
        from tjworker.api.kinds import served
        from tjworker.settings import load_settings, settings_or_exit

        settings = load_settings()
        served(settings.kind_list)
    except OperatorError as error:
        wrong = Check(_HERE, "settings", "failed", error.message, "correct or unset it; docs/settings.md lists all")
        return [_versions(), wrong], None
    except ValidationError:
        try:
            settings_or_exit()
        except SystemExit as error:  # its message names each wrong variable and hides passwords
            refusal = str(error).partition(". Correct")[0]
        wrong = Check(_HERE, "settings", "failed", refusal, "correct or unset it; docs/settings.md lists all")
        return [_versions(), wrong], None
    return [_versions(), _names(), *look(settings, kubeconfig)], settings


def look(settings: Settings, kubeconfig: Path | None, clock_seconds: Callable[[], float] = time.time) -> list[Check]:
    """At Redis, the cluster and the operator. `clock_seconds` is this machine's."""
    from tjworker.cli.checks import redis

    of_redis = redis.check(settings, clock_seconds)
    found = [*of_redis, *_cluster(kubeconfig, settings, clock_seconds), *_operator(settings, of_redis)]
    subjects = list(dict.fromkeys(check.subject for check in found))
    return sorted(found, key=lambda check: subjects.index(check.subject))


def _names() -> Check:
    from tjworker.settings import unknown_variables

    if not (unknown := unknown_variables(os.environ)):
        return Check(_HERE, "settings", "ok", "are valid; see below")
    return Check(_HERE, "settings", "warning", "; ".join(unknown.values()), "correct the name, or unset it")


def _versions() -> Check:
    def of(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"{package} (not installed as a package)"

    packages = ("trainingjob-operator", "celery", "kubernetes", "redis", "flower")
    return Check(_HERE, "versions", "ok", ", ".join((f"Python {platform.python_version()}", *map(of, packages))))


def _cluster(kubeconfig: Path | None, settings: Settings, clock_seconds: Callable[[], float]) -> Iterator[Check]:
    from tjworker.api.kinds import served
    from tjworker.cli.checks import cluster as checks
    from tjworker.cli.checks import jobs, operator
    from tjworker.cli.checks import kinds as kind_checks
    from tjworker.kube.rbac import NAMESPACE

    try:
        with open_cluster(kubeconfig) as cluster:
            which = kubeconfig or os.environ.get("KUBECONFIG") or "the default configuration"
            own = settings.leader_namespace or settings.own_namespace or NAMESPACE
            now = datetime.fromtimestamp(clock_seconds(), UTC)
            kinds = served(settings.kind_list)
            gang = settings.gang_scheduler
            found = checks.check(cluster.transport, settings.namespace_list, now, f"{which}", own, kinds, gang)
            yield from found
            # The first check is that of the connection: without it, each further check would wait for the same
            # time-out.
            if found[0].state != "failed":
                yield from kind_checks.check(cluster.api, kinds)
                # A Lease's age is judged by the API server's clock: this machine's may be wrong.
                now = checks.server_now(cluster.transport) or datetime.now(UTC)
                yield operator.leader(cluster.api, settings, now)
                yield from operator.others(cluster.api, settings, now)
                yield from jobs.check(cluster.api, settings.scope, kinds)
    except UserError as error:
        yield checks.SUBJECT.failed("configured", str(error), "set KUBECONFIG, or start a local stack: `tj up`")
    except OperatorError as error:
        yield checks.SUBJECT.failed("answers", error.message, "run `tj doctor` again")


def _operator(settings: Settings, of_redis: Sequence[Check]) -> Iterator[Check]:
    import redis
    from kombu.exceptions import OperationalError

    from tjworker.app import make_app
    from tjworker.cli.checks import operator
    from tjworker.cli.checks.redis import DISK
    from tjworker.store.connect import client, open_store

    # Each of these checks would wait for Redis' time-out, and repeat the first failure in other words.
    if of_redis[0].state == "failed":
        yield operator.SUBJECT.skipped("projection, queue, workers", "Redis does not answer")
        return
    # Without the record keys, which a user need not have: no check reads a record.
    store = open_store(settings.redis_url, settings.key_prefix)
    try:
        yield operator.projection(store.projection)
        yield operator.work_queue(store.queue.stats())
        app = make_app(settings)
        queue = app.conf.task_default_queue
        yield operator.workers(lambda: app.control.inspect(timeout=1.0).active_queues() or {}, queue)
        ask_time = partial(app.control.broadcast, "wall_clock", reply=True, timeout=1.0)
        yield operator.clocks(lambda: ask_time() or (), store.maintenance.time)
        with client(settings.redis_url) as connection:
            yield operator.beat(settings, lambda key: bool(connection.exists(key)))
    except (OperatorError, OperationalError, redis.RedisError, OSError) as error:
        words = " ".join(str(error).split())
        # Redis notices a full disk at the first write that it has to keep, and the checks of Redis make none.
        yield operator.SUBJECT.failed("Redis", words, DISK if "MISCONF" in words else "see the checks of Redis")


def setting_rows(settings: Settings, of_stack: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """(variable, value, where it comes from) of every setting. No passwords."""
    for name in type(settings).model_fields:
        variable = f"TJ_{name.upper()}"
        value = getattr(settings, name)
        source = "local stack" if variable in of_stack else "environment" if variable in os.environ else "default"
        yield variable, _shown(name, value), source


def _shown(name: str, value: Any) -> Any:
    from tjworker.settings import SECRET
    from tjworker.store.errors import describe

    if name == "redis_url":
        return describe(value)
    return "(not shown)" if name in SECRET and value else value


def _as_object(checks: Sequence[Check], rows: Sequence[tuple[str, Any, str]]) -> dict[str, Any]:
    return {
        "ok": good(checks),
        "checks": [dataclasses.asdict(check) | {"subject": str(check.subject)} for check in checks],
        "settings": [{"variable": variable, "value": value, "source": source} for variable, value, source in rows],
    }


def _print_table(checks: Sequence[Check], rows: Sequence[tuple[str, Any, str]]) -> None:
    from tjworker.cli.rows import align

    # One long name must not widen the column of all.
    width = min(max(len(check.name) for check in checks), terminal_width(sys.stdout) // 3)
    subject = ""
    for check in checks:
        if check.subject != subject:
            subject = check.subject
            echo(("" if check is checks[0] else "\n") + subject[:1].upper() + subject[1:])
        word, colour = _MARKS[check.state]
        first, *more = wrapped(f"{'':<6}  {check.name:<{width}}  {check.detail}")
        echo("\n".join([first[6:], *more]), head=f"  {click.style(f'{word:<4}', fg=colour)}")
        if check.advice:
            echo("\n".join(wrapped(f"-> {check.advice}", indent=" " * 10, after="   ")))
    if rows:
        echo("\nSettings")
        table = [(variable, source, "(empty)" if value == "" else str(value)) for variable, value, source in rows]
        echo("\n".join(part for line in align(table) for part in wrapped(f"  {line}")))
    failed, warned = (sum(check.state == state for check in checks) for state in ("failed", "warning"))
    verdict = "everything is in order" if not failed else f"{failed} check{'s' if failed > 1 else ''} failed"
    echo(f"\n{verdict}" + (f", {warned} warning{'s' if warned > 1 else ''}" if warned else ""))
