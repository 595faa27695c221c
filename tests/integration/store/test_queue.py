"""Keys in the work queue: queued, delayed, failing, run once at a time."""

from __future__ import annotations

import pytest

from tests.integration.store.contract import Case, named, play
from tests.integration.store.driver import A, B, C, Drive, fail_in_a_row, many
from tests.integration.store.worlds import World
from tests.support.queueing import finish_one
from tjworker.base import JobKey
from tjworker.store.work_queue import AtOnce, OnNews, WithBackoff

QUEUE = {
    "a key that is queued is published once": Case(lambda d: [d.add(), d.queued()], [[A], 1]),
    "a key that is queued many times is published once": Case(
        lambda d: [d.add(), d.add(), d.add(A, A), d.queued()], [[A], [], [], 1]
    ),
    "several keys are published in their order": Case(lambda d: [d.add(B, A, C)], [[B, A, C]]),
    "a key named twice in one call is published once": Case(lambda d: [d.add(A, A)], [[A]]),
    "a key that was not queued cannot be acquired": Case(lambda d: [d.take()], [False]),
    "a queued key is acquired once": Case(lambda d: [d.add(), d.take(), d.queued(), d.take()], [[A], True, 0, False]),
    "a doubled task finds nothing to do after the first has finished": Case(
        lambda d: [d.add(), d.take(), d.finish(), d.take()], [[A], True, False, False]
    ),
    "a doubled task finds nothing to do while the first one runs, even when the key is dirty again": Case(
        lambda d: [d.add(), d.take(), d.add(), d.take(owner="worker-2")], [[A], True, [], False]
    ),
    "two keys run at the same time": Case(
        lambda d: [d.add(A, B), d.take(A), d.take(B), d.stats().running], [[A, B], True, True, 2]
    ),
    "a key that is queued while it runs is not published, and runs again after": Case(
        lambda d: [d.add(), d.take(), d.add(), d.finish(), d.take(), d.finish()], [[A], True, [], True, True, False]
    ),
    "a key that is queued many times while it runs runs once more": Case(
        lambda d: [d.add(), d.take(), d.add(), d.add(), d.finish(), d.take(), d.finish()],
        [[A], True, [], [], True, True, False],
    ),
    "a pass that asks for it is queued again at once": Case(
        lambda d: [d.add(), d.take(), d.finish(next_pass=AtOnce()), d.take()], [[A], True, True, True]
    ),
    "a key that has finished can be queued again": Case(
        lambda d: [d.add(), d.take(), d.finish(), d.add(), d.take()], [[A], True, False, [A], True]
    ),
    "no news, no second pass": Case(
        lambda d: [d.add(), d.take(), d.finish(), d.queued(), d.due()], [[A], True, False, 0, []]
    ),
    "tokens only grow, from holder to holder and over keys": Case(
        lambda d: [
            d.add(A, B),
            d.take(A),
            d.take(B),
            d.claims[B].token > d.claims[A].token,
            d.finish(next_pass=AtOnce()),
            d.take(A),
            d.claims[A].token > d.claims[B].token,
        ],
        [[A, B], True, True, True, True, True, True],
    ),
    "tokens go on growing after FLUSHALL": Case(
        lambda d: [
            d.add(),
            d.take(),
            (old := d.claims[A].token) > 0,
            d.flush(),
            d.wait(0.001),
            d.add(),
            d.take(),
            d.claims[A].token > old,
        ],
        [[A], True, True, None, None, [A], True, True],
    ),
    "the age of the oldest key is counted from when it was queued": Case(
        lambda d: [d.add(A), d.wait(40), d.add(B), 40 <= d.stats().oldest_seconds < 45], [[A], None, [B], True]
    ),
    "without a queued key the oldest age is 0": Case(lambda d: [d.stats().oldest_seconds], [0]),
    "a pass that renews its lease goes on running": Case(
        lambda d: [
            d.add(),
            d.take(),
            d.wait(20),
            d.renew(),
            d.wait(20),
            d.stats().running,
            d.wait(11),
            d.stats().running,
        ],
        [[A], True, None, None, None, 1, None, 0],
    ),
    "stats count what is queued, delayed, running and failing": Case(
        lambda d: [
            d.add(A, B, C),
            d.take(A),
            d.take(C),
            d.fail(C) > 0,
            d.job(5),
            (s := d.stats()) and (s.queued, s.delayed, s.running, s.unfinished, s.failing),
        ],
        [[A, B, C], True, True, True, [], (1, 1, 1, 1, 1)],
    ),
}


