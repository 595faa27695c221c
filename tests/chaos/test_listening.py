"""What Redis is asked is heard, whatever silence comes before: seconds after an outage are measured by it."""

from __future__ import annotations

from benchmarks.support.valkey import Valkey
from tests.chaos.system import listen
from tjworker.store.connect import client


def test_a_command_after_a_silence_is_heard(own_valkey: Valkey) -> None:
    with client(own_valkey.url) as redis:
        for _, command in listen(own_valkey.port, seconds=60, silence_seconds=0.05):
            if "after the silence" in command:
                return
            redis.set("said", "after the silence")
    raise AssertionError("nothing was heard")
