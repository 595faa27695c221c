"""How a job's speed grows with its replicas, learned from the job's reports. Pure.

The curve is linear until two sizes have been observed. Then it is the least concave curve that is nowhere below the
observations. Beyond the largest observed size it goes on to twice that size, with its last slope or `HOPE` of the mean
slope, whichever is greater. Beyond twice the size it is flat: nothing is known there, so more replicas are worth
nothing until the job has been observed at a larger size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tjworker.api.model import BatchSize
from tjworker.api.progress import MAX_RATE, MAX_REPLICAS, Progress, SpeedSample
from tjworker.autoscale.step_time import MOST_NOISE, StepTime, interpolate, learn_step_time

LEAST_RATE = 1e-9
"""Samples per second: one sample in thirty years. Slower reports are ignored."""
TRUSTED_TIMES = 2
"""The curve rises up to this multiple of the largest observed size."""
# Without hope, a job that was slow once, because its replicas were on one node too many, would never be tried at a
# larger size again.
HOPE = 0.4
"""The least slope beyond the largest observed size, as a fraction of the mean slope up to it."""


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """The speed of a job, in speeds of one replica. A job without reports has speed 3.0 with three replicas."""

    points: tuple[tuple[int, float], ...] = ()
    """(replicas, speed), concave, both ascending; without the point (0, 0)."""
    known_to: int | None = None
    """Set if the points come from a model that covers sizes up to this one. None: `at` extrapolates beyond the last
    point."""

    def at(self, replicas: int) -> float:
        """The speed with that many replicas."""
        if not self.points or replicas <= self.points[0][0]:
            return float(replicas)
        last, speed = self.points[-1]
        if replicas > last:
            if self.known_to is not None:
                return speed
            return speed + self._last_slope() * (min(replicas, TRUSTED_TIMES * last) - last)
        return interpolate(self.points, replicas)

    def _last_slope(self) -> float:
        (n0, s0), (n1, s1) = ((0, 0.0), *self.points)[-2:]
        return max((s1 - s0) / (n1 - n0), HOPE * s1 / n1)


LINEAR = SpeedCurve()


def learned_throughput(progress: Progress | None, batch: BatchSize | None = None) -> SpeedCurve:
    """The curve of samples per second. For a job that adapts its batch size (`batch`), the speed with each replica's
    part of the newest batch."""
    samples = _usable_samples(progress)
    step = learn_step_time(samples, batch) if batch is not None else None
    if step is None:
        return _curve(_mean_rates((s.replicas, s.rate, s.count) for s in samples))
    # What the job reported of a size when its batches were small is not its speed at that size today.
    newest = max((s for s in samples if s.batch_size), key=lambda s: s.last_seen)
    part = (newest.batch_size or 0) / newest.replicas
    return _curve_of_model(step, lambda replicas: step.throughput(replicas, part * replicas))


def learned_goodput(progress: Progress | None, batch: BatchSize | None) -> SpeedCurve:
    """The curve of goodput: samples per second times the worth of each sample, at the batch size that is best for each
    number of replicas (Qiao et al., "Pollux", OSDI 2021). The curve of throughput if the job reports no batch size or
    no gradient noise."""
    samples = _usable_samples(progress)
    noisy = [s for s in samples if s.grad_sqr is not None and s.grad_var is not None and s.grad_sqr > 0]
    step = learn_step_time(samples, batch) if batch is not None else None
    if step is None or not noisy:
        return learned_throughput(progress, batch)
    # A sample of a large batch is worth little while the gradient has little noise. The noise grows by orders of
    # magnitude while a job trains, so only the newest noise counts.
    newest = max(noisy, key=lambda s: s.last_seen)
    noise = min(MOST_NOISE, (newest.grad_var or 0.0) / (newest.grad_sqr or 1.0))
    return _curve_of_model(step, lambda replicas: step.goodput(replicas, noise))


def _curve_of_model(step: StepTime, speed: Callable[[int], float]) -> SpeedCurve:
    observed = [replicas for replicas, _ in step.sync]
    most = TRUSTED_TIMES * observed[-1]
    sizes = sorted({*observed, *_sizes_below(most), most})
    return replace(_curve([(n, speed(n)) for n in sizes]), known_to=most)


def _sizes_below(most: int) -> Iterable[int]:
    """1, 2, 3, 4, 6, 8, 12, 16 and so on, below `most`: goodput bends little between two neighbours."""
    size = 1
    while size < most:
        yield size
        if size > 1 and size + size // 2 < most:
            yield size + size // 2
        size *= 2


def _usable_samples(progress: Progress | None) -> Sequence[SpeedSample]:
    # Any program in a pod writes these numbers, and those of one job must not break the plan of all jobs. The quotient
    # of two rates within these bounds is neither zero nor infinite.
    samples = progress.samples if progress is not None else ()
    return [s for s in samples if 0 < s.replicas <= MAX_REPLICAS and LEAST_RATE <= s.rate <= MAX_RATE]


def _mean_rates(observed: Iterable[tuple[int, float, int]]) -> list[tuple[int, float]]:
    """(replicas, mean rate), ascending. `observed`: (replicas, rate, count); the number of nodes does not matter."""
    sums: dict[int, tuple[float, int]] = {}
    for replicas, rate, count in observed:
        total, n = sums.get(replicas, (0.0, 0))
        weight = max(1, count)
        sums[replicas] = total + rate * weight, n + weight
    return [(replicas, total / n) for replicas, (total, n) in sorted(sums.items())]


def _curve(means: Sequence[tuple[int, float]]) -> SpeedCurve:
    if not means:
        return LINEAR
    hull: list[tuple[int, float]] = [(0, 0.0)]
    for point in means:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    # The unit is the speed per replica at the smallest size on the hull. With a size that is not on it, a program could
    # report almost no speed for one replica, and then be worth more than any other job.
    first, rate = hull[1]
    hull = [(n, value * first / rate) for n, value in hull]
    # If more replicas were slower, they are worth nothing, rather than less than nothing.
    top = max(range(1, len(hull)), key=lambda k: hull[k][1])
    flat = [(n, min(speed, hull[top][1])) if k <= top else (n, hull[top][1]) for k, (n, speed) in enumerate(hull)]
    return SpeedCurve(tuple(flat[1:]))


def _slope(a: tuple[int, float], b: tuple[int, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])
