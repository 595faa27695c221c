"""What one parameter server holds: blocks of parameters and Adam's state for them. Pure; for one thread at a time.

Asynchronous and aware of staleness: a gradient that was computed on parameters `s` updates old moves them by
1/sqrt(1 + s) of a step, so that a trainer that was held up does no harm, and one more trainer does not mean one more
full step in the same direction. A gradient that arrives twice is applied twice: a longer step, no error.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from examples.digits.model import Floats, Parameters

BETA1, BETA2, EPSILON = np.float32(0.9), np.float32(0.99), np.float32(1e-7)


class BadGradient(Exception):
    """A gradient that must not touch the parameters: unknown block, other shape, not a finite number."""


class Store:
    def __init__(self) -> None:
        self.parameters: Parameters = {}
        self._mean: Parameters = {}
        self._square: Parameters = {}
        self.version = 0
        """Updates applied so far."""

    @property
    def empty(self) -> bool:
        return not self.parameters

    def apply(self, gradients: Mapping[str, Floats], *, seen_version: int, learning_rate: float) -> None:
        """One step, all of it or none. Raises BadGradient."""
        for name, gradient in gradients.items():
            if name not in self.parameters:
                raise BadGradient(f"block {name!r} is not held here")
            if gradient.shape != self.parameters[name].shape:
                raise BadGradient(f"block {name!r} has shape {self.parameters[name].shape}, gradient {gradient.shape}")
            if not np.isfinite(gradient).all():
                raise BadGradient(f"gradient of block {name!r} holds numbers that are not finite")
        # Below 0 when this server was restored to an older state than the one that the trainer saw.
        staleness = max(0, self.version - seen_version)
        self.version += 1
        step = np.float32(learning_rate / np.sqrt(1 + staleness))
        mean_bias, square_bias = 1 - BETA1**self.version, 1 - BETA2**self.version
        for name, gradient in gradients.items():
            mean, square = self._mean[name], self._square[name]
            mean += (1 - BETA1) * (gradient - mean)
            square += (1 - BETA2) * (gradient * gradient - square)
            # A new array, so that one that is being sent never changes under way.
            self.parameters[name] = self.parameters[name] - step * (mean / mean_bias) / (
                np.sqrt(square / square_bias) + EPSILON
            )

    def export(self) -> Parameters:
        """Everything, as flat arrays: what `restore` takes."""
        return {
            **{f"p/{name}": array for name, array in self.parameters.items()},
            **{f"m/{name}": array.copy() for name, array in self._mean.items()},
            **{f"s/{name}": array.copy() for name, array in self._square.items()},
        }

    def restore(self, exported: Mapping[str, Floats], version: int) -> None:
        """Takes the place of all that is held. Parameters alone are enough: Adam's state then starts at zero."""
        parts: dict[str, Parameters] = {"p": {}, "m": {}, "s": {}}
        for key, array in exported.items():
            kind, _, name = key.partition("/")
            parts[kind][name] = np.array(array, dtype=np.float32)
        self.parameters = parts["p"]
        self._mean = {name: parts["m"].get(name, np.zeros_like(array)) for name, array in parts["p"].items()}
        self._square = {name: parts["s"].get(name, np.zeros_like(array)) for name, array in parts["p"].items()}
        self.version = version
