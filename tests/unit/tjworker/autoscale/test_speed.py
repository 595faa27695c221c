"""What a job's reports say of its speed at other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from tjworker.api.model import BatchSize
from tjworker.api.progress import Progress, SpeedSample
from tjworker.autoscale.speed import learned_goodput, learned_throughput

BATCH = BatchSize(initial=100, max=10_000, per_replica_min=10, per_replica_max=1000)


def reported(*samples: SpeedSample) -> Progress:
    return Progress(None, None, None, samples, None)


def seen(replicas: int, rate: float, nodes: int = 1, **more: float) -> SpeedSample:
    return SpeedSample(replicas, nodes, rate, 1, 0.0, **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    samples: Sequence[SpeedSample]
    replicas: int
    want: float
    """In the speed of one replica."""


CASES = {
    "a job that has reported nothing is linear": Case((), 7, 7.0),
    "one size observed: linear to twice that size": Case((seen(4, 40.0),), 8, 8.0),
    "one size observed: nothing is known beyond twice that size": Case((seen(4, 40.0),), 60, 8.0),
    "two sizes observed: a line between them": Case((seen(1, 10.0), seen(4, 25.0)), 2, 1.5),
    "two sizes observed: the last slope goes on": Case((seen(1, 10.0), seen(4, 25.0)), 6, 3.5),
    "two sizes observed: no further than twice the larger": Case((seen(1, 10.0), seen(4, 25.0)), 64, 4.5),
    "an observation below the others' curve is passed over": Case(
        (seen(1, 10.0), seen(2, 11.0), seen(4, 40.0)), 2, 2.0
    ),
    "more replicas were slower: as fast as with fewer": Case((seen(1, 10.0), seen(2, 20.0), seen(3, 15.0)), 3, 2.0),
    "the same size on one node and on two: their mean": Case((seen(1, 10.0), seen(4, 30.0), seen(4, 20.0, 2)), 4, 2.5),
    "a rate too small to divide by does not count": Case((seen(2, 5e-324), seen(4, 1e-300)), 3, 3.0),
    "a rate or a size beyond what a report may say does not count": Case(
        (seen(4, 1e300), seen(4, 1e13), seen(20_000, 5.0)), 5, 5.0
    ),
    "faster than linear: linear, up to the larger size": Case((seen(1, 10.0), seen(2, 30.0)), 2, 2.0),
    "no report is worth more than linear": Case((seen(1, 1e-9), seen(2, 1e12)), 3, 3.0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_speed_at_another_size(case: Case) -> None:
    progress = reported(*case.samples) if case.samples else None
    assert learned_throughput(progress).at(case.replicas) == pytest.approx(case.want)


@dataclass(frozen=True)
class Law:
    """How a program trains in truth: seconds of a micro-batch, of each sample of it, and of the synchronisation."""

    fixed: float
    per_sample: float
    sync: Callable[[int], float]
    batch: BatchSize

    def rate(self, replicas: int, batch_size: int) -> float:
        parts = max(1, math.ceil(batch_size / (replicas * self.batch.per_replica_max)))
        sync = self.sync(replicas) if replicas > 1 else 0.0
        return batch_size / (parts * self.fixed + self.per_sample * batch_size / replicas + sync)

    def goodput(self, replicas: int, noise: float) -> float:
        """At the best of all batch sizes: gain / scale is (var + sqr) / (var + sqr * scale), of Pollux."""
        least = max(self.batch.initial, replicas * self.batch.per_replica_min)
        sizes = range(least, self.batch.max + 1)
        return max(self.rate(replicas, b) * (noise + 1) / (noise + b / self.batch.initial) for b in sizes)

    def seen(self, replicas: int, batch_size: int, noise: float) -> SpeedSample:
        rate = self.rate(replicas, batch_size)
        return seen(replicas, rate, batch_size=batch_size, grad_sqr=1.0, grad_var=noise)


SMALL = BatchSize(initial=8, max=512, per_replica_min=4, per_replica_max=16)
LAWS = {
    "synchronisation takes no time": Law(0.1, 0.02, lambda _: 0.0, SMALL),
    "synchronisation takes longer than a micro-batch": Law(0.2, 0.015, lambda _: 0.5, SMALL),
    "synchronisation takes longer with each replica": Law(0.05, 0.03, lambda n: 0.02 * n, SMALL),
    "a replica holds a large part of the batch": Law(0.1, 0.001, lambda _: 0.3, BatchSize(100, 2000, 10, 1000)),
}


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("noise", [0.1, 3.0, 100.0, 1e9])
@pytest.mark.parametrize("replicas", [2, 4])
def test_goodput_at_a_size_observed_is_that_of_the_best_batch_size(law: Law, noise: float, replicas: int) -> None:
    """However small the batches were that the job has reported so far."""
    first = law.batch.initial
    small = max(first, replicas * law.batch.per_replica_min)
    samples = (law.seen(1, first, noise), law.seen(1, 2 * first, noise), law.seen(replicas, small, noise))
    curve = learned_goodput(reported(*samples), law.batch)
    true = {n: law.goodput(n, noise) / law.goodput(1, noise) for n in range(1, 2 * replicas + 1)}
    lines = [
        true[a] + (true[b] - true[a]) * (replicas - a) / (b - a)
        for a in range(1, replicas)
        for b in range(replicas, 2 * replicas + 1)
    ]
    # The curve is concave and optimistic: where other sizes are better, it passes above the truth.
    assert 0.96 * min(true[replicas], replicas) <= curve.at(replicas) <= 1.2 * max(1.0, min(replicas, max(lines)))


def test_goodput_follows_the_noise_and_not_the_batch_size_of_earlier_reports() -> None:
    """With little noise four replicas, which share 16 samples at least, gain little beside one with 8."""
    law = LAWS["synchronisation takes no time"]
    early = reported(law.seen(1, 8, 0.1), law.seen(4, 16, 0.1))
    later = reported(*early.samples, replace(law.seen(1, 8, 100.0), last_seen=9.0))
    assert learned_goodput(early, SMALL).at(4) < 2.5
    assert learned_goodput(later, SMALL).at(4) > 3.2


NOISES = {
    "the largest float": (1.7e308, 0.0),
    "no gradient that could be noisy": (5e-324, 1e30),
    "both as large as a report may say": (1e30, 1e30),
}


@pytest.mark.parametrize(("sqr", "var"), NOISES.values(), ids=NOISES.keys())
def test_gradients_near_the_largest_float_leave_a_speed(sqr: float, var: float) -> None:
    for rate in (1e-9, 1e12):
        told = reported(seen(1, rate, batch_size=10_000, grad_sqr=sqr, grad_var=var))
        assert 1.0 < learned_goodput(told, BATCH).at(2) <= 2.0


def test_without_a_batch_size_in_the_reports_goodput_is_throughput() -> None:
    samples = reported(seen(1, 10.0, grad_sqr=1.0, grad_var=0.0), seen(4, 40.0))
    assert learned_goodput(samples, BATCH) == learned_throughput(samples)
