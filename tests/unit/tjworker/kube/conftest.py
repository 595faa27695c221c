from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.tjworker.kube.http_server import Server, serving, write_kubeconfig
from tjworker.kube.transport import KubeTransport


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as made:
        yield made


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, server.url, "first")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.fixture
def transport(kubeconfig: Path) -> Iterator[KubeTransport]:
    made = KubeTransport()
    yield made
    made.close()
