"""The real control plane and, on it, the operator: each once a session (once for each xdist worker), on free ports,
gone at the end. Without TJ_REAL=1 (`make test-real` sets it) tests that ask for them are skipped; with it a missing
build fails them. TJ_REAL_KUBERNETES chooses the version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import ControlPlane
from controlplane.releases import release
from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)
            if os.environ.get("TJ_REAL") != "1":
                item.add_marker(pytest.mark.skip(reason="needs the real control plane: make test-real"))
    items.sort(key=lambda item: item.path == HERE / "test_rights.py")  # over all that the others have asked for


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(kubernetes=release(os.environ.get("TJ_REAL_KUBERNETES", ""))) as running:
        yield running


@pytest.fixture(scope="session")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    made = Operator(plane, tmp_path_factory.mktemp("operator"))
    try:
        made.start()
        yield made
        made.check()
    finally:
        made.stop()


@pytest.fixture
def world(operator: Operator) -> Iterator[RealWorld]:
    with RealWorld(operator) as made:
        yield made
