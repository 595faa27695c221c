"""Tiny scenarios whose course can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tjworker.api.progress import Progress
from tjworker.autoscale import POLICIES
from tjworker.autoscale.problem import Problem, ScalePlan
from tjworker.simulate import Scenario, SimulationOutcome, simulate
from tjworker.simulate.scenario import (
    Amounts,
    NodeEvent,
    Placement,
    Rigid,
    SimulatedJob,
    SimulatedNode,
    SimulatedService,
)
from tjworker.simulate.speed import LINEAR, Layout, Rate, Table

ONE = Amounts(1000)
TWO_NODES = (SimulatedNode("a", Amounts(4000, 1 << 34)), SimulatedNode("b", Amounts(4000, 1 << 34)))
QUICK = {"tick_seconds": 10.0, "start_seconds": 0.0, "stop_seconds": 0.0, "max_load_desired": 1.0}


def rigid(name: str, at: float, replicas: int, work: float, **more: object) -> SimulatedJob:
    return SimulatedJob(name, at, ONE, replicas, replicas, replicas, work, **more)  # type: ignore[arg-type]


def elastic(name: str, at: float, least: int, most: int, work: float | None, **more: object) -> SimulatedJob:
    return SimulatedJob(name, at, ONE, least, most, least, work, **more)  # type: ignore[arg-type]


@dataclass
class Case:
    jobs: tuple[SimulatedJob, ...]
    want_ended: Mapping[str, float | None]
    policy: str = "off"
    options: Mapping[str, object] = field(default_factory=dict)
    want_moves: int = 0
    want_restarts: int = 0


CASES = {
    "and after 10 s with four": Case((rigid("x", 5, 4, 40),), {"x": 15}),
    "a table says how fast four are": Case((rigid("x", 0, 4, 40, speed=Table(((1, 1.0), (4, 2.0)))),), {"x": 20}),
    "pods take time to start": Case((rigid("x", 0, 4, 40),), {"x": 13}, options={"start_seconds": 3.0}),
    "a job stands still before it begins, and after each change": Case(
        (rigid("x", 0, 4, 40, rescale_seconds=30),), {"x": 40}
    ),
    "a second job waits for the end of the first, where there is no room": Case(
        (rigid("x", 0, 8, 80), rigid("y", 1, 8, 80)), {"x": 10, "y": 20}
    ),
    "a job that is not elastic waits until all of its replicas have a node": Case(
        (rigid("x", 0, 4, 40), rigid("y", 0, 6, 60)), {"x": 10, "y": 20}
    ),
    "the autoscaler's own policy fills the cluster at its first run": Case(
        (elastic("x", 0, 1, 8, 80),), {"x": 10}, policy="fulfillment", want_moves=1
    ),
    "a job grows when another has ended": Case(
        # Until 12 s both have 4 replicas; the tick of 20 s gives x the other 4: 20 * 4 + 8 * 10.
        (elastic("x", 0, 4, 8, 160), rigid("y", 0, 4, 48)),
        {"x": 30, "y": 12},
        policy="fulfillment",
        want_moves=1,
    ),
    "without preemption it waits": Case(
        (rigid("x", 0, 8, 80),),
        {"x": 10},
        options={"services": (SimulatedService("web", ONE, ((4, 1), (9, 0)), 10),), "preempts": False},
    ),
    "replicas of a lost node wait until it is back": Case(
        (rigid("x", 0, 8, 80),),
        {"x": 16},  # 4 s, then nothing until 10 s
        options={"events": (NodeEvent(4, "a", up=False), NodeEvent(10, "a", up=True))},
        want_restarts=4,
    ),
    "a job whose work has no end is cut off where the simulation ends": Case(
        (elastic("x", 0, 1, 8, None),), {"x": None}, options={"until": 25.0}
    ),
    "fixed pods beside the trainers have to run as well": Case(
        (rigid("x", 0, 7, 70, fixed_roles={"server": (1, ONE)}), rigid("y", 0, 1, 3)), {"x": 10, "y": 13}
    ),
    "without a gang it holds what it has": Case(
        (rigid("x", 0, 6, 60), elastic("y", 0, 4, 6, 40), rigid("z", 1, 2, 10)), {"x": 10, "y": 20, "z": 15}
    ),
}


def play(case: Case) -> SimulationOutcome:
    return simulate(Scenario(TWO_NODES, case.jobs, **{**QUICK, **case.options}), case.policy)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_a_scenario_goes_as_worked_out_by_hand(name: str) -> None:
    case = CASES[name]
    outcome = play(case)
    ended = {job.name: None if job.ended_at is None else round(job.ended_at, 6) for job in outcome.jobs}
    assert ended == case.want_ended
    assert sum(job.moves for job in outcome.jobs) == case.want_moves
    assert sum(job.restarts for job in outcome.jobs) == case.want_restarts


@pytest.mark.parametrize("name", CASES)
def test_the_same_scenario_has_the_same_course(name: str) -> None:
    assert play(CASES[name]).to_json() == play(CASES[name]).to_json()


class Together:
    """Fast on one node, slow on several."""

    def rate(self, layout: Layout, done: float) -> Rate:
        return Rate(10.0 if len(layout) == 1 else 1.0, 1.0)


@pytest.mark.parametrize(("placement", "ended"), [("pack", 4.0), ("spread", 40.0)])
def test_a_scheduler_that_packs_puts_a_job_on_one_node_and_kubernetes_default_spreads_it(
    placement: Placement, ended: float
) -> None:
    scenario = Scenario(TWO_NODES, (rigid("x", 0, 4, 40, speed=Together()),), placement=placement, **QUICK)  # type: ignore[arg-type]
    assert simulate(scenario, "off").jobs[0].ended_at == ended


def test_tiresias_prefers_jobs_with_little_service() -> None:
    """x has had its 16 GPU-hours after 8 hours on 2 GPUs; at the next tick y takes them."""
    gpus = Amounts(1000, gpus=1)
    jobs = [
        replace(rigid(name, at, 2, hours * 2 * 3600), asks=gpus, rigid=Rigid(2, LINEAR))
        for name, at, hours in (("x", 0, 10), ("y", 3600, 1))
    ]
    scenario = Scenario((SimulatedNode("a", Amounts(4000, gpus=2)),), jobs, **{**QUICK, "tick_seconds": 600.0})  # type: ignore[arg-type]
    outcome = simulate(scenario, "tiresias")
    assert {job.name: job.ended_at for job in outcome.jobs} == {"x": 11 * 3600, "y": 9 * 3600}


def test_a_policy_sees_reports_and_nothing_else_of_the_true_speed() -> None:
    from tjworker.simulate.engine import World
    from tjworker.simulate.movers import Autoscaled

    scenario = Scenario(TWO_NODES, (elastic("x", 0, 2, 8, 1000, speed=Table(((2, 3.0), (8, 9.0)))),), **QUICK)  # type: ignore[arg-type]
    seen = []

    class Watching(Autoscaled):
        def targets(self, world: World, now: float) -> Mapping[str, int]:
            found = super().targets(world, now)
            progress = self._jobs["x"].progress
            seen.append((now, [] if progress is None else [(s.replicas, s.nodes, s.rate) for s in progress.samples]))
            return found

    World(scenario, Watching("fulfillment", scenario), "fulfillment").play()
    assert seen[0] == (0.0, [(2, 2, 3.0)])
    assert seen[2] == (20.0, [(2, 2, 3.0), (8, 2, 9.0)])


def test_a_job_that_runs_already_stands_where_it_is_and_does_not_stand_still() -> None:
    """20 units of work at two a second; without `standing` it would stand still for 30 s first, on the first node."""
    nodes = [SimulatedNode(name, Amounts(8000, 1 << 34)) for name in ("a", "b")]
    stands = SimulatedJob("job", 0, Amounts(1000), 2, 2, 2, 20.0, rescale_seconds=30, running={"trainer": ("b", "b")})
    lost = NodeEvent(5, "a", up=False)
    outcome = simulate(Scenario(nodes, [stands], events=[lost]), "off")
    assert (outcome.jobs[0].started_at, outcome.jobs[0].ended_at) == (0, 10)
    assert outcome.jobs[0].restarts == 0


class Quickens:
    """One unit a second for the first 25, then two."""

    def rate(self, layout: Layout, done: float) -> Rate:
        return Rate(1.0, 1.0, until=25.0) if done < 25 else Rate(2.0, 2.0)


def test_a_speed_that_changes_between_two_decisions_counts_from_where_it_changes() -> None:
    """Decisions come at 0, 10, 20 and 30 s. 25 s for the first 25 units, 15 s for the other 30."""
    outcome = simulate(Scenario(TWO_NODES, [rigid("a", 0, 1, 55, speed=Quickens())], **QUICK), "off")  # type: ignore[arg-type]
    assert outcome.jobs[0].ended_at == 40


@pytest.mark.parametrize("reports_progress", [True, False])
def test_without_progress_the_policy_sees_speeds_alone(reports_progress: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Progress] = []
    works = POLICIES["fulfillment"]

    def plan(problem: Problem) -> ScalePlan:
        seen.extend(role.progress for role in problem.roles if role.progress is not None)
        return works.plan(problem)

    monkeypatch.setitem(POLICIES, "fulfillment", replace(works, plan=plan))
    jobs = [elastic("a", 0, 2, 3, 100)]
    scenario = Scenario(TWO_NODES, jobs, until=31, cooldown_seconds=0, reports_progress=reports_progress, **QUICK)  # type: ignore[arg-type]
    simulate(scenario, "fulfillment")
    newest = seen[-1]
    assert [sample.replicas for sample in newest.samples] == [2, 3]
    assert (newest.percentage is not None, newest.remaining_seconds is not None) == (reports_progress,) * 2
