"""How fast a job trains and how far it is, as its reports have said. Pure data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """The speed of a whole job at one size."""

    replicas: int
    nodes: int
    rate: float
    """Samples per second, the mean of the reports at this size."""
    count: int
    """Reports at this size."""
    last_seen: float
    """Unix seconds."""
    batch_size: int | None = None
    grad_sqr: float | None = None
    grad_var: float | None = None


@dataclass
class Progress:
    percentage: float | None
    remaining_seconds: float | None
    reported_at: float | None
    """Unix seconds."""
    samples: tuple[SpeedSample, ...]
    rescale_seconds: float | None
    """From a move to the first report after it; None until it has been measured."""
