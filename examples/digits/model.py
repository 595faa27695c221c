"""The network: 64 pixels -> 128 rectified units -> 10 digits, softmax. Pure numpy; no state, no I/O.

Parameters are a flat dict of blocks, `w1.0` to `w1.7` and so on: blocks are what parameter servers hold, so one big
matrix is cut into several that can lie on different servers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

PIXELS, HIDDEN, DIGITS = 64, 128, 10
BLOCKS = {"w1": 8, "b1": 2, "w2": 4, "b2": 1}
"""Into how many pieces each matrix is cut, along its first axis."""
SHAPES: dict[str, tuple[int, ...]] = {"w1": (PIXELS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, DIGITS), "b2": (DIGITS,)}

Floats = NDArray[np.float32]
Parameters = dict[str, Floats]


def initial_parameters(seed: int) -> Parameters:
    """He initialisation, in blocks. The same seed gives the same parameters on every machine."""
    rng = np.random.default_rng(seed)
    whole = {
        name: (rng.standard_normal(shape) * np.sqrt(2 / shape[0]) if len(shape) == 2 else np.zeros(shape))
        for name, shape in SHAPES.items()
    }
    return cut({name: array.astype(np.float32) for name, array in whole.items()})


def block_names() -> list[str]:
    return [f"{name}.{number}" for name, count in BLOCKS.items() for number in range(count)]


def cut(whole: Mapping[str, Floats]) -> Parameters:
    """Matrices into blocks; the inverse of `join`."""
    return {
        f"{name}.{number}": piece
        for name, array in whole.items()
        for number, piece in enumerate(np.array_split(array, BLOCKS[name]))
    }


def join(blocks: Mapping[str, Floats]) -> dict[str, Floats]:
    return {name: np.concatenate([blocks[f"{name}.{number}"] for number in range(n)]) for name, n in BLOCKS.items()}


def owner(block: str, servers: int) -> int:
    """The index of the server that holds `block`. By a hash of its name, not Python's own: that one differs between
    processes."""
    return int.from_bytes(hashlib.sha256(block.encode()).digest()[:8]) % servers


def loss_and_gradients(
    blocks: Mapping[str, Floats], pixels: Floats, digits: NDArray[np.uint8]
) -> tuple[float, Parameters]:
    """Mean cross-entropy over the rows, and its gradient for each block. `pixels`: n x 64, 0 to 1; `digits`: n."""
    whole = join(blocks)
    hidden = np.maximum(pixels @ whole["w1"] + whole["b1"], 0)
    probabilities = _softmax(hidden @ whole["w2"] + whole["b2"])
    rows = np.arange(len(digits))
    loss = float(-np.log(np.maximum(probabilities[rows, digits], 1e-12)).mean())
    error = probabilities
    error[rows, digits] -= 1
    error /= len(digits)
    back = (error @ whole["w2"].T) * (hidden > 0)
    return loss, cut({"w1": pixels.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)})


def accuracy(blocks: Mapping[str, Floats], pixels: Floats, digits: NDArray[np.uint8]) -> float:
    """The share of rows whose digit is told right, 0 to 1."""
    whole = join(blocks)
    scores = np.maximum(pixels @ whole["w1"] + whole["b1"], 0) @ whole["w2"] + whole["b2"]
    return float((scores.argmax(1) == digits).mean())


def to_floats(pixels: NDArray[np.uint8]) -> Floats:
    """Grey values 0 to 16, as they are stored and sent, to 0 to 1."""
    return pixels.astype(np.float32) / np.float32(16)


def _softmax(scores: Floats) -> Floats:
    exponentials = np.exp(scores - scores.max(1, keepdims=True))
    probabilities: Floats = exponentials / exponentials.sum(1, keepdims=True)
    return probabilities
