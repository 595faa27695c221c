"""Row 11: the same input gives the same plan, byte for byte: in any order of dicts and lists, under any hash seed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import orjson

from tests.paths import ROOT
from tests.sim.inputs import make_input
from tests.sim.purity import canonical, digest, plain_plan

HASH_SEEDS = ("0", "1", "7", "42", "4294967295")
FIRST_TIER, FULL = 150, 5_000
FOUND = {
    "two roles whose first restarts fell into one pass were written in the order of the hash seed": 265,
}


def digests(hash_seed: str, first: int, count: int) -> list[str]:
    """In a process of its own: a hash seed is fixed when Python starts."""
    numbers = [HASH_SEEDS.index(hash_seed), first, count, *FOUND.values()]
    done = subprocess.run([sys.executable, "-m", "tests.sim.purity", *map(str, numbers)], check=True, cwd=ROOT,
                          env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, timeout=900)
    return done.stdout.splitlines()


def compare(first: int, count: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = dict(zip(HASH_SEEDS, pool.map(lambda h: digests(h, first, count), HASH_SEEDS), strict=True))
    for number, seed in enumerate((*range(first, first + count), *FOUND.values())):
        plan = plain_plan(make_input(seed))
        want = f"{seed} {digest(canonical(plan))} {digest(canonical(plan, orjson.OPT_SORT_KEYS))}"
        for hash_seed, lines in found.items():
            assert lines[number] == want, f"PYTHONHASHSEED={hash_seed} gives another plan for\n{make_input(seed)}"


def test_the_same_input_gives_the_same_plan_byte_for_byte() -> None:
    """And every seed of FOUND too."""
    compare(random.SystemRandom().randrange(2**31), FIRST_TIER)


def test_an_input_is_the_same_for_the_same_seed_and_hardly_ever_for_two() -> None:
    inputs = {str(make_input(seed)).partition("\n")[2] for seed in range(300)}
    assert str(make_input(7)) == str(make_input(7))
    assert len(inputs) > 290
