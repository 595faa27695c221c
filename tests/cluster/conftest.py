"""A real node, and the operator beside it, once a session. Skipped unless TJ_CLUSTER=1 (`make test-cluster` sets it),
and with one line where this machine cannot run a node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from controlplane import ControlPlane, binaries
from controlplane.releases import kubelet
from tests.cluster.cluster import Cluster
from tests.cluster.installation import Installation
from tests.cluster.node import Node, NoNodeError, check_machine

LAST = Path(__file__).with_name("test_installation.py")


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.xdist_group("node"))
    if os.environ.get("TJ_CLUSTER") != "1":
        item.add_marker(pytest.mark.skip(reason="needs a kubelet, containerd and root: make test-cluster"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The installation comes last: its images are built and brought to its node while the other tests wait."""
    items.sort(key=lambda item: item.path == LAST)


@pytest.fixture(scope="session")
def first_node() -> Future[Node]:
    """Once it is Ready."""
    return Future()


@pytest.fixture(scope="session")
def building(first_node: Future[Node], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[Installation]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(Installation(tmp_path_factory.mktemp("installation")).build, first_node)


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, first_node: Future[Node], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    try:
        check_machine()
    except NoNodeError as lacking:
        pytest.skip(str(lacking))
    if any(item.path == LAST for item in request.session.items):
        request.getfixturevalue("building")
    made = Cluster(binaries.cached_folder(kubelet()), tmp_path_factory.mktemp("node"))
    try:
        made.start()
        first_node.set_result(made.nodes[0])
        yield made
    finally:
        first_node.cancel()
        made.stop()


@pytest.fixture(scope="session")
def plane(cluster: Cluster) -> ControlPlane:
    return cluster.plane
