"""A room for pods that are real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster_tests.unit.kubelet.room import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.kubelet.shutdown(0.0)
