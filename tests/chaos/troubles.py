"""What befalls the operator at random, one thing after another, in a soak and beside random histories."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Collection

from tests.chaos.system import BEATS, WATCHERS, WORKERS, System

TROUBLES = ("kill", "kill", "kill a child", "wipe redis", "restart redis", "restart the api server")


def trouble(system: System, rng: random.Random, spared: Collection[str] = ()) -> str:
    """One of them, what it was. Mended when it returns, but for what a supervisor starts again."""
    what = rng.choice(TROUBLES)
    if what == "kill":
        system.kill(rng.choice([name for name in (*WATCHERS, *WORKERS, *BEATS) if name not in spared]))
    elif what == "kill a child":
        system.kill_child(WORKERS[1], rng.choice)
    elif what == "wipe redis":
        system.redis_command("FLUSHALL")
    elif what == "restart redis":
        system.redis.kill()
        time.sleep(rng.uniform(0.2, 3))
        system.redis.start()
    else:
        system.kill_api_server()
        time.sleep(rng.uniform(1, 4))
        system.start_api_server()
    return what


def told(troubles: Counter[str]) -> str:
    return ", ".join(f"{count} x {what}" for what, count in sorted(troubles.items())) or "no trouble yet"
