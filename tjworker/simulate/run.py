"""Simulates one scenario under one policy. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tjworker.simulate.engine import World
from tjworker.simulate.movers import mover
from tjworker.simulate.results import SimulationOutcome
from tjworker.simulate.scenario import Scenario


def simulate(
    scenario: Scenario, policy: str, progress: Callable[[float, int], None] | None = None
) -> SimulationOutcome:
    """The outcome of the scenario. `policy`: a policy of the autoscaler, `off` or `tiresias`; raises ScenarioError for
    any other. `progress(second, jobs done)` is called at each decision."""
    return World(scenario, mover(policy, scenario), policy).play(progress)
