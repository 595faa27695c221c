"""The chart as Helm renders it. Skipped unless TJ_CHART=1 (`make test-chart` builds Helm and sets it)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from charts.build import build, package
from controlplane import ControlPlane, binaries
from controlplane.releases import helm as helm_release
from tests.chart.helm import Helm


def pytest_itemcollected(item: pytest.Item) -> None:
    if os.environ.get("TJ_CHART") != "1":
        item.add_marker(pytest.mark.skip(reason="needs Helm: make test-chart"))


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    folder = tmp_path_factory.mktemp("chart")
    return Helm(binaries.cached_folder(helm_release()) / "helm", package(build(folder), folder), folder)


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        yield running
