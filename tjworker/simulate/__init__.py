"""Simulates what a policy would do with given jobs on a given cluster. Pure.

`simulate` plays a `scenario.Scenario` under one policy and returns a `results.Outcome`. The policies of
`tjworker.autoscale` decide through `autoscale.decide`, from the records that the projection would hold.
"""

from tjworker.simulate.results import SimulationOutcome
from tjworker.simulate.run import simulate
from tjworker.simulate.scenario import Scenario, ScenarioError

__all__ = ["Scenario", "ScenarioError", "SimulationOutcome", "simulate"]
