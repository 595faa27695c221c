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
    from collections.abc import Mapping, Sequence

    from tjworker.simulate import Scenario, SimulationOutcome
    from tjworker.simulate.live import LiveCluster

    Json = dict[str, Any]

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
@click.option("--from-cluster", is_flag=True, help="Begin with the jobs, pods and nodes of the live cluster.")
@click.option("--until", type=click.FloatRange(1), help="With --from-cluster: how many seconds are simulated (3600).")
@click.option("--no-progress", is_flag=True, help="Jobs report their speed, but not how far they have come.")
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
    until: float | None,
    no_progress: bool,
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
    from dataclasses import replace

    from tjworker.simulate import ScenarioError
    from tjworker.simulate.movers import mover

    of_trace = (models, nodes, gpus, jobs) != (None, None, None, None)
    _check_usage(scenario, trace, from_cluster, plot, of_trace, until)
    if no_progress and from_cluster:
        raise click.UsageError("--no-progress belongs to SCENARIO or --trace; live jobs report what they report")
    chosen = tuple(dict.fromkeys(policies)) or ("fulfillment",)
    if plot is not None:
        _need_plots()
    now: dict[str, list[Json]] = {}
    try:
        if from_cluster:
            played, now = _of_cluster(chosen, until, namespace)
        elif trace is not None:
            played = _of_trace(Path(trace), models, nodes or 16, gpus or 4, jobs, period or 60.0)
        else:
            played = _of_file(Path(scenario or ""), period)
        played = replace(played, reports_progress=not no_progress)
        for policy in chosen:
            mover(policy, played)  # report a wrong name before minutes of simulation
        outcomes = [_play(played, policy) for policy in chosen]
    except ScenarioError as error:
        raise UserError(str(error)) from None
    if output == "json":
        results = {o.policy: o.to_json() | ({"now": now[o.policy]} if from_cluster else {}) for o in outcomes}
        echo(json.dumps({"policies": results}, indent=2))
    else:
        _next_moves(now)
        _table(outcomes)
    if plot is not None:
        from tjworker.cli.simulationplot import draw

        draw(outcomes, Path(plot))
        echo(f"drawn: {plot}", err=True)
    return 0


def _check_usage(
    scenario: str | None, trace: str | None, from_cluster: bool, plot: str | None, of_trace: bool, until: float | None
) -> None:
    """`of_trace`: an option that belongs to --trace is given."""
    if (scenario is not None) + (trace is not None) + from_cluster != 1:
        raise click.UsageError("name one of SCENARIO, --trace FILE and --from-cluster")
    if of_trace and trace is None:
        raise click.UsageError("--models, --nodes, --gpus and --jobs belong to --trace")
    if plot is not None and Path(plot).suffix not in (".svg", ".png"):
        raise click.UsageError(f"--plot {plot}: the name has to end with .svg or .png")
    if plot is not None and not Path(plot).absolute().parent.is_dir():
        raise click.UsageError(f"--plot {plot}: there is no folder {Path(plot).parent}")
    if until is not None and not from_cluster:
        raise click.UsageError("--until belongs to --from-cluster; a scenario has its own `until`")


# -- input ---------------------------------------------------------------------------------------------
def _of_trace(path: Path, models: str | None, nodes: int, gpus: int, most: int | None, period: float) -> Scenario:
    from tjworker.simulate.scenario import Amounts, Scenario, SimulatedNode
    from tjworker.simulate.traces import read_trace

    cluster = [SimulatedNode(f"node-{i}", Amounts(64_000, 1 << 38, gpus)) for i in range(nodes)]
    found = read_trace(path, cluster, None if models is None else Path(models))
    _complain(found.complaints)
    # As in Pollux' simulation: pods start and stop at once, and a job's `rescale` is all the time that a change takes.
    return Scenario(cluster, found.jobs[:most], tick_seconds=period, start_seconds=0, stop_seconds=0, placement="pack")


