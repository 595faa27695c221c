"""A real node, and the operator beside it, once a session. Skipped unless TJ_CLUSTER=1 (`make test-cluster` sets it),
and with one line where this machine cannot run a node."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from controlplane import ControlPlane, binaries
from controlplane.releases import kubelet
from tests.cluster.cluster import Cluster
from tests.cluster.node import NoNodeError, check_machine


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.xdist_group("node"))
    if os.environ.get("TJ_CLUSTER") != "1":
        item.add_marker(pytest.mark.skip(reason="needs a kubelet, containerd and root: make test-cluster"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        check_machine()
    except NoNodeError as lacking:
        pytest.skip(str(lacking))
    made = Cluster(binaries.cached(kubelet()), tmp_path_factory.mktemp("node"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def plane(cluster: Cluster) -> ControlPlane:
    return cluster.plane
