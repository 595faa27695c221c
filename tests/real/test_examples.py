"""Every manifest in examples/ once more: real processes, the real control plane, the shipped RBAC."""

from __future__ import annotations

import pytest

from tests.lives.example_lives import EXAMPLES
from tests.real.world import RealWorld


@pytest.mark.parametrize("sentence", EXAMPLES)
def test_example(sentence: str, world: RealWorld) -> None:
    EXAMPLES[sentence](world)
