from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.valkey import free_port
from tests.support.postgresql import binaries, running_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    if binaries() is None:
        pytest.skip("no PostgreSQL on this machine: apt-get install postgresql")
    with running_postgresql(free_port()) as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'history.db'}"
