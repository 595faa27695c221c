"""`python -m examples.checkpoints.train`: learns digits in one process, and writes a checkpoint after each epoch.

A checkpoint is one file, written beside its place and renamed into it: there is always a whole one or none. Started
again on the same folder it goes on where it was, and ends with the same weights as a run that nobody disturbed. Ends
with 0 once all epochs are done.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from examples.digits import data

FILE = "softmax.npz"
Floats = NDArray[np.float64]
RATE, ROWS = 0.5, 100
CLASSES = 10


def load(folder: Path) -> tuple[int, Floats]:
    """The epochs that are done, and the weights after them."""
    try:
        with np.load(folder / FILE) as found:
            return int(found["epoch"]), found["weights"]
    except FileNotFoundError:
        return 0, np.zeros((65, CLASSES))


def save(folder: Path, epoch: int, weights: Floats) -> None:
    beside = folder / f".{FILE}.new"
    with beside.open("wb") as file:
        np.savez(file, epoch=epoch, weights=weights)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / FILE)


def one_epoch(epoch: int, weights: Floats, pixels: Floats, digits: NDArray[np.uint8]) -> tuple[Floats, float]:
    """The weights after it, and its mean loss. The order of the rows depends on the epoch alone."""
    order, loss = np.random.default_rng(epoch).permutation(len(digits)), 0.0
    for start in range(0, len(order), ROWS):
        rows = order[start : start + ROWS]
        scores = pixels[rows] @ weights
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        loss -= float(np.log(odds[np.arange(len(rows)), digits[rows]]).sum())
        odds[np.arange(len(rows)), digits[rows]] -= 1
        weights = weights - RATE / len(rows) * pixels[rows].T @ odds
    return weights, loss / len(order)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--checkpoints", type=Path, required=True, metavar="DIR")
    parser.add_argument("--epoch-seconds", type=float, default=0.5, help="how long an epoch takes at least")
    options = parser.parse_args()
    train, test = data.load()
    pixels, unseen = (np.hstack([part.pixels / 16, np.ones((len(part.digits), 1))]) for part in (train, test))
    done, weights = load(options.checkpoints)
    print(f"goes on after epoch {done}" if done else "begins", flush=True)
    for epoch in range(done + 1, options.epochs + 1):
        began = time.monotonic()
        weights, loss = one_epoch(epoch, weights, pixels, train.digits)
        save(options.checkpoints, epoch, weights)
        print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
        time.sleep(max(0.0, options.epoch_seconds - (time.monotonic() - began)))
    right = float((np.argmax(unseen @ weights, axis=1) == test.digits).mean())
    print(f"accuracy {right:.3f}, weights {float(np.abs(weights).sum()):.6f}", flush=True)


if __name__ == "__main__":
    main()
