"""The data: 1,797 handwritten digits of 8 x 8 pixels (UCI, as scikit-learn ships them). For the master alone.

Reads a file that is part of scikit-learn; never the network. Deterministic: the same seed gives the same split and the
same shards, so that a restarted master hands out what the first one would have.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SPLIT_SEED = 7
TEST_SHARE = 0.2

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Digits:
    pixels: Bytes
    """n x 64, 0 to 16."""
    digits: Bytes


def load() -> tuple[Digits, Digits]:
    """The training set and the test set. No trainer ever sees a row of the second."""
    pixels, digits = _rows()
    is_test = _stratified(digits)
    return Digits(pixels[~is_test], digits[~is_test]), Digits(pixels[is_test], digits[is_test])


def _rows() -> tuple[Bytes, Bytes]:
    """Of the file itself: importing scikit-learn takes a second of CPU, at each start of a master."""
    package = importlib.util.find_spec("sklearn")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.exists():
            table = np.loadtxt(file, delimiter=",").astype(np.uint8)
            return table[:, :-1], table[:, -1]
    from sklearn.datasets import load_digits  # another version keeps it elsewhere

    raw = load_digits()
    return raw.data.astype(np.uint8), raw.target.astype(np.uint8)


def _stratified(digits: Bytes) -> NDArray[np.bool_]:
    """True for the rows of the test set: the same share of each digit."""
    rng = np.random.default_rng(SPLIT_SEED)
    chosen = np.zeros(len(digits), dtype=np.bool_)
    for digit in np.unique(digits):
        rows = np.flatnonzero(digits == digit)
        chosen[rng.permutation(rows)[: round(len(rows) * TEST_SHARE)]] = True
    return chosen


def shard_count(rows: int, shard_rows: int) -> int:
    return -(-rows // shard_rows)


def shard(data: Digits, *, seed: int, epoch: int, number: int, shard_rows: int) -> Digits:
    """The rows of one shard. Every epoch deals the rows anew: no two shards are the same, and each row is in one."""
    order = np.random.default_rng([seed, epoch]).permutation(len(data.digits))
    rows = order[number * shard_rows : (number + 1) * shard_rows]
    return Digits(data.pixels[rows], data.digits[rows])
