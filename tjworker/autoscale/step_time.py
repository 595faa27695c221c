"""Predicts how long a training step takes with other numbers of replicas and other batch sizes, from reports. Pure.

The model is that of Pollux (Qiao et al., OSDI 2021, section 3.2), without overlap of computation and synchronisation:

    seconds of a step = micro-batches * (fixed + per_sample * micro-batch size) + sync(replicas)

A replica that cannot hold its part of a batch computes it as several micro-batches and synchronises once
(`perReplicaMax` of the job's batchSize is what it holds). The model is optimistic about what was never observed:
synchronisation takes no time at the smallest observed size, and beyond the largest it takes as long as at that size.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from tjworker.api.model import BatchSize
from tjworker.api.progress import SpeedSample

FIXED_PART = 0.1
"""The prior for the fixed time of a micro-batch, as a fraction of the remaining time of the largest micro-batch. In the
measurements of the Pollux artifact it is 0.03 (cifar10) to 0.7 (yolov3)."""
PRIOR_WEIGHT = 0.1
"""The weight of the prior. Each observation has weight 1."""


MOST_NOISE = 1e30
"""At this noise every sample of any batch counts in full, and no sum or product of it overflows."""


@dataclass(frozen=True, slots=True)
class StepTime:
    batch: BatchSize
    fixed: float
    """Seconds per micro-batch, whatever its size."""
    per_sample: float
    """Seconds per sample of a micro-batch."""
    sync: tuple[tuple[int, float], ...]
    """(replicas, seconds of synchronisation) for each observed size, ascending; at least one."""

    def throughput(self, replicas: int, batch_size: float) -> float:
        """Samples per second, with that batch size or the nearest one that the job allows."""
        batch = self.batch
        working = self._working(replicas)
        size = max(batch.initial, working * batch.per_replica_min, min(batch.max, batch_size))
        return size / self._seconds(working, size)

    def goodput(self, replicas: int, noise: float) -> float:
        """Samples per second times the worth of a sample, at the batch size that is best for that many replicas.
        `noise`: as in `efficiency`."""
        batch = self.batch
        working = self._working(replicas)
        at_once = working * batch.per_replica_max
        least, most = max(batch.initial, working * batch.per_replica_min), batch.max
        best = 0.0
        for size in self._candidates(working, at_once, noise):
            tried = max(least, min(most, size))
            best = max(best, tried / self._seconds(working, tried) * efficiency(tried, batch.initial, noise))
        return best

    def _working(self, replicas: int) -> int:
        """Replicas that take part: each needs its minimum of the largest batch. Further replicas bring nothing."""
        return min(replicas, max(1, self.batch.max // self.batch.per_replica_min))

    def _seconds(self, replicas: int, batch_size: float) -> float:
        parts = _micro_batches(self.batch, replicas, batch_size)
        return parts * self.fixed + self.per_sample * batch_size / replicas + interpolate(self.sync, replicas)

    def _candidates(self, replicas: int, at_once: int, noise: float) -> Sequence[float]:
        """Batch sizes, one of which is the best. `at_once`: the largest batch that needs no second micro-batch."""
        # B / (c + b B) * 1 / (noise + B / initial) is greatest at B = sqrt(c / b * noise * initial). This is solved
        # once for batches up to `at_once`, and once for larger batches, where whole multiples of `at_once` are best.
        sync, each = interpolate(self.sync, replicas), self.per_sample / replicas
        scale = noise * self.batch.initial
        once = min(at_once, math.sqrt((self.fixed + sync) / each * scale)) if each else at_once
        each += self.fixed / at_once
        parts = math.sqrt(sync / each * scale) // at_once if each else 1.0
        return (once, max(1.0, parts) * at_once, (parts + 1.0) * at_once)


def interpolate(points: Sequence[tuple[float, float]], at: float) -> float:
    """Linear between the points, which ascend; outside them as at the nearest. At least one point."""
    if at <= points[0][0]:
        return points[0][1]
    if at >= points[-1][0]:
        return points[-1][1]
    high = bisect_left(points, (at, float("-inf")))
    (x0, y0), (x1, y1) = points[high - 1], points[high]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def efficiency(batch_size: float, initial: int, noise: float) -> float:
    """The worth of a sample, relative to a sample of a batch of the initial size: gain / scale of Pollux, at most 1.
    `noise`: the gradient's variance divided by its squared norm."""
    return (noise + 1.0) / (noise + max(1.0, batch_size / initial))


def learn_step_time(samples: Sequence[SpeedSample], batch: BatchSize) -> StepTime | None:
    """The model that fits the samples; None if no sample names its batch size."""
    rows = [sample for sample in samples if sample.batch_size]
    if not rows:
        return None
    least = min(sample.replicas for sample in rows)
    fixed, per_sample = _fit([sample for sample in rows if sample.replicas == least], batch)
    by_size: dict[int, SpeedSample] = {}
    for sample in rows:
        known = by_size.get(sample.replicas)
        # A plan puts replicas on as few nodes as it can, so the sample with the fewest nodes counts. Of equal ones the
        # newest counts: its batch is nearest to the next batches.
        if known is None or (-sample.nodes, sample.last_seen) > (-known.nodes, known.last_seen):
            by_size[sample.replicas] = sample
    sync = [(least, 0.0)]
    for replicas, sample in sorted(by_size.items()):
        if replicas > least:
            size = float(sample.batch_size or 0)
            computed = _micro_batches(batch, replicas, size) * fixed + per_sample * size / replicas
            # Reports are noisy: what is left for synchronisation may come out below 0.
            sync.append((replicas, max(0.0, size / sample.rate - computed)))
    return StepTime(batch, fixed, per_sample, tuple(sync))


def _micro_batches(batch: BatchSize, replicas: int, batch_size: float) -> int:
    return max(1, -int(-batch_size // (replicas * batch.per_replica_max)))


def _fit(rows: Sequence[SpeedSample], batch: BatchSize) -> tuple[float, float]:
    """(fixed, per_sample), neither below 0, by least squares of relative errors. Ignores synchronisation."""
    aa = ab = bb = at = bt = 0.0
    for row in rows:
        size = float(row.batch_size or 0)
        seconds = size / row.rate
        a, b = _micro_batches(batch, row.replicas, size) / seconds, size / row.replicas / seconds
        aa, ab, bb, at, bt = aa + a * a, ab + a * b, bb + b * b, at + a, bt + b
    # The prior, as one more row: fixed - FIXED_PART * per_sample * largest = 0.
    scale = PRIOR_WEIGHT * aa / len(rows)
    slope = FIXED_PART * batch.per_replica_max
    aa, ab, bb = aa + scale, ab - scale * slope, bb + scale * slope * slope
    determinant = aa * bb - ab * ab
    fixed = (at * bb - bt * ab) / determinant if determinant > 0 else 0.0
    per_sample = (bt * aa - at * ab) / determinant if determinant > 0 else bt / bb
    # The best fit that is not below 0 has the other parameter alone.
    if fixed < 0:
        return 0.0, bt / bb
    if per_sample < 0:
        return at / aa, 0.0
    return fixed, per_sample
