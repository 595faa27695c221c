"""Row 11. The same input gives the same plan, byte for byte: with dicts and lists in any order, under five hash seeds.

A run is a hundred arbitrary inputs (`inputs.py`), each in five processes: a hash seed is fixed when Python starts. The
sample of `make test` has fewer, in two processes beside its own: most of its time was their imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import orjson

from tests.simulation.fault import Row, Verdict
from tests.simulation.inputs import make_input
from tests.simulation.purity import canonical, digest, plain_plan
from tests.support.paths import ROOT

HASH_SEEDS = ("0", "1", "7", "42", "4294967295")
INPUTS, A_RUN = 5_000, 100
FOUND: Mapping[str, int] = {
    "two roles whose first restarts fell into one pass were written in the order of the hash seed": 265
}


def _digests(hash_seed: str, first: int, count: int) -> list[str]:
    numbers = [HASH_SEEDS.index(hash_seed), first, count, *FOUND.values()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.purity", *map(str, numbers)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.stdout.splitlines()


def play(run: str) -> Verdict:
    """`<first seed>-<how many>`, and every seed of FOUND too."""
    first, count = map(int, run.split("-"))
    seeds = HASH_SEEDS if count >= A_RUN else HASH_SEEDS[:2]
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(seeds, pool.map(lambda h: _digests(h, first, count), seeds), strict=True))
    wrong, trace = [], []
    for number, seed in enumerate((*range(first, first + count), *FOUND.values())):
        plan = plain_plan(make_input(seed))
        want = f"{seed} {digest(canonical(plan))} {digest(canonical(plan, orjson.OPT_SORT_KEYS))}"
        differing = [hash_seed for hash_seed, lines in found.items() if lines[number] != want]
        if differing:
            wrong.append(f"input {seed}: another plan under PYTHONHASHSEED={', '.join(differing)}")
            trace.append(str(make_input(seed)))
    return Verdict(tuple(wrong), trace="\n".join(trace))


ROW = Row(
    11,
    "plans are pure: any order of dicts and lists, five hash seeds, 100 inputs a run",
    lambda: [f"{first}-{A_RUN}" for first in range(0, INPUTS, A_RUN)],
    {"inputs": lambda: ["500000-40"]},
    play,
)
