"""Hours of random kills, wipes and restarts under a stream of jobs: each ends as it does undisturbed, and memory, open
files and Redis keys stay flat.

Jobs that have ended are held against the undisturbed and deleted, so that what is there at the end is as much as at the
beginning. Compared are the medians of the first and the last third, of processes that were not killed in between (the
workers' children never are) and of Redis.
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.chaos.system import BEATS, WATCHERS, WORKERS, NotInTimeError, System
from tests.chaos.troubles import told, trouble
from tests.chaos.waves import Wave

LOOK_SECONDS = 10.0
TROUBLE_SECONDS = (20.0, 60.0)
GROWTH = 1.15
"""The last third may have so many times what the first had, or SLACK more."""
SLACK = {"MiB": 15.0, "files": 10.0, "keys": 60.0}
WORD_SECONDS = 600.0
SPARED = (WATCHERS[0], WORKERS[0], BEATS[0])
"""These live through it, so that what they hold can be compared."""
Divergent = Callable[[Wave, Iterable[str]], list[str]]
"""The ends of these jobs of the wave, which have ended: in what they are not those of the undisturbed."""


def soak(system: System, wave: Wave, rng: random.Random, seconds: float, divergent: Divergent) -> int:
    wave.begin()
    system.until("jobs stand", wave.stand, 120)
    stood = wave.standing_uids()
    wave.feed()
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    bad: list[str] = []
    judged, troubles, began = 0, Counter[str](), time.monotonic()
    next_trouble, next_word = began + 30, began + WORD_SECONDS
    while (now := time.monotonic()) < began + seconds:
        time.sleep(LOOK_SECONDS)
        _look(system, samples)
        with suppress(Exception):  # the API server is away: the next look has them
            judged += _judge_and_clear(wave, divergent, bad)
        if now > next_trouble:
            troubles[trouble(system, rng, SPARED)] += 1
            next_trouble = now + rng.uniform(*TROUBLE_SECONDS)
        if now > next_word:
            print(
                f"{now - began:.0f} s: {judged} jobs have ended, {len(bad)} otherwise; {told(troubles)}",
                *bad,
                sep="\n  ",
                flush=True,
            )
            next_word += WORD_SECONDS
    wave.fed()
    try:
        system.until("every job has ended", wave.ended, 180)
        bad += divergent(wave, wave.begun)
        judged += len(wave.begun)
    except NotInTimeError as error:
        bad.append(f"{error}; unfinished: {wave.unfinished_words()}")
    print(f"\n{seconds:.0f} s, {judged} jobs, {len(bad)} of them ended otherwise; {told(troubles)}", *bad, sep="\n  ")
    print("", "| of | what | first third | last third | |", "|---|---|---|---|---|", sep="\n")
    grew = [row for row in sorted(samples) if not _flat(row, samples[row])]
    changed = [pod for pod, uids in wave.standing_uids().items() if uids != stood.get(pod)]
    print(f"\n{len(grew)} grew; pods of standing jobs that changed: {changed or 'none'}")
    for words in (*system.ended_alone, *system.plane_ended):
        print(f"\n{words}")
    return 1 if grew or changed or bad else 0


def _look(system: System, samples: dict[tuple[str, str], list[float]]) -> None:
    leads = None
    with suppress(Exception):
        leads, _ = system.leader()
    for name in SPARED:
        if name in WATCHERS and name != leads:
            continue  # a standby watches nothing: it grows when it comes to lead
        main = system.processes[name].pid
        for who, pids in ((name, [main]), (f"{name} children", system.children(name))):
            with suppress(OSError):
                if pids:
                    samples[who, "MiB"].append(sum(_rss_mib(pid) for pid in pids) / len(pids))
                    samples[who, "files"].append(
                        sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids) / len(pids)
                    )
    with suppress(Exception):
        samples["redis", "keys"].append(float(str(system.redis_command("DBSIZE"))))


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _judge_and_clear(wave: Wave, divergent: Divergent, bad: list[str]) -> int:
    """How many had ended. Their ends are looked at before they are deleted; the newest may not have begun yet."""
    unfinished = wave.unfinished()
    ended = [name for name in list(wave.begun)[:-3] if name not in unfinished]
    bad += divergent(wave, ended)
    for name in ended:
        wave.delete(name)
        del wave.begun[name]
    return len(ended)


def _flat(row: tuple[str, str], values: list[float]) -> bool:
    third = max(1, len(values) // 3)
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    flat = last <= max(first * GROWTH, first + SLACK[row[1]])
    print(f"| {row[0]} | {row[1]} | {first:.0f} | {last:.0f} | {'flat' if flat else '**grows**'} |")
    return flat
