"""A real node, and the operator beside it, once a session. Skipped unless TJ_CLUSTER=1 (`make test-cluster` sets it),
and with one line where this machine cannot run a node."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from controlplane import ControlPlane, binaries
from controlplane.releases import kubelet
from tests.cluster.cluster import Cluster
from tests.cluster.installation import Installation
from tests.cluster.node import NoNodeError, check_machine


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.xdist_group("node"))
    if os.environ.get("TJ_CLUSTER") != "1":
        item.add_marker(pytest.mark.skip(reason="needs a kubelet, containerd and root: make test-cluster"))


@pytest.fixture(scope="session")
def building(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[Installation]]:
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(Installation(tmp_path_factory.mktemp("installation")).build)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        check_machine()
    except NoNodeError as lacking:
        pytest.skip(str(lacking))
    if any("building" in getattr(item, "fixturenames", ()) for item in request.session.items):
        # The images are built while the node starts and while the tests before the installation wait.
        request.getfixturevalue("building")
    made = Cluster(binaries.cached(kubelet()), tmp_path_factory.mktemp("node"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def plane(cluster: Cluster) -> ControlPlane:
    return cluster.plane
