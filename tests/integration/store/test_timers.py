"""A key comes back at the earliest of the times that were asked for since it was last taken, whatever the order of
`add_after`, ends of passes and failures: a shorter time never gives way to a longer one.
"""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from tests.integration.store.driver import A, Drive
from tests.integration.store.worlds import World
from tests.support.queueing import finish_one
from tests.support.seeds import the_seed
from tjworker.store.work_queue import OnNews, WithBackoff

TIMES = (60.0, 300.0, 3600.0)


@pytest.mark.parametrize("order", list(permutations(TIMES[1:])), ids=str)
@pytest.mark.parametrize("failed", [False, True], ids=["done", "failed"])
def test_a_wait_asked_for_during_a_pass_and_that_of_its_end(
    world: World, order: tuple[float, float], failed: bool
) -> None:
    drive = Drive(world)
    during, at_the_end = order
    drive.add()
    assert drive.take()
    drive.later(during)
    backoff = finish_one(
        drive.queue, drive.claims[A], next_pass=WithBackoff(at_the_end) if failed else OnNews(at_the_end)
    ).backoff_seconds
    assert_due_after(drive, min(*order, during if backoff is None else backoff))


def test_the_retry_of_a_failed_pass_comes_before_its_longer_timer(world: World) -> None:
    drive = Drive(world)
    drive.add()
    assert drive.take()
    backoff = finish_one(drive.queue, drive.claims[A], next_pass=WithBackoff(3600)).backoff_seconds
    assert backoff is not None
    assert 0.8 <= backoff <= 1.2
    assert_due_after(drive, backoff)


def test_any_order_of_them(world: World) -> None:
    seed = the_seed()
    draw, drive = random.Random(seed), Drive(world)
    for life in range(40):
        again = f"TJ_TEST_SEED={seed}, life {life}"
        waits: list[float] = []
        for _ in range(draw.randint(1, 6)):
            what = draw.choice(("later", "done", "failed", "taken anew"))
            if what == "later":
                waits.append(draw.choice(TIMES))
                drive.later(waits[-1])
                continue
            drive.add()
            assert drive.take(), again
            waits = []  # a new pass decides anew
            if draw.random() < 0.5:
                waits.append(draw.choice(TIMES))
                drive.later(waits[-1])
            after = draw.choice((None, *TIMES))
            result = finish_one(
                drive.queue, drive.claims[A], next_pass=WithBackoff(after) if what == "failed" else OnNews(after)
            )
            waits += [wait for wait in (after, result.backoff_seconds) if wait is not None]
        assert_due_after(drive, min(waits, default=None), again)
        drive.add()
        assert drive.take(), again
        drive.finish()


def assert_due_after(drive: Drive, seconds: float | None, again: str = "") -> None:
    if not drive.world.real:  # whose clock a slow machine moves meanwhile
        drive.wait(0.0 if seconds is None else seconds - 0.01)
        assert drive.due() == [], again
        seconds = None if seconds is None else 0.01
    drive.wait(3700 if seconds is None else seconds + 0.01)
    assert drive.due() == ([] if seconds is None else [A]), again
