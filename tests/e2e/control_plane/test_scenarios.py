"""All of `tests.scenarios.scenarios` once more: real processes, the real control plane, the shipped RBAC."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.scenarios import SCENARIOS

ALIKE = ("(TopologyAffinityError)", "(OutOfcpu)")
"""What the played kubelet says as it turns a pod away: here one reason is enough, in virtual time all are played."""


@pytest.mark.parametrize("sentence", [one for one in SCENARIOS if not any(reason in one for reason in ALIKE)])
def test_scenario(sentence: str, world: RealWorld) -> None:
    SCENARIOS[sentence](world)