DELAYS = {
    "a delayed key waits": Case(lambda d: [d.later(60), d.due(), d.queued()], [None, [], 0]),
    "a delayed key is published when its time has come, once": Case(
        lambda d: [d.later(60), d.wait(61), d.due(), d.due(), d.take()], [None, None, [A], [], True]
    ),
    "of two delays the earlier counts, when it comes second": Case(
        lambda d: [d.later(600), d.later(60), d.wait(61), d.due()], [None, None, None, [A]]
    ),
    "of two delays the earlier counts, when it comes first": Case(
        lambda d: [d.later(60), d.later(600), d.wait(61), d.due(), d.wait(600), d.due()],
        [None, None, None, [A], None, []],
    ),
    "due keys come the oldest first and as many as asked for": Case(
        lambda d: [d.later(3, C), d.later(1, A), d.later(2, B), d.wait(4), d.due(2), d.due(2)],
        [None, None, None, None, [A, B], [C]],
    ),
    "a delayed key that is queued already is not published twice": Case(
        lambda d: [d.later(1), d.add(), d.wait(2), d.due(), d.take()], [None, [A], None, [], True]
    ),
    "a delay that ends while the key runs makes it run again after": Case(
        lambda d: [d.add(), d.take(), d.later(1), d.wait(2), d.due(), d.finish()], [[A], True, None, None, [], True]
    ),
    "a pass may ask to be run again later": Case(
        lambda d: [d.add(), d.take(), d.finish(next_pass=OnNews(60)), d.queued(), d.wait(61), d.due()],
        [[A], True, False, 0, None, [A]],
    ),
    "a pass that asks for later while there is news runs at once": Case(
        lambda d: [d.add(), d.take(), d.add(), d.finish(next_pass=OnNews(60)), d.take()], [[A], True, [], True, True]
    ),
    "a new pass takes the place of a wait that an earlier one asked for": Case(
        lambda d: [d.later(60), d.add(), d.take(), d.finish(), d.wait(61), d.due()], [None, [A], True, False, None, []]
    ),
    "a wait asked for during a pass stays": Case(
        lambda d: [d.add(), d.take(), d.later(60), d.finish(), d.wait(61), d.due()], [[A], True, None, False, None, [A]]
    ),
    "a delay of nothing is due at once": Case(lambda d: [d.later(0), d.wait(0.001), d.due()], [None, None, [A]]),
}


FAILURES = {
    "the first failure waits about a second": Case(
        lambda d: [d.add(), d.take(), 0.8 <= d.fail() <= 1.2], [[A], True, True]
    ),
    "a failed key is not queued, only delayed": Case(
        lambda d: [d.add(), d.take(), d.fail() > 0, d.queued(), d.stats().delayed], [[A], True, True, 0, 1]
    ),
    "a failed key comes back when its wait is over": Case(
        lambda d: [d.add(), d.take(), d.fail() > 0, d.wait(1.3), d.due(), d.take()], [[A], True, True, None, [A], True]
    ),
    "waits double with each failure in a row": Case(
        lambda d: [fail_in_a_row(d, 6)[-1] > 25, fail_in_a_row(d, 1)[0] > 50], [True, True]
    ),
    "waits end at five minutes, give or take the jitter": Case(
        lambda d: [240 <= fail_in_a_row(d, 20)[-1] <= 360], [True]
    ),
    "two keys that failed together come back at different times": Case(
        lambda d: [d.add(A, B), d.take(A), d.take(B), d.fail(A) != d.fail(B)], [[A, B], True, True, True]
    ),
    "success forgets the failures": Case(
        lambda d: [
            len(fail_in_a_row(d, 5)),
            d.add(),
            d.take(),
            d.finish(),
            d.stats().failing,
            d.add(),
            d.take(),
            d.fail() < 1.3,
        ],
        [5, [A], True, False, 0, [A], True, True],
    ),
    "failures are counted by key": Case(
        lambda d: [len(fail_in_a_row(d, 5)), d.add(B), d.take(B), d.fail(B) < 1.3], [5, [B], True, True]
    ),
    "news ends the wait after a failure": Case(
        lambda d: [d.job(5), d.take(), d.fail() > 0, d.pod(6), d.take()], [[A], True, True, [A], True]
    ),
    "a failed pass with news is queued at once": Case(
        lambda d: [d.add(), d.take(), d.add(), d.finish(next_pass=WithBackoff()), d.take()], [[A], True, [], True, True]
    ),
    "a failed key that also has a nearer time comes back then, and its next wait is longer": Case(
        lambda d: [
            len(fail_in_a_row(d, 5)),
            d.add(),
            d.take(),
            d.finish(next_pass=WithBackoff(3)),
            d.wait(3.1),
            d.due(),
            d.take(),
            d.fail() > 50,
        ],
        [5, [A], True, False, None, [A], True, True],
    ),
    "failures are told with the wait": Case(
        lambda d: [d.add(), d.take(), finish_one(d.queue, d.claims[A], next_pass=WithBackoff()).failures],
        [[A], True, 1],
    ),
}


def _flood(d: Drive, count: int, namespace: str = "evil") -> list[JobKey]:
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/{namespace}/f{n:04}") for n in range(count)]
    return keys if d.add(*keys) == keys else []


