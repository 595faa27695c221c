"""The Secrets of an MPIJob: how the executor makes them, and that it needs to read none."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from tests.unit.tjworker.execution.executing import Room, count, refusal
from tjworker.api.resources import SECRETS
from tjworker.execution.secret_content import secret_content
from tjworker.reconcile.plan import Create

BODY = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}}
WRITE = Create(SECRETS, "a", BODY, holds="ssh-key")


def test_one_that_is_there_already_is_as_good_as_made_and_is_not_looked_at() -> None:
    room = Room()
    room.api.instead["POST secrets"] = refusal(409, "AlreadyExists")
    outcome = room.apply(WRITE)
    assert (count(outcome, "created"), outcome.create_error) == (1, None)
    assert [asked for asked in room.api.asked if "secrets" in asked] == ["POST secrets"]


def test_one_that_may_not_be_made_is_told_of() -> None:
    room = Room()
    room.api.instead["POST secrets"] = refusal(403, "Forbidden")
    refused = room.apply(WRITE).create_error
    assert refused is not None
    assert refused.status == 403


def test_each_key_is_another() -> None:
    assert secret_content("ssh-key") != secret_content("ssh-key")
    assert secret_content("agent-key") != secret_content("agent-key")


def test_openssh_reads_the_key(tmp_path: Path) -> None:
    data = {name: base64.b64decode(value) for name, value in secret_content("ssh-key")["data"].items()}
    key = tmp_path / "id_rsa"
    key.touch(0o600)
    key.write_bytes(data["ssh-privatekey"])
    try:
        public = subprocess.run(["ssh-keygen", "-y", "-f", str(key)], capture_output=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("there is no ssh-keygen on this machine")
    assert public == data["ssh-publickey"]
