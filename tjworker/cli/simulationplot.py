"""The picture of a simulation: utilisation, replicas of each job, when each job waited and ran, and the distribution of
completion times. Needs matplotlib, which the operator itself does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tjworker.simulate import SimulationOutcome

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""The palette of Okabe and Ito, which colour-blind readers can distinguish."""
WAITS = "#BBBBBB"
MOST_LABELS = 24


def draw(outcomes: Sequence[SimulationOutcome], path: Path) -> None:
    """`path` ends with .svg or .png. The same outcomes give the same file."""
    import matplotlib as mpl

    # Agg needs no display.
    mpl.use("Agg")
    # Without a salt the ids in an SVG are random, and equal outcomes would give different files.
    mpl.rcParams["svg.hashsalt"] = "tj"
    from matplotlib import pyplot as plt

    columns = len(outcomes)
    ended = any(outcome.completion_seconds() for outcome in outcomes)
    rows = 4 if ended else 3
    figure, axes = plt.subplots(
        rows, columns, figsize=(6.5 * columns, 3.25 * rows), squeeze=False, sharey="row", constrained_layout=True
    )
    for i, outcome in enumerate(outcomes):
        _utilisation(axes[0][i], outcome)
        _replicas(axes[1][i], outcome)
        _gantt(axes[2][i], outcome)
        if ended:
            _completions(axes[3][i], outcomes, i)
    for axis in axes[:, 1:].flat:
        axis.set_ylabel("")  # as in the first column
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None}, dpi=110)
    plt.close(figure)


def _utilisation(axis: Any, outcome: SimulationOutcome) -> None:
    total = outcome.gpu_total if outcome.by_gpu else outcome.cpu_total_milli
    times = [s.at / 60 for s in outcome.samples]
    parts = [100 * (s.gpus if outcome.by_gpu else s.cpu_milli) / total for s in outcome.samples]
    axis.step(times, parts, where="post", color=COLOURS[0], linewidth=1)
    axis.fill_between(times, parts, step="post", color=COLOURS[0], alpha=0.2)
    what = "GPUs" if outcome.by_gpu else "CPUs"
    axis.set(title=f"{outcome.policy}: {what} in use, mean {outcome.utilisation():.0%}", ylim=(0, 105), ylabel="%")
    axis.set_xlim(0, outcome.ended_at / 60)


def _replicas(axis: Any, outcome: SimulationOutcome) -> None:
    """One area on the other."""
    times = sorted({t for job in outcome.jobs for t, _ in job.replicas} | {0.0, outcome.ended_at})
    stacks = [[job.at(t) for t in times] for job in outcome.jobs]
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(stacks))]
    axis.stackplot([t / 60 for t in times], stacks, step="post", colors=colours, edgecolor="white", linewidth=0.2)
    axis.set(title="replicas of each job", ylabel="replicas", xlim=(0, outcome.ended_at / 60))


def _gantt(axis: Any, outcome: SimulationOutcome) -> None:
    for i, job in enumerate(outcome.jobs):
        end = outcome.ended_at if job.ended_at is None else job.ended_at
        start = end if job.started_at is None else job.started_at
        axis.broken_barh([(job.submitted_at / 60, (start - job.submitted_at) / 60)], (i - 0.4, 0.8), color=WAITS)
        axis.broken_barh([(start / 60, (end - start) / 60)], (i - 0.4, 0.8), color=COLOURS[i % len(COLOURS)])
    axis.set(title="jobs: grey waits, colour trains", xlabel="minutes", xlim=(0, outcome.ended_at / 60))
    axis.set_ylim(len(outcome.jobs) - 0.5, -0.5)
    if len(outcome.jobs) <= MOST_LABELS:
        size = 10 if len(outcome.jobs) <= MOST_LABELS / 2 else 8
        axis.set_yticks(range(len(outcome.jobs)), [job.name for job in outcome.jobs], fontsize=size)


def _completions(axis: Any, outcomes: Sequence[SimulationOutcome], mine: int) -> None:
    """All policies in every column, the column's own in front."""
    for i, outcome in enumerate(outcomes):
        ordered = [seconds / 60 for seconds in sorted(outcome.completion_seconds())]
        parts = [100 * (n + 1) / len(ordered) for n in range(len(ordered))]
        own = i == mine
        axis.step(
            [0.0, *ordered],
            [0.0, *parts],
            where="post",
            color=COLOURS[i % len(COLOURS)],
            linewidth=2 if own else 1,
            alpha=1 if own else 0.5,
            label=outcome.policy,
        )
    end = max(seconds for outcome in outcomes for seconds in outcome.completion_seconds()) / 60
    axis.set(title="completed within", xlabel="minutes after submission", ylabel="% of jobs", ylim=(0, 105))
    axis.set_xlim(0, 1.02 * end)
    axis.legend(loc="lower right")