def _serve(d: Drive, passes: int, named: JobKey = A) -> str:
    """The first letters of the names of the jobs that are served, each finished at once."""
    served = []
    for _ in range(passes):
        key = d.turn(named)
        if key is None:
            break
        served.append(key.rsplit("/", 1)[1][0])
        d.finish(key=key)
    return "".join(served)


TURNS = {
    "a task serves the key whose turn it is, whichever it names": Case(
        lambda d: [d.add(A, B), d.turn(B), d.turn(B), d.turn(B)], [[A, B], A, B, None]
    ),
    "a task that names no key serves one all the same": Case(
        lambda d: [d.add(A), d.turn(JobKey("")), d.finish()], [[A], A, False]
    ),
    "of two namespaces whose turn it is, the one that the task names": Case(
        lambda d: [d.add(A, C), d.turn(C), d.turn(C)], [[A, C], C, A]
    ),
    "a namespace's second key comes after the first of every other": Case(
        lambda d: [d.add(A, B, C), d.turn(A), d.turn(B), d.turn(B)], [[A, B, C], A, C, B]
    ),
    "a thousand keys of another namespace are one turn": Case(
        lambda d: [len(_flood(d, 1000)), _serve(d, 5), d.add(C), _serve(d, 2), d.queued()],
        [1000, "fffff", [C], "fc", 994],
    ),
    "who comes again and again takes turns with who waits": Case(
        lambda d: [len(_flood(d, 10)), *(([d.add(C), _serve(d, 2)]) for _ in range(3))],
        [10, [[C], "fc"], [[C], "fc"], [[C], "fc"]],
    ),
    "three namespaces take turns, the smallest is through first": Case(
        lambda d: [len(_flood(d, 6)), d.add(A, B), d.add(C), _serve(d, 9)], [6, [A, B], [C], "afcbfffff"]
    ),
    "within a namespace first come, first served, and again at the end": Case(
        lambda d: [d.add(A, B), d.turn(), d.finish(next_pass=AtOnce()), d.turn(), d.finish(key=B), d.turn()],
        [[A, B], A, True, B, False, A],
    ),
    "a key that runs and has changed gets its turn when it has finished": Case(
        lambda d: [d.add(A), d.turn(), d.add(A, B), d.turn(), d.turn(), d.finish(), d.turn()],
        [[A], A, [B], B, None, True, A],
    ),
    "jobs that are deleted in line hold no turn": Case(
        lambda d: [
            sum(d.job(5 + n, key) == [key] for n, key in enumerate(many(20, "evil"))),
            sum(d.no_job(50 + n, key) == [] for n, key in enumerate(many(20, "evil"))),
            d.add(*many(1, "evil")) != [],
            len(_flood(d, 3, "third")),
            _serve(d, 4),
        ],
        [20, 20, True, 3, "xfff"],
    ),
    "delayed keys stand in line from when they are due": Case(
        lambda d: [len(_flood(d, 3)), d.later(5, C), d.wait(6), d.due(), _serve(d, 4)], [3, None, None, [C], "fcff"]
    ),
    "a key that an earlier version has queued, which knows no line, stands in line from its task on": Case(
        lambda d: [d.left_out(A), d.take(), d.finish(), d.turn()], [None, True, False, None]
    ),
    "its task serves the key whose turn it is, and is no task too few": Case(
        lambda d: [d.add(B), d.left_out(A), d.turn(A), d.turn(B), d.turn()], [[B], None, B, A, None]
    ),
    "it stays out of the line while its holder, who may be dead, has not finished": Case(
        lambda d: [d.add(A), d.take(), d.left_out(A), d.wait(31), d.turn(), d.resync(), d.take(), d.claims[A].deaths],
        [[A], True, None, None, None, [A], True, 1],
    ),
    "its lost task is found by the resync": Case(
        lambda d: [d.left_out(A), d.resync(), d.wait(31), d.resync(), d.turn(B)], [None, [], None, [A], A]
    ),
    "after FLUSHALL the turns begin anew": Case(
        lambda d: [len(_flood(d, 3)), d.flush(), d.add(B, C), _serve(d, 5)], [3, None, [B, C], "bc"]
    ),
    "a key whose lost task is published again has its one place in line": Case(
        lambda d: [
            len(_flood(d, 3)),
            *[(d.wait(31), len(d.resync())) for _ in range(4)],
            _serve(d, 3),
            len(_flood(d, 2)),
            d.add(C),
            _serve(d, 2),
        ],
        [3, *[(None, 3)] * 4, "fff", 2, [C], "fc"],
    ),
    "a full resync gives each unfinished job one turn": Case(
        lambda d: [d.job(5, A), d.job(6, C), d.resync(everything=True), _serve(d, 5)], [[A], [C], [], "ac"]
    ),
}


CASES = named(queue=QUEUE, delays=DELAYS, failures=FAILURES, turns=TURNS)


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    play(CASES[sentence], world)
