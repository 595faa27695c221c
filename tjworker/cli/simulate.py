"""`tj simulate`: what the autoscaler's policies would do, in simulated time or with the cluster as it is. Changes
nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tjworker.cli.console import complain, echo
from tjworker.cli.errors import UserError
from tjworker.cli.options import in_namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tjworker.simulate import Outcome, Scenario

SHOWN_COMPLAINTS = 10


@click.command(short_help="Show what autoscaling policies would do, in simulated time.")
@click.argument("scenario", required=False, type=click.Path(dir_okay=False))
@click.option("--trace", type=click.Path(dir_okay=False), help="Jobs from a CSV file (docs/elasticity.md).")
@click.option("--models", type=click.Path(file_okay=False), help="With a trace of Pollux: the folder of its traces/.")
@click.option("--nodes", type=click.IntRange(1, 10_000), help="With --trace: how many nodes (16).")
@click.option("--gpus", type=click.IntRange(1, 64), help="With --trace: GPUs of each node (4).")
@click.option("--jobs", type=click.IntRange(1), help="With --trace: the first N jobs alone.")
@click.option("--period", type=click.FloatRange(1), help="Seconds between two decisions (a trace: 60).")
@click.option("--policy", "policies", multiple=True, help="A policy, off or tiresias; may be repeated (fulfillment).")
@click.option("--from-cluster", is_flag=True, help="What each policy would do now with the jobs of the live cluster.")
@click.option("--plot", type=click.Path(dir_okay=False), help="Draw the result: FILE.svg or FILE.png.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the result.")
@in_namespace
def simulate(  # noqa: PLR0913, PLR0917  each option is a parameter of click's
    scenario: str | None,
    trace: str | None,
    models: str | None,
    nodes: int | None,
    gpus: int | None,
    jobs: int | None,
    period: float | None,
    policies: tuple[str, ...],
    from_cluster: bool,
    plot: str | None,
    output: str,
    namespace: str | None,
) -> int:
    """Play the jobs of SCENARIO (YAML) or of a trace under one or more policies, and compare them. The policies decide
    with the code that runs in production. The same input gives the same result.

    \b
    tj simulate examples/simulation/scenario.yaml --policy off --policy fulfillment --plot run.svg
    tj simulate --trace jobs.csv --nodes 16 --gpus 4 -o json
    tj simulate --from-cluster
    """
    from tjworker.simulate import ScenarioError

    if (scenario is not None) + (trace is not None) + from_cluster != 1:
        raise click.UsageError("name one of SCENARIO, --trace FILE and --from-cluster")
    if trace is None and (models, nodes, gpus, jobs) != (None, None, None, None):
        raise click.UsageError("--models, --nodes, --gpus and --jobs belong to --trace")
    if plot is not None and Path(plot).suffix not in (".svg", ".png"):
        raise click.UsageError(f"--plot {plot}: the name has to end with .svg or .png")
    chosen = tuple(dict.fromkeys(policies)) or ("fulfillment",)
    try:
        if from_cluster:
            return _decide_now(chosen, output, namespace)
        if plot is not None:
            _need_plots()
        if trace is not None:
            played = _of_trace(Path(trace), models, nodes or 16, gpus or 4, jobs, period or 60.0)
        else:
            played = _of_file(Path(scenario or ""), period)
        outcomes = [_play(played, policy) for policy in chosen]
    except ScenarioError as error:
        raise UserError(str(error)) from None
    if output == "json":
        echo(json.dumps({"policies": {outcome.policy: outcome.to_json() for outcome in outcomes}}, indent=2))
    else:
        _table(outcomes)
    if plot is not None:
        from tjworker.cli.simulationplot import draw

        draw(outcomes, Path(plot))
        echo(f"drawn: {plot}", err=True)
    return 0


# -- input ---------------------------------------------------------------------------------------------
def _of_trace(path: Path, models: str | None, nodes: int, gpus: int, most: int | None, period: float) -> Scenario:
    from tjworker.simulate.scenario import Amounts, Node, Scenario
    from tjworker.simulate.traces import read_trace

    cluster = [Node(f"node-{i}", Amounts(64_000, 1 << 38, gpus)) for i in range(nodes)]
    found = read_trace(path, cluster, None if models is None else Path(models))
    _complain(found.complaints)
    # As in Pollux' simulation: pods come and go at once, and a job's `rescale` stands for all that takes time.
    return Scenario(cluster, found.jobs[:most], tick_seconds=period, start_seconds=0, stop_seconds=0, placement="pack")


def _of_file(path: Path, period: float | None) -> Scenario:
    from dataclasses import replace

    from tjworker.cli.strictyaml import NotYaml, read_documents
    from tjworker.simulate import ScenarioError
    from tjworker.simulate.scenariofile import read_scenario

    try:
        documents = read_documents(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, NotYaml) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(documents) != 1:
        raise UserError(f"{path}: has {len(documents)} documents; a scenario is one")
    try:
        found, complaints = read_scenario(documents[0][1])
    except ScenarioError as error:
        raise UserError(f"{path}: {error}") from None
    _complain([f"{path.name}: {line}" for line in complaints])
    return found if period is None else replace(found, tick_seconds=period)


def _complain(lines: Sequence[str]) -> None:
    for line in lines[:SHOWN_COMPLAINTS]:
        complain(f"tj: {line}")
    if len(lines) > SHOWN_COMPLAINTS:
        complain(f"tj: {len(lines) - SHOWN_COMPLAINTS} more rows are alike")


# -- playing -------------------------------------------------------------------------------------------
def _play(scenario: Scenario, policy: str) -> Outcome:
    """With a bar on a terminal's stderr."""
    import sys

    from tjworker.simulate import simulate as play

    if not sys.stderr.isatty():
        return play(scenario, policy)
    with click.progressbar(length=len(scenario.jobs), label=policy, file=sys.stderr) as bar:
        seen = 0

        def advance(_second: float, done: int) -> None:
            nonlocal seen
            bar.update(done - seen)
            seen = done

        return play(scenario, policy, advance)


