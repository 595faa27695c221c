"""Where `make test-compose` and `make test-cluster` cannot run, one line says what is missing and how to get it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cluster import node
from tests.compose import engine

NO_ENGINE = subprocess.CalledProcessError(1, "docker", stderr="Cannot connect to the Docker daemon at unix:///x")
NO_COMPOSE = subprocess.CalledProcessError(1, "docker", stderr="unknown command: docker compose")
ENGINES = {
    "no docker": (FileNotFoundError(), "", "there is no docker: install an engine"),
    "an engine that is stopped": (NO_ENGINE, "", "no container engine answers: start dockerd (Cannot connect"),
    "an old engine": ("19.3.15", "2.40.3", "Docker Engine 19.3.15 is too old: install 20.10 or newer"),
    "no Compose": ("28.2.2", NO_COMPOSE, "docker has no Compose: install the plug-in docker-compose, 2.24 or newer"),
    "an old Compose": ("20.10.24+dfsg1", "2.23.3", "Compose 2.23.3 is too old: install 2.24 or newer"),
}


@pytest.mark.parametrize(("server", "compose", "says"), ENGINES.values(), ids=ENGINES.keys())
def test_an_engine_that_will_not_do(
    server: str | Exception, compose: str | Exception, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*words: str) -> str:
        found = compose if words[0] == "compose" else server
        if isinstance(found, Exception):
            raise found
        return f"{found}\n"

    monkeypatch.setattr(engine, "docker", answer)
    with pytest.raises(engine.NoEngineError) as refused:
        engine.find_engine()
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


def test_an_engine_whose_client_cannot_build_images(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*words: str, environment: object = None) -> str:
        if words[0] != "version":
            raise NO_COMPOSE
        return "28.2.2"

    monkeypatch.setattr(engine, "docker", answer)
    with pytest.raises(engine.NoEngineError, match=r"docker cannot build: install the plug-in docker-buildx, or "):
        engine.find_engine(compose_too=False)


def test_a_full_disk_is_named_before_a_node_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(node, "NEEDED_PLUGINS", ())
    monkeypatch.setattr(node, "_hierarchies", lambda: [Path("/")])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1000, free=120))
    with pytest.raises(node.NoNodeError, match=r"only 12 % of the disk of .* are free, .*: make room, or set TMPDIR"):
        node.check_machine()