def _of_file(path: Path, period: float | None) -> Scenario:
    from dataclasses import replace

    from tjworker.cli.strictyaml import NotYaml, read_documents
    from tjworker.simulate import ScenarioError
    from tjworker.simulate.scenariofile import read_scenario

    try:
        documents = read_documents(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no text; a scenario is YAML in UTF-8") from None
    except (OSError, NotYaml) as error:
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
def _play(scenario: Scenario, policy: str) -> SimulationOutcome:
    """With a bar on a terminal's stderr."""
    import sys

    from tjworker.simulate import simulate as play

    if not sys.stderr.isatty():
        return play(scenario, policy)
    # A simulation without `until` ends at an unknown time, so the bar counts the jobs that are done.
    length = len(scenario.jobs) if scenario.until is None else round(scenario.until)
    with click.progressbar(length=length, label=policy, file=sys.stderr) as bar:

        def advance(second: float, done: int) -> None:
            bar.update((done if scenario.until is None else round(second)) - bar.pos)

        return play(scenario, policy, advance)


COLUMNS = ("POLICY", "WAITING", "COMPLETION", "P95", "DONE", "UTILISATION", "JAIN", "MOVES", "PAUSES", "RESTARTS")


def _table(outcomes: Sequence[SimulationOutcome]) -> None:
    rows: list[tuple[str, ...]] = [COLUMNS]
    for outcome in outcomes:
        result = outcome.to_json()
        rows.append(
            (
                outcome.policy,
                _seconds(result["waiting_seconds"]["mean"]),
                _seconds(result["completion_seconds"]["mean"]),
                _seconds(result["completion_seconds"]["p95"]),
                f"{result['jobs_done']}/{result['jobs_total']}",
                f"{result['utilisation']:.1%}",
                f"{result['jain']:.2f}",
                *(str(result[name]) for name in ("moves", "pauses", "restarts")),
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
def _of_cluster(
    policies: Sequence[str], until: float | None, namespace: str | None
) -> tuple[Scenario, dict[str, list[Json]]]:
    """The scenario that begins now, and what each policy would do in its next run."""
    from tjworker.cli.describe import environment_rules
    from tjworker.simulate.live import UNTIL_SECONDS, check_policy, decide_once, live_scenario

    for policy in policies:
        check_policy(policy)
    live, rules = _observe(), environment_rules()
    now: dict[str, list[Json]] = {}
    for policy in policies:
        decision = decide_once(live, policy, rules)
        now[policy] = [
            {"job": str(m.state.job.key), "role": m.role, "from": m.from_, "to": m.to, "reason": m.reason}
            for m in decision.moves
            if namespace in (None, m.state.job.name.namespace)
        ]
    found, assumed = live_scenario(live, rules, until or UNTIL_SECONDS)
    if not found.nodes:
        raise UserError("the cluster has no node that is ready and schedulable")
    if not found.jobs:
        raise UserError("the cluster has no job with a role that the autoscaler scales (edlPolicy Auto, min < max)")
    for line in assumed:
        complain(f"tj: {line}")
    return found, now


def _observe() -> LiveCluster:
    from datetime import UTC, datetime

    from tjworker.api.kinds import parse
    from tjworker.api.model import TrainingJob
    from tjworker.api.resources import NODES, PODS
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.jobs import list_jobs
    from tjworker.cli.room import room, state_of
    from tjworker.simulate.live import LiveCluster

    with user_cluster() as cluster:
        found = room(cluster.api.list_all(NODES), cluster.api.list_all(PODS))
        models = [parse(one.resource, one.raw) for one in list_jobs(cluster.api, "")]
    states = [state_of(job, found) for job in models if isinstance(job, TrainingJob) and job.autoscaled]
    alive = [state for state in states if state.alive]
    return LiveCluster(alive, found.nodes, found.requests, found.waiting, datetime.now(UTC).timestamp())


def _next_moves(now: Mapping[str, Sequence[Json]]) -> None:
    for policy, moves in now.items():
        echo(f"{policy}, next run: {len(moves) or 'no'} move{'' if len(moves) == 1 else 's'}")
        for move in moves:
            echo(f"  {move['job']} {move['role']} {move['from']} -> {move['to']}: {move['reason']}")
    if now:
        echo("")
