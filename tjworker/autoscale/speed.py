"""How a job's speed grows with its replicas, learned from what it has reported. Pure.

Linear until two sizes have been observed; then the concave curve through the observations, which is never below them
and whose slope only falls. Beyond the largest size observed the last slope goes on, or `HOPE` of the mean slope if that
is more, to twice that size and no further: nothing is known there, so still more is worth nothing until the job has
been seen at a larger size. Without that hope a job that was slow once, because its replicas lay on one node too many,
would never be tried at a larger size again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tjworker.api.model import BatchSize
from tjworker.api.progress import MAX_RATE, MAX_REPLICAS, Progress, SpeedSample
from tjworker.autoscale.step_time import MOST_NOISE, StepTime, learn_step_time

LEAST_RATE = 1e-9
"""Samples per second: one in thirty years."""
TRUSTED_TIMES = 2
HOPE = 0.4


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """Speed in that of one replica: a job of which nothing is known is at 3.0 with three replicas."""

    points: tuple[tuple[int, float], ...] = ()
    """(replicas, speed), concave, both ascending; after (0, 0)."""
    known_to: int | None = None
    """The points say all up to so many replicas; None: up to the last point, and beyond it they are extrapolated."""

    def at(self, replicas: int) -> float:
        if not self.points or replicas <= self.points[0][0]:
            return float(replicas)
        last, speed = self.points[-1]
        if replicas > last:
            if self.known_to is not None:
                return speed
            return speed + self._last_slope() * (min(replicas, TRUSTED_TIMES * last) - last)
        high = bisect_left(self.points, (replicas, -1.0))
        (n0, s0), (n1, s1) = self.points[high - 1], self.points[high]
        return s0 + (s1 - s0) * (replicas - n0) / (n1 - n0)

    def _last_slope(self) -> float:
        (n0, s0), (n1, s1) = ((0, 0.0), *self.points)[-2:]
        return max((s1 - s0) / (n1 - n0), HOPE * s1 / n1)


LINEAR = SpeedCurve()


def learned_throughput(progress: Progress | None, batch: BatchSize | None = None) -> SpeedCurve:
    """Of samples per second. For a job that adapts its batch size, with each replica's part of the newest batch: what
    it reported of a size when its batches were small is not its speed there today."""
    samples = _usable(progress)
    step = learn_step_time(samples, batch) if batch is not None else None
    if step is None:
        return _curve(_means((s.replicas, s.rate, s.count) for s in samples))
    newest = max((s for s in samples if s.batch_size), key=lambda s: s.last_seen)
    part = (newest.batch_size or 0) / newest.replicas
    return _modelled(step, lambda replicas: step.throughput(replicas, part * replicas))


def learned_goodput(progress: Progress | None, batch: BatchSize | None) -> SpeedCurve:
    """Of the progress of the training: samples per second times what each is worth, at the batch size that is best for
    each number of replicas (Qiao et al., "Pollux", OSDI 2021).

    A sample of a large batch is worth little while the gradient has little noise, and the noise grows by orders of
    magnitude while a job trains. So the newest noise counts, and what a job once reported of a size is not its goodput
    there today: with more noise it would choose a larger batch. Reports of jobs that name no batch size, or no noise,
    say their throughput alone."""
    samples = _usable(progress)
    noisy = [s for s in samples if s.grad_sqr is not None and s.grad_var is not None and s.grad_sqr > 0]
    step = learn_step_time(samples, batch) if batch is not None else None
    if step is None or not noisy:
        return learned_throughput(progress, batch)
    newest = max(noisy, key=lambda s: s.last_seen)
    noise = min(MOST_NOISE, (newest.grad_var or 0.0) / (newest.grad_sqr or 1.0))
    return _modelled(step, lambda replicas: step.goodput(replicas, noise))


def _modelled(step: StepTime, speed: Callable[[int], float]) -> SpeedCurve:
    observed = [replicas for replicas, _ in step.sync]
    most = TRUSTED_TIMES * observed[-1]
    sizes = sorted({*observed, *_sizes_below(most), most})
    return replace(_curve([(n, speed(n)) for n in sizes]), known_to=most)


def _sizes_below(most: int) -> Iterable[int]:
    """1, 2, 3, 4, 6, 8, 12, 16 and so on: goodput bends little between two of them."""
    size = 1
    while size < most:
        yield size
        if size > 1 and size + size // 2 < most:
            yield size + size // 2
        size *= 2


def _usable(progress: Progress | None) -> Sequence[SpeedSample]:
    # Any program in a pod writes these numbers, and one job's must not end the plan of all. The quotient of two rates
    # within these bounds is neither zero nor infinite.
    samples = progress.samples if progress is not None else ()
    return [s for s in samples if 0 < s.replicas <= MAX_REPLICAS and LEAST_RATE <= s.rate <= MAX_RATE]


def _means(observed: Iterable[tuple[int, float, int]]) -> list[tuple[int, float]]:
    """The mean at each number of replicas, whatever their nodes were, ascending."""
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
    # In the speed of a replica of the smallest size that is left. With that of a size that was passed over, a program
    # could report next to nothing for one replica, and then be worth more than any other job.
    first, rate = hull[1]
    hull = [(n, value * first / rate) for n, value in hull]
    # Where more replicas were slower, a larger size is worth nothing, rather than less than nothing.
    top = max(range(1, len(hull)), key=lambda k: hull[k][1])
    flat = [(n, min(speed, hull[top][1])) if k <= top else (n, hull[top][1]) for k, (n, speed) in enumerate(hull)]
    return SpeedCurve(tuple(flat[1:]))


def _slope(a: tuple[int, float], b: tuple[int, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])
