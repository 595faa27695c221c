"""What the model sees and what it catches, in random histories (row 10 of the simulation):

    python -m tests.model coverage                  # of 200 histories: how often each rule had something to judge
    python -m tests.model bugs                      # each seeded bug in BITES: how many of 200 histories are flagged
    python -m tests.model bugs ended-pods-hold-gpus --histories 1000

A bug is put into a copy of the tree. Exits 1 when a rule was never reached, a history of the clean tree was flagged, or
a bug was flagged in fewer than five: what is caught once or twice is caught by chance.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Sequence
from multiprocessing import Pool
from pathlib import Path

from tests.model.rules import RULES
from tests.mutation.bugs import apply, read_bugs
from tests.mutation.tree import copy_tree, environment
from tests.simulation.faults.histories import lived
from tests.simulation.histories import make_history
from tests.simulation.quiet import quiet

FIRST, HISTORIES = 1_000_000, 200
"""Histories that no row plays."""
LEAST = 5
"""In so many of them each bug in BITES is flagged."""


def _play(seed: int) -> tuple[int, tuple[str, ...], Counter[str], Counter[str]]:
    try:
        with quiet():
            _, said = lived(make_history(seed))
    except Exception as error:  # noqa: BLE001  the operator, or the world, breaks on it
        return seed, (f"breaks: {type(error).__name__}",), Counter(), Counter({"the history breaks off": 1})
    return seed, said.wrong, said.reached, said.broken


def _histories(seeds: Collection[int], processes: int) -> dict[str, object]:
    """As JSON has it: how often each rule was reached, in how many histories it was broken, and which were flagged."""
    cases, seen, broken, flagged = Counter[str](), Counter[str](), Counter[str](), {}
    with Pool(processes) as pool:
        for seed, wrong, reached, wrongly in pool.imap_unordered(_play, seeds, chunksize=4):
            cases.update(reached)
            seen.update({rule for rule, number in reached.items() if number})
            broken.update({rule for rule, number in wrongly.items() if number})
            if wrong:
                flagged[str(seed)] = wrong[0]
    return {"cases": cases, "seen": seen, "broken": broken, "flagged": flagged}


def _coverage(seeds: Collection[int], processes: int) -> int:
    told = _histories(seeds, processes)
    cases, seen, flagged = told["cases"], told["seen"], told["flagged"]
    assert isinstance(cases, Counter)
    assert isinstance(seen, Counter)
    assert isinstance(flagged, dict)
    print(f"| rule | histories of {len(seeds)} | cases |\n|---|---|---|")
    for rule in RULES:
        print(f"| {rule} | {seen[rule]} | {cases[rule]:,} |")
    for seed, why in sorted(flagged.items()):
        print(f"flagged: make sim SEED=10/{seed}    {why}")
    return 1 if flagged or any(not seen[rule] for rule in RULES) else 0


def _bugs(names: Sequence[str], seeds: range, processes: int) -> int:
    known, missed = read_bugs(), []
    print(f"| bug | histories of {len(seeds)} flagged | the rule that is broken most often |\n|---|---|---|")
    for name in names:
        told = _with_bug(name, seeds, processes)
        flagged, broken = told["flagged"], Counter(told["broken"])
        missed += [] if len(flagged) >= LEAST else [name]
        rule = broken.most_common(1)[0][0] if broken else ""
        print(f"| {known[name].sentence} | {len(flagged)} | {rule} |", flush=True)
    if missed:
        print(f"flagged in fewer than {LEAST}: {', '.join(missed)}")
    return 1 if missed else 0


def _with_bug(name: str, seeds: range, processes: int = 1) -> dict[str, dict[str, int]]:
    """What `histories` says of a copy of the tree with this bug."""
    arguments = ["--first", str(seeds.start), "--histories", str(len(seeds))]
    with tempfile.TemporaryDirectory(prefix="tj-model-") as folder:
        tree = copy_tree(Path(folder))
        if trouble := apply(read_bugs()[name], tree):
            raise SystemExit(f"{name} cannot be put in: {trouble}")
        done = subprocess.run(
            [sys.executable, "-m", "tests.model", "histories", *arguments, "--processes", str(processes)],
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
"""What the model must catch, each in LEAST of 200 histories."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("coverage", "bugs", "histories"))
    parser.add_argument("names", nargs="*", help="of bugs in tests/mutation/bugs")
    parser.add_argument("--histories", type=int, default=HISTORIES)
    parser.add_argument("--first", type=int, default=FIRST, help="the seed of the first history")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    seeds = range(given.first, given.first + given.histories)
    if given.command == "bugs":
        return _bugs(given.names or BITES, seeds, given.processes)
    if given.command == "coverage":
        return _coverage(seeds, given.processes)
    print(json.dumps(_histories(seeds, given.processes)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
