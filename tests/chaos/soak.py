"""Hours of random kills, wipes and restarts under a stream of jobs: memory, open files and Redis keys must stay flat.

Ended jobs are deleted as they go, so that what is there at the end is as much as at the beginning. Compared are the medians of
the first and the last third, of processes that nobody has killed in between (the workers' children are killed by nobody) and of
Redis.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from tests.chaos.lives import Wave
from tests.chaos.system import BEATS, WATCHERS, WORKERS, System

LOOK_SECONDS = 10.0
TROUBLE_SECONDS = (20.0, 60.0)
GROWTH = 1.15
"""The last third may have so many times what the first had, or SLACK more."""
SLACK = {"MiB": 15.0, "files": 10.0, "keys": 60.0}
SPARED = (WATCHERS[0], WORKERS[0], BEATS[0])
"""These live through it, so that what they hold can be compared."""


def soak(system: System, wave: Wave, rng: random.Random, seconds: float) -> int:
    wave.begin()
    system.until("jobs stand", wave.stand, 120)
    stood = wave.standing_uids()
    wave.feed()
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    end, next_trouble, troubles = time.monotonic() + seconds, time.monotonic() + 30, 0
    while time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
        _look(system, samples)
        _clear_ended(wave)
        if time.monotonic() > next_trouble:
            _trouble(system, rng)
            troubles += 1
            next_trouble = time.monotonic() + rng.uniform(*TROUBLE_SECONDS)
    wave.fed()
    system.until("every job has ended", wave.ended, 180)
    print(f"\n{seconds:.0f} s, {troubles} troubles", "", "| of | what | first third | last third | |", "|---|---|---|---|---|",
          sep="\n")
    grew = [row for row in sorted(samples) if not _flat(row, samples[row])]
    changed = [pod for pod, uids in wave.standing_uids().items() if uids != stood.get(pod)]
    print(f"\n{len(grew)} grew; pods of standing jobs that changed: {changed or 'none'}")
    for words in system.ended_alone:
        print(f"\n{words}")
    return 1 if grew or changed else 0


def _trouble(system: System, rng: random.Random) -> None:
    victims = [name for name in (*WATCHERS, *WORKERS, *BEATS) if name not in SPARED]
    what = rng.choice(["kill", "kill", "child", "wipe", "restart"])
    if what == "kill":
        system.kill(rng.choice(victims))
    elif what == "child":
        system.kill_child(WORKERS[1], rng.choice)
    elif what == "wipe":
        system.redis_command("FLUSHALL")
    else:
        system.redis.kill()
        time.sleep(rng.uniform(0.2, 3))
        system.redis.start()


def _look(system: System, samples: dict[tuple[str, str], list[float]]) -> None:
    for name in SPARED:
        main = system.processes[name].pid
        for who, pids in ((name, [main]), (f"{name} children", system.children(name))):
            with suppress(OSError):
                if pids:
                    samples[who, "MiB"].append(sum(_rss_mib(pid) for pid in pids) / len(pids))
                    samples[who, "files"].append(sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids) / len(pids))
    with suppress(Exception):
        samples["redis", "keys"].append(float(str(system.redis_command("DBSIZE"))))


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _clear_ended(wave: Wave) -> None:
    """All but the newest: those may not have begun yet."""
    unfinished = wave.unfinished()
    for name in [name for name in list(wave.begun)[:-3] if name not in unfinished]:
        with suppress(Exception):
            wave.delete(name)
            del wave.begun[name]


def _flat(row: tuple[str, str], values: list[float]) -> bool:
    third = max(1, len(values) // 3)
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    flat = last <= max(first * GROWTH, first + SLACK[row[1]])
    print(f"| {row[0]} | {row[1]} | {first:.0f} | {last:.0f} | {'flat' if flat else '**grows**'} |")
    return flat
