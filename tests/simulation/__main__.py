"""`python -m tests.simulation all [--share 0.1] [--row 1] [--processes 2]` and `python -m tests.simulation replay
SEED`: what `make sim-all` and `make sim` call.

The table says for each row how many runs were made, how many came to another end, how often a pod was made that nobody
wanted, how much later than undisturbed the latest was over, and what a scenario cost. Ends with 1 when any run went
wrong; each that did is told with its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import Pool

from tests.simulation.fault import Row, Verdict
from tests.simulation.faults import ROWS
from tests.simulation.quiet import quiet

WORD_SECONDS = 60.0
TOLD = 5
"""Failing runs of one row that are told in full words; the others by their seed."""


@dataclass(frozen=True)
class Done:
    row: int
    run: str
    wrong: tuple[str, ...]
    surplus: int
    late_seconds: float | None
    seconds: float


def play(row: Row, run: str) -> Verdict:
    with quiet():
        return row.play(run)


def _play(task: tuple[int, str]) -> Done:
    number, run = task
    started = time.process_time()
    try:
        verdict = play(ROWS[number], run)
    except Exception as error:  # noqa: BLE001  one run that breaks the simulation is told, the others go on
        verdict = Verdict((f"{type(error).__name__}: {str(error)[:300]}",))
    return Done(number, run, verdict.wrong[:10], verdict.surplus, verdict.late_seconds, time.process_time() - started)


def replay(seed: str) -> int:
    number, _, run = seed.partition("/")
    if not number.isdigit() or int(number) not in ROWS:
        sys.stderr.write(
            f"SEED={seed}: it begins with the number of a row and a slash; rows: {', '.join(map(str, ROWS))}\n"
        )
        return 2
    verdict = play(ROWS[int(number)], run)
    sys.stdout.write(f"{verdict.trace}\n\n" + ("as good as undisturbed\n" if not verdict.wrong else ""))
    sys.stdout.write("".join(f"WRONG: {line}\n" for line in verdict.wrong))
    return 1 if verdict.wrong else 0


def share_of(runs: Sequence[str], share: float) -> Sequence[str]:
    """So many of them, evenly spread; at least one. Of each stretch any one, the same ones each time: every fourth run
    may be of another sort than the others (row 10: a history with a theme), and a quarter must not be of one sort."""
    count = max(1, round(len(runs) * min(1.0, share)))
    ends = [n * len(runs) // count for n in range(count + 1)]
    rng = random.Random(len(runs))
    return [runs[rng.randrange(*stretch)] for stretch in pairwise(ends)] if runs else []


def play_all(rows: Sequence[int], share: float, processes: int) -> int:
    with quiet():
        tasks = [(number, run) for number in rows for run in share_of(ROWS[number].runs(), share)]
    done: dict[int, list[Done]] = defaultdict(list)
    next_word = time.monotonic() + WORD_SECONDS
    with Pool(processes) as pool:
        for count, one in enumerate(pool.imap_unordered(_play, tasks, chunksize=8), start=1):
            done[one.row].append(one)
            if time.monotonic() > next_word:
                sys.stderr.write(f"row {one.row}: {count:,} of {len(tasks):,} runs\n")
                next_word += WORD_SECONDS
            if one.wrong:
                why = f"    {one.wrong[0]}" if sum(bool(d.wrong) for d in done[one.row]) <= TOLD else ""
                sys.stdout.write(f"make sim SEED={ROWS[one.row].seed(one.run)}{why}\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"\n{'row':>3}  {'runs':>7}  {'divergent':>9}  {'surplus':>7}  {'s late':>6}  {'ms a scenario':>13}  what\n"
    )
    for number in rows:
        runs = done[number]
        cost = 1000 * sum(d.seconds for d in runs) / max(1, len(runs))
        divergent, surplus = sum(bool(d.wrong) for d in runs), sum(d.surplus for d in runs)
        lates = [d.late_seconds for d in runs if d.late_seconds is not None]
        late = f"{max(lates):.0f}" if lates else ""
        counts = f"{number:>3}  {len(runs):>7,}  {divergent:>9,}  {surplus:>7,}  {late:>6}  {cost:>13.0f}"
        sys.stdout.write(f"{counts}  {ROWS[number].sentence}\n")
    return 1 if any(d.wrong for runs in done.values() for d in runs) else 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    everything = commands.add_parser("all")
    everything.add_argument("--share", type=float, default=1.0)
    everything.add_argument("--row", type=int, action="append", choices=sorted(ROWS))
    everything.add_argument("--processes", type=int, default=None)
    commands.add_parser("replay").add_argument("seed")
    asked = parser.parse_args(arguments)
    if asked.command == "replay":
        return replay(asked.seed)
    return play_all(asked.row or sorted(ROWS), asked.share, asked.processes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