COLUMNS = ("POLICY", "WAITING", "COMPLETION", "P95", "DONE", "UTILISATION", "JAIN", "MOVES", "PAUSES", "RESTARTS")


def _table(outcomes: Sequence[Outcome]) -> None:
    rows: list[tuple[str, ...]] = [COLUMNS]
    for outcome in outcomes:
        told = outcome.to_json()
        rows.append(
            (
                outcome.policy,
                _seconds(told["waiting_seconds"]["mean"]),
                _seconds(told["completion_seconds"]["mean"]),
                _seconds(told["completion_seconds"]["p95"]),
                f"{told['jobs_done']}/{told['jobs_total']}",
                f"{told['utilisation']:.1%}",
                f"{told['jain']:.2f}",
                *(str(told[name]) for name in ("moves", "pauses", "restarts")),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    for row in rows:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} s"


def _need_plots() -> None:
    """Before minutes of simulation, not after them."""
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise UserError("--plot needs matplotlib, which is not installed: pip install 'trainingjob-operator[plots]'")


# -- the live cluster ----------------------------------------------------------------------------------
def _decide_now(policies: Sequence[str], output: str, namespace: str | None) -> int:
    from datetime import UTC, datetime

    from tjworker.api.kinds import parse
    from tjworker.api.model import TrainingJob
    from tjworker.api.resources import NODES, PODS
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.describe import environment_rules
    from tjworker.cli.jobs import list_all, list_jobs
    from tjworker.cli.room import room, state_of
    from tjworker.simulate.live import decide_once

    with user_cluster() as cluster:
        found = room(list_all(cluster.api, NODES, ""), list_all(cluster.api, PODS, ""))
        models = [parse(one.resource, one.raw) for one in list_jobs(cluster.api, "")]
    states = [state_of(job, found) for job in models if isinstance(job, TrainingJob) and job.autoscaled]
    now = datetime.now(UTC).timestamp()
    told: dict[str, Any] = {}
    for policy in policies:
        decision = decide_once(policy, states, found.nodes, found.requests, now, environment_rules(), found.waiting)
        told[policy] = [
            {"job": str(m.state.job.key), "role": m.role, "from": m.from_, "to": m.to, "reason": m.reason}
            for m in decision.moves
            if namespace in (None, m.state.job.name.namespace)
        ]
    if output == "json":
        echo(json.dumps({"policies": {policy: {"moves": moves} for policy, moves in told.items()}}, indent=2))
        return 0
    for policy, moves in told.items():
        echo(f"{policy}: {len(moves) or 'no'} move{'' if len(moves) == 1 else 's'}")
        for move in moves:
            echo(f"  {move['job']} {move['role']} {move['from']} -> {move['to']}: {move['reason']}")
    return 0
