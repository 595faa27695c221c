"""Every shard of every epoch is trained on, whichever process dies."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from examples.digits.taskqueue import TaskQueue
from tests.support.seeds import the_seed


def make_queue(shards: int = 3, epochs: int = 2) -> TaskQueue:
    return TaskQueue(shards=shards, epochs=epochs, lease_seconds=5)


@dataclass(frozen=True)
class Case:
    play: Callable[[TaskQueue], object]
    want_result: object
    want_done: list[int]
    want_epoch: int = 0


def take(queue: TaskQueue, holder: str, now: float = 0) -> str:
    lease = queue.take(holder, now)
    assert lease is not None
    return lease.token


def _late(queue: TaskQueue) -> object:
    token = take(queue, "a")
    queue.expire(5)
    return queue.done(token)


def _late_after_another(queue: TaskQueue) -> object:
    token = take(queue, "a")
    queue.expire(5)
    other = take(queue, "b", 5)
    return queue.done(token), queue.done(other)


def _renewed(queue: TaskQueue) -> object:
    token = take(queue, "a")
    queue.renew(token, 4)
    return [lease.shard for lease in queue.expire(8)], [lease.shard for lease in queue.expire(9)]


def _gone(queue: TaskQueue) -> object:
    take(queue, "a")
    take(queue, "b")
    queue.release("a")
    lease = queue.take("b", 0)
    return lease and lease.shard


def _twice(queue: TaskQueue) -> object:
    token = take(queue, "a")
    return queue.done(token), queue.done(token)


def _whole_epoch(queue: TaskQueue) -> object:
    return [queue.done(take(queue, "a")) for _ in range(3)]


CASES: dict[str, Case] = {
    "a report after the lease has run out does not count": Case(_late, False, []),
    "of two trainers on one shard only the one with the lease counts": Case(_late_after_another, (False, True), [0]),
    "a renewed lease lasts from then on": Case(_renewed, ([], [0]), []),
    "the shard of a trainer that is gone is the next one handed out": Case(_gone, 0, []),
    "a report that arrives twice counts once": Case(_twice, (True, False), [0]),
    "the epoch ends with its last shard": Case(_whole_epoch, [True] * 3, [], want_epoch=1),
}


@pytest.mark.parametrize("name", CASES)
def test_queue(name: str) -> None:
    case, queue = CASES[name], make_queue()
    assert case.play(queue) == case.want_result
    assert queue.snapshot() == {"shards": 3, "epoch": case.want_epoch, "done": case.want_done}


def test_a_restarted_master_hands_out_what_was_not_done_and_knows_no_older_lease() -> None:
    first = make_queue()
    first.done(take(first, "a"))
    leased = take(first, "a")
    second = make_queue()
    second.restore(first.snapshot())
    assert [lease.shard for lease in (second.take("b", 0), second.take("b", 0)) if lease] == [1, 2]
    assert not second.done(leased)


def test_whatever_happens_each_shard_of_each_epoch_is_done_by_a_valid_lease() -> None:
    seed = the_seed()
    rng = random.Random(seed)
    for _ in range(50):
        queue = make_queue(shards=rng.randint(1, 8), epochs=rng.randint(1, 4))
        wanted = {(epoch, shard) for epoch in range(queue.epochs) for shard in range(queue.shards)}
        trained, held, now = set(), {}, 0.0
        for _ in range(10_000):
            if queue.finished:
                break
            now += rng.random()
            match rng.choice(("take", "take", "done", "done", "gone", "silent", "restart")):
                case "take":
                    if lease := queue.take(rng.choice("abc"), now):
                        held[lease.token] = lease
                case "done" if held:
                    token, lease = held.popitem()
                    if queue.done(token):
                        trained.add((lease.epoch, lease.shard))
                case "gone":
                    queue.release(rng.choice("abc"))
                case "silent":
                    queue.expire(now)
                case "restart" if rng.random() < 0.2:
                    after = make_queue(queue.shards, queue.epochs)
                    after.restore(queue.snapshot())
                    queue = after
        assert queue.finished, f"seed {seed}"
        assert trained == wanted, f"seed {seed}"
