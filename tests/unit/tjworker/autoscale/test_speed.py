"""What a job's reports say of its speed at other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    "one size observed: linear below it": Case((seen(4, 40.0),), 2, 2.0),
    "one size observed: linear to twice that size": Case((seen(4, 40.0),), 8, 8.0),
    "one size observed: nothing is known beyond twice that size": Case((seen(4, 40.0),), 60, 8.0),
    "two sizes observed: the observation": Case((seen(1, 10.0), seen(4, 25.0)), 4, 2.5),
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
    "faster than linear: linear beyond it, too": Case((seen(1, 10.0), seen(2, 30.0)), 3, 3.0),
    "no report is worth more than linear": Case((seen(1, 1e-9), seen(2, 1e12)), 3, 3.0),
    "a rate that is none does not count": Case((seen(4, 0.0), seen(4, float("inf")), seen(0, 5.0)), 5, 5.0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_speed_at_another_size(case: Case) -> None:
    progress = reported(*case.samples) if case.samples else None
    assert learned_throughput(progress).at(case.replicas) == pytest.approx(case.want)


def test_a_larger_batch_of_a_noisy_gradient_is_worth_its_samples_and_of_a_quiet_one_is_not() -> None:
    """gain / scale = (var + sqr) / (var + sqr * scale), of Pollux."""
    for sqr, var, want in ((1.0, 1e9, 4.0), (1.0, 0.0, 1.0), (1.0, 2.0, 4.0 * 3 / 6)):
        small = seen(1, 10.0, batch_size=100, grad_sqr=sqr, grad_var=var)
        large = seen(4, 40.0, batch_size=400, grad_sqr=sqr, grad_var=var)
        assert learned_goodput(reported(small, large), BATCH).at(4) == pytest.approx(want, rel=1e-6)
        assert learned_throughput(reported(small, large)).at(4) == pytest.approx(4.0)


def test_gradients_near_the_largest_float_leave_a_speed() -> None:
    loud = reported(seen(1, 1e-9, batch_size=10_000, grad_sqr=1.7e308, grad_var=0.0))
    assert learned_goodput(loud, BATCH).at(2) == pytest.approx(2.0)


def test_without_a_declared_batch_size_goodput_is_throughput() -> None:
    samples = reported(seen(1, 10.0, batch_size=100, grad_sqr=1.0, grad_var=0.0), seen(4, 40.0, batch_size=400))
    assert learned_goodput(samples, None) == learned_throughput(samples)
