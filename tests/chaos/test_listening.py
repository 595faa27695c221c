"""What Redis is asked is heard, whatever silence comes before: seconds after an outage are measured by it."""

from __future__ import annotations

import threading

from benchmarks.support.valkey import Valkey
from tests.chaos.system import listen
from tjworker.store.connect import client

SILENCE_SECONDS = 0.05


def test_a_command_after_a_silence_is_heard(own_valkey: Valkey) -> None:
    heard = threading.Event()

    def ask() -> None:
        with client(own_valkey.url) as redis:
            while not heard.wait(3 * SILENCE_SECONDS):
                redis.set("asked", "after the silence")

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        commands = (command for _, command in listen(own_valkey.port, 60, SILENCE_SECONDS))
        assert any("after the silence" in command for command in commands)
        assert any("after the silence" in command for command in commands), "and after the next one"
    finally:
        heard.set()
        asking.join()
