"""Every manifest in examples/ once more: real processes, the real control plane, the shipped RBAC."""

from __future__ import annotations

import pytest

from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.example_scenarios import EXAMPLES


@pytest.mark.parametrize("sentence", EXAMPLES)
def test_example(sentence: str, world: RealWorld) -> None:
    EXAMPLES[sentence](world)
