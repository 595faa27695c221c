"""The Redis of a local stack keeps what was queued, and shows no password."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from benchmarks.support.valkey import free_port
from tests.support.waiting import until
from tjstack import probes, redis_server
from tjstack.paths import StatePaths


def appended(paths: StatePaths) -> bytes:
    return b"".join(path.read_bytes() for path in paths.redis_data.rglob("*.aof"))


def test_it_keeps_what_was_written_over_kill_9_and_restart_in_a_folder_with_blanks(tmp_path: Path) -> None:
    port = free_port()
    paths = StatePaths(tmp_path / 'my "state" folder')
    paths.redis_data.mkdir(parents=True)
    urls, config = redis_server.configure(paths, port, "tj"), paths.redis_config
    assert stat.S_IMODE(config.stat().st_mode) == 0o600, "it holds the passwords"
    ready = probes.redis_answers(urls.operator)
    assert not ready()
    for start in (1, 2):
        server = subprocess.Popen([str(redis_server.find_binary()), str(config)], stdout=subprocess.DEVNULL)
        try:
            until("Redis answers", ready)
            with redis.Redis.from_url(urls.operator) as client:
                if start == 1:
                    client.set("tj:kept", "yes")
                    until("it is on the disk", lambda: b"tj:kept" in appended(paths))
                else:
                    assert client.get("tj:kept") == b"yes"
            with redis.Redis.from_url(urls.tasks) as tasks:
                assert tasks.ping()
                with pytest.raises(redis.ResponseError, match=r"(?i)no permissions"):
                    tasks.get("tj:kept")
            with (
                redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as stranger,
                pytest.raises(redis.AuthenticationError),
            ):
                stranger.ping()
        finally:
            server.kill()
            server.wait()
