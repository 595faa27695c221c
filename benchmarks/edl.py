"""`python -m benchmarks.edl`: the published EDL experiment (PaddlePaddle cloud, `doc/edl/experiment`, 2017) again, in
simulated time: compares a policy with the published means.

Two constants are not in the report and are fitted to its case 1 without autoscaling: the monitor's clock starts 54 s
before the first submission (from the mean utilisation), and jobs are counted until 75 s after the 300 s that follow the
last one (from the mean pending time). Everything else is the report's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from tjworker.simulate import Scenario, SimulationOutcome, simulate
from tjworker.simulate.scenario import Amounts, SimulatedJob, SimulatedNode, SimulatedService

GI = 1 << 30
NODES = tuple(SimulatedNode(f"node-{i:03}", Amounts(17_654, 64 * GI), used=Amounts(380)) for i in range(133))
"""2,348 CPUs, 2.15 % of them taken by the system."""
FIXED_ROLES = {"master": (1, Amounts(1000, GI)), "pserver": (10, Amounts(4000, 5 * GI))}
TRAINER = Amounts(5000, 8 * GI)
CASE_1_BEGINS, CASE_1_ENDS = 54.0, 54.0 + 190 + 300 + 75
CASE_2_ENDS = 700.0
SERVICE_STEPS = ((0, 400), (116, 300), (208, 200), (300, 100), (393, 200), (486, 300), (579, 400))

FIGURES = (
    "pending per job, s",
    "CPU utilisation to 550 s, %",
    "utilisation 350 to 550 s, %",
    "utilisation 300 to 370 s, %",
    "Jain's index of trainers at 410 s",
    "jobs pending at 300 s",
    "service pods missing 30 s after the last two steps, %",
)
PUBLISHED = {
    (1, "on"): (47.2, 76.33, 86.35, 86.3, 0.44, 1.5, 0),
    (1, "off"): (308.5, 76.16, 88.66, 88.66, 0.30, 14, 0),
    (2, "on"): (58.6, 83.42, 86.67, 79.35, 0.85, 0.5, 20),
    (2, "off"): (1.5, 61.86, 58.03, 44.91, 1.0, 0, 0),
}
"""Means of 10 passes. Pending times are those of the raw logs: the published means (42.9, 280.5, 53.6) divide by 11.
`jobs pending` of 0 to 3 is given as its middle."""


def scenario(case: int, *, elastic: bool) -> Scenario:
    count, begins, apart = (20, CASE_1_BEGINS, 10.0) if case == 1 else (6, 35.0, 5.0)
    fixed = 60 if case == 1 else 15
    least, most, replicas = (2, 60, 2) if elastic else (fixed, fixed, fixed)
    jobs = tuple(
        SimulatedJob(
            f"job-{i:02}", begins + apart * i, TRAINER, least, most, replicas, needs=1, fixed_roles=FIXED_ROLES
        )
        for i in range(count)
    )
    service = SimulatedService("web", Amounts(3000, 3 * GI), SERVICE_STEPS, priority=1000)
    return Scenario(
        NODES,
        jobs,
        () if case == 1 else (service,),
        until=CASE_1_ENDS if case == 1 else CASE_2_ENDS,
        start_seconds=1.5,
        cooldown_seconds=0,
        preempts=False,  # Kubernetes did not preempt then
    )


def figures(case: int, outcome: SimulationOutcome) -> tuple[float, ...]:
    missing = [missing_at(outcome, step + 30) / pods for step, pods in SERVICE_STEPS[-2:]] if case == 2 else [0.0]
    # A job without a replica counts as pending until the end.
    ends = outcome.ended_at
    pending = [
        (job.submitted_at, ends if job.first_replica_at is None else job.first_replica_at)
        for job in outcome.jobs
        if job.submitted_at <= ends
    ]
    return (
        mean(until - since for since, until in pending),
        100 * outcome.utilisation(0, 550),
        100 * outcome.utilisation(350, 550),
        100 * outcome.utilisation(300, 370),
        outcome.jain(410),
        sum(since <= 300 < until for since, until in pending),
        100 * mean(missing),
    )


def missing_at(outcome: SimulationOutcome, second: float) -> int:
    """The number of pods that services lacked at that second."""
    return [sample.missing for sample in outcome.samples if sample.at <= second][-1]


def play(case: int, policy: str) -> SimulationOutcome:
    return simulate(scenario(case, elastic=policy != "off"), policy)


def replay(case: int, policy: str) -> tuple[float, ...]:
    return figures(case, play(case, policy))


def plot(folder: Path, policies: Sequence[str]) -> None:
    from tjworker.cli.simulationplot import draw

    for case in (1, 2):
        draw([play(case, policy) for policy in policies], folder / f"edl-{case}.png")
        print(folder / f"edl-{case}.png")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.edl", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--policy", action="append", help="policy to compare with `off` (default: fulfillment); may be repeated"
    )
    parser.add_argument("--plot", type=Path, metavar="DIR", help="draw DIR/edl-1.png and edl-2.png; needs matplotlib")
    options = parser.parse_args(arguments)
    policies = options.policy or ["fulfillment"]
    if options.plot is not None:
        plot(options.plot, ["off", *policies])
        return 0
    for case in (1, 2):
        print(f"Case {case}\n\n| | off, published | off | on, published | {' | '.join(policies)} |")
        print(f"|---|{'---|' * (3 + len(policies))}")
        columns = [PUBLISHED[case, "off"], replay(case, "off"), PUBLISHED[case, "on"]]
        columns += [replay(case, policy) for policy in policies]
        for i, figure in enumerate(FIGURES):
            print(f"| {figure} | {' | '.join(f'{column[i]:.4g}' for column in columns)} |")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
