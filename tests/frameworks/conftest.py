"""Each framework trains, on a whole local stack. Without TJ_FRAMEWORKS=1 (`make test-frameworks` sets it) these tests
are skipped; with it, one whose framework is not installed says what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.frameworks.training import Training


def pytest_itemcollected(item: pytest.Item) -> None:
    if os.environ.get("TJ_FRAMEWORKS") != "1":
        item.add_marker(pytest.mark.skip(reason="trains with real frameworks: make test-frameworks"))


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    made = Training(tmp_path_factory.mktemp("frameworks"))
    try:
        made.start()
        yield made
    finally:
        made.clear()
