"""Simulates what a policy would do with given jobs on a given cluster. Pure.

`simulate` plays a `scenario.Scenario` under one policy and returns a `results.SimulationOutcome`. The policies of
`tjworker.autoscale` decide through `autoscale.decide`, from the records that the projection would hold.
"""

from __future__ import annotations

from collections.abc import Callable

from tjworker.simulate.engine import World
from tjworker.simulate.movers import mover
from tjworker.simulate.results import SimulationOutcome
from tjworker.simulate.scenario import Scenario, ScenarioError

__all__ = ["Scenario", "ScenarioError", "SimulationOutcome", "simulate"]


def simulate(
    scenario: Scenario, policy: str, progress: Callable[[float, int], None] | None = None
) -> SimulationOutcome:
    """The outcome of the scenario. `policy`: a policy of the autoscaler, `off` or `tiresias`; raises ScenarioError for
    any other. `progress(second, jobs done)` is called at each decision."""
    return World(scenario, mover(policy, scenario), policy).play(progress)
