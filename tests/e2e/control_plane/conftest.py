"""The real control plane and, on it, the operator: each once a session (once for each xdist worker), on free ports,
gone at the end. Without TJ_REAL=1 (`make test-real` sets it) tests that ask for them are skipped; with it a missing
build fails them. TJ_REAL_KUBERNETES chooses the version, TJ_REAL_ASKED a folder in which each operator leaves what it
has asked the API server for.

Mostly these tests wait, so `make test-real` plays them in several processes at once. A scenario or an example needs
nothing but a world of its own and may go to any; the tests of any other file stay together, those on `stack` in one
process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane import ControlPlane
from controlplane.releases import release
from tests.e2e.control_plane.asked import asked, keep
from tests.e2e.control_plane.operator import Operator
from tests.e2e.control_plane.world import RealWorld
from tests.e2e.stack import LocalStack

ANYWHERE = ("test_scenarios.py", "test_examples.py")
ON_THE_STACK = ("test_training_job.py", "test_kubeflow.py", "test_trainer.py")
MINUTES = {"test_contract": 4, "stack": 3, "test_hostile_objects": 2, "test_demo": 2}
DEFAULT_VERSION = ("", "1.36", "1.36.3")
"""Of TJ_REAL_KUBERNETES, where `tj up` runs, which knows no other."""


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.real)
    if os.environ.get("TJ_REAL") != "1":
        item.add_marker(pytest.mark.skip(reason="needs the real control plane: make test-real"))
    if item.path.name in ANYWHERE:
        item.add_marker(pytest.mark.xdist_group(item.name.partition("[")[2].removesuffix("]")))
        return
    group = "stack" if item.path.name in ON_THE_STACK else item.path.stem
    item.add_marker(pytest.mark.xdist_group(group))
    item.add_marker(pytest.mark.e2e(minutes=MINUTES.get(group, 1)))


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(kubernetes=release(os.environ.get("TJ_REAL_KUBERNETES", ""))) as running:
        yield running
    assert not running.folder.exists(), "a temporary folder goes with it"


@pytest.fixture(scope="session")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    made = Operator(plane, tmp_path_factory.mktemp("operator"))
    try:
        made.start()
        yield made
        made.check()
        if folder := os.environ.get("TJ_REAL_ASKED"):
            keep(asked(made), Path(folder))
    finally:
        made.stop()


@pytest.fixture
def world(operator: Operator) -> Iterator[RealWorld]:
    with RealWorld(operator) as made:
        yield made


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """`tj up` on the real control plane, where pods are real processes. It serves kinds of other operators, too."""
    settings = {name: value for name, value in os.environ.items() if name == "TJ_CACHE_DIR"}
    settings["TJ_KINDS"] = "pytorchjobs.kubeflow.org,mpijobs.kubeflow.org,trainjobs.trainer.kubeflow.org"
    if os.environ.get("TJ_REAL_KUBERNETES", "") not in DEFAULT_VERSION:
        pytest.skip("tj up runs the default version")
    made = LocalStack(tmp_path_factory.mktemp("stack") / "state", "--control-plane", "real", **settings)
    try:
        made.start()
        yield made
    finally:
        made.clear()
