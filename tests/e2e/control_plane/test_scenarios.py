"""All of `tests.scenarios.scenarios` once more: real processes, the real control plane, the shipped RBAC."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.scenarios import SCENARIOS


@pytest.mark.parametrize("sentence", SCENARIOS)
def test_scenario(sentence: str, world: RealWorld) -> None:
    SCENARIOS[sentence](world)
