"""What the model sees and what it catches, in random histories (row 10 of the simulation):

    python -m tests.model coverage                  # of 200 histories: how often each rule had something to judge
    python -m tests.model bugs                      # each seeded bug in BITES: how many of 200 histories are flagged
    python -m tests.model bugs ended-pods-hold-gpus --histories 1000

A bug is put into a copy of the tree. Exits 1 when a rule was never reached, a history of the clean tree was flagged, or
a bug was flagged in none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

from tests.model.rules import RULES
from tests.mutation.bugs import apply, read_bugs
from tests.mutation.tree import copy_tree, environment
from tests.simulation.faults.histories import lived
from tests.simulation.histories import make_history
from tests.simulation.quiet import quiet

FIRST = 1_000_000
"""Histories that no row plays."""


def _play(seed: int) -> tuple[int, tuple[str, ...], Counter[str], Counter[str]]:
    try:
        with quiet():
            _, said = lived(make_history(seed))
    except Exception as error:  # noqa: BLE001  the operator, or the world, breaks on it
        return seed, (f"breaks: {type(error).__name__}",), Counter(), Counter({"the history breaks off": 1})
    return seed, said.wrong, said.reached, said.broken


def _histories(first: int, count: int, processes: int) -> dict[str, object]:
    """As JSON has it: how often each rule was reached, in how many histories it was broken, and which were flagged."""
    cases, seen, broken, flagged = Counter[str](), Counter[str](), Counter[str](), {}
    with Pool(processes) as pool:
        for seed, wrong, reached, wrongly in pool.imap_unordered(_play, range(first, first + count), chunksize=4):
            cases.update(reached)
            seen.update({rule for rule, number in reached.items() if number})
            broken.update({rule for rule, number in wrongly.items() if number})
            if wrong:
                flagged[str(seed)] = wrong[0]
    return {"cases": cases, "seen": seen, "broken": broken, "flagged": flagged}


def _coverage(first: int, count: int, processes: int) -> int:
    told = _histories(first, count, processes)
    cases, seen, flagged = told["cases"], told["seen"], told["flagged"]
    assert isinstance(cases, Counter)
    assert isinstance(seen, Counter)
    assert isinstance(flagged, dict)
    print(f"| rule | histories of {count} | cases |\n|---|---|---|")
    for rule in RULES:
        print(f"| {rule} | {seen[rule]} | {cases[rule]:,} |")
    for seed, why in sorted(flagged.items()):
        print(f"flagged: make sim SEED=10/{seed}    {why}")
    return 1 if flagged or any(not seen[rule] for rule in RULES) else 0


def _bugs(names: Sequence[str], first: int, count: int, processes: int) -> int:
    known, missed = read_bugs(), []
    print(f"| bug | histories of {count} flagged | the rule that is broken most often |\n|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory(prefix="tj-model-") as folder:
            tree = copy_tree(Path(folder))
            if trouble := apply(known[name], tree):
                raise SystemExit(f"{name} cannot be put in: {trouble}")
            told = _in(tree, first, count, processes)
        flagged, broken = told["flagged"], Counter(told["broken"])
        missed += [] if flagged else [name]
        rule = broken.most_common(1)[0][0] if broken else ""
        print(f"| {known[name].sentence} | {len(flagged)} | {rule} |", flush=True)
    if missed:
        print(f"flagged in none: {', '.join(missed)}")
    return 1 if missed else 0


def _in(tree: Path, first: int, count: int, processes: int) -> dict[str, dict[str, int]]:
    arguments = ["histories", "--first", str(first), "--histories", str(count), "--processes", str(processes)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.model", *arguments],
        cwd=tree,
        env=environment(tree),
        check=True,
        capture_output=True,
        text=True,
    )
    told: dict[str, dict[str, int]] = json.loads(done.stdout)
    return told


BITES = (
    "no-policy-restarts",
    "two-deletions-fail-a-job",
    "timers-are-dropped",
    "deadline-runs-while-suspended",
    "ended-pods-hold-gpus",
    "transition-moves-with-the-reason",
    "empty-role-keeps-a-job-from-failing",
    "gpu-fault-before-it-runs",
    "server-restarts-are-the-most",
    "end-waits-for-a-strangers-service",
)
"""What the model must catch in 200 histories."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("coverage", "bugs", "histories"))
    parser.add_argument("names", nargs="*", help="of bugs in tests/mutation/bugs")
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--first", type=int, default=FIRST, help="the seed of the first history")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    how = given.first, given.histories, given.processes
    if given.command == "bugs":
        return _bugs(given.names or BITES, *how)
    if given.command == "coverage":
        return _coverage(*how)
    print(json.dumps(_histories(*how)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
