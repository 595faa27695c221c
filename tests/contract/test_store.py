"""The contract of the Store, one table a promise, on the memory store and on a real Redis.

A case is a list of calls, run in order, and the list of their answers. `None` answers (time passes, a call that gives
nothing) stand in the list like all others, so that each answer stands beside its call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.contract.store_driver import A, B, C, Drive, a_job, a_pod, raised
from tests.contract.store_worlds import MemoryWorld, RedisWorld, World

JOB = ("aitrainingjobs", 10)


@dataclass(frozen=True, slots=True)
class Case:
    do: Callable[[Drive], list[Any]]
    want: list[Any]
    lead: bool = True


@pytest.fixture(params=["memory", "redis"])
def world(request: pytest.FixtureRequest) -> World:
    return MemoryWorld() if request.param == "memory" else RedisWorld(request.getfixturevalue("real_redis"))


QUEUE = {
    "a key that is queued is published once": Case(lambda d: [d.add(), d.queued()], [[A], 1]),
    "a key that is queued many times is published once": Case(
        lambda d: [d.add(), d.add(), d.add(A, A), d.queued()], [[A], [], [], 1]
    ),
    "several keys are published in their order": Case(lambda d: [d.add(B, A, C)], [[B, A, C]]),
    "a key named twice in one call is published once": Case(lambda d: [d.add(A, A)], [[A]]),
    "a key that nobody queued cannot be acquired": Case(lambda d: [d.take()], [False]),
    "a queued key is acquired once": Case(lambda d: [d.add(), d.take(), d.queued(), d.take()], [[A], True, 0, False]),
    "a doubled task finds nothing to do after the first has finished": Case(
        lambda d: [d.add(), d.take(), d.finish(), d.take()], [[A], True, False, False]
    ),
    "a doubled task finds nothing to do while the first one runs, even when the key is dirty again": Case(
        lambda d: [d.add(), d.take(), d.add(), d.take(owner="worker-2")], [[A], True, [], False]
    ),
    "two keys run at the same time": Case(
        lambda d: [d.add(A, B), d.take(A), d.take(B), d.store.stats().running], [[A, B], True, True, 2]
    ),
    "a key that is queued while it runs is not published, and runs again after": Case(
        lambda d: [d.add(), d.take(), d.add(), d.finish(), d.take(), d.finish()], [[A], True, [], True, True, False]
    ),
    "a key that is queued many times while it runs runs once more": Case(
        lambda d: [d.add(), d.take(), d.add(), d.add(), d.finish(), d.take(), d.finish()],
        [[A], True, [], [], True, True, False],
    ),
    "a pass that asks for it is queued again at once": Case(
        lambda d: [d.add(), d.take(), d.finish(again=True), d.take()], [[A], True, True, True]
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
            d.holds[B].token > d.holds[A].token,
            d.finish(again=True),
            d.take(A),
            d.holds[A].token > d.holds[B].token,
        ],
        [[A, B], True, True, True, True, True, True],
    ),
    "tokens go on growing after FLUSHALL": Case(
        lambda d: [
            d.add(),
            d.take(),
            (old := d.holds[A].token) > 0,
            d.flush(),
            d.wait(0.001),
            d.add(),
            d.take(),
            d.holds[A].token > old,
        ],
        [[A], True, True, None, None, [A], True, True],
    ),
    "the age of the oldest key is counted from when it was queued": Case(
        lambda d: [d.add(A), d.wait(40), d.add(B), 40 <= d.store.stats().oldest_seconds < 45], [[A], None, [B], True]
    ),
    "without a queued key the oldest age is 0": Case(lambda d: [d.store.stats().oldest_seconds], [0]),
    "stats count what is queued, delayed, running and failing": Case(
        lambda d: [
            d.add(A, B, C),
            d.take(A),
            d.take(B),
            d.fail(B) > 0,
            d.job(5),
            (s := d.store.stats()) and (s.queued, s.delayed, s.running, s.unfinished, s.failing),
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
        lambda d: [d.add(), d.take(), d.finish(after_seconds=60), d.queued(), d.wait(61), d.due()],
        [[A], True, False, 0, None, [A]],
    ),
    "a pass that asks for later while there is news runs at once": Case(
        lambda d: [d.add(), d.take(), d.add(), d.finish(after_seconds=60), d.take()], [[A], True, [], True, True]
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
        lambda d: [d.add(), d.take(), d.fail() > 0, d.queued(), d.store.stats().delayed], [[A], True, True, 0, 1]
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
            d.store.stats().failing,
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
        lambda d: [d.add(), d.take(), d.add(), d.finish(failed=True), d.take()], [[A], True, [], True, True]
    ),
    "a failed key that also has a nearer time comes back then, and its next wait is longer": Case(
        lambda d: [
            len(fail_in_a_row(d, 5)),
            d.add(),
            d.take(),
            d.finish(failed=True, after_seconds=3),
            d.wait(3.1),
            d.due(),
            d.take(),
            d.fail() > 50,
        ],
        [5, [A], True, False, None, [A], True, True],
    ),
    "failures are told with the wait": Case(
        lambda d: [d.add(), d.take(), d.store.finish(d.holds[A], failed=True).failures], [[A], True, 1]
    ),
}

LEASES = {
    "a key that is held cannot be acquired by another worker": Case(
        lambda d: [d.add(), d.take(), d.add(), d.take(owner="worker-2")], [[A], True, [], False]
    ),
    "a lease that is renewed holds": Case(
        lambda d: [d.add(), d.take(), d.wait(20), d.renew(), d.wait(20), d.add(), d.take(owner="worker-2"), d.finish()],
        [[A], True, None, None, None, [], False, True],
    ),
    "a lapsed lease can be taken over once there is something to do": Case(
        lambda d: [d.add(), d.take(), d.wait(31), d.take(owner="worker-2"), d.add(), d.take(owner="worker-2")],
        [[A], True, None, False, [A], True],
    ),
    "the old holder is fenced when it renews": Case(
        lambda d: [
            d.add(),
            d.take(),
            (old := d.holds[A]).owner,
            d.wait(31),
            d.add(),
            d.take(owner="worker-2"),
            raised(lambda: d.renew(hold=old)),
            raised(d.renew),
        ],
        [[A], True, "worker-1", None, [A], True, "Fenced", ""],
    ),
    "the old holder is fenced when it renews, even when nobody took over": Case(
        lambda d: [d.add(), d.take(), d.wait(31), raised(d.renew)], [[A], True, None, "Fenced"]
    ),
    "the old holder is fenced when it raises a floor": Case(
        lambda d: [d.add(), d.take(), d.wait(31), raised(lambda: d.floor(("pods", 7)))], [[A], True, None, "Fenced"]
    ),
    "an old holder that finishes does not let go of the new holder's key": Case(
        lambda d: [
            d.add(),
            d.take(),
            (old := d.holds[A]).owner,
            d.wait(31),
            d.add(),
            d.take(owner="worker-2"),
            d.finish(hold=old, again=True, failed=True),
            d.store.stats().running,
            d.store.stats().failing,
            d.renew(),
            d.finish(),
        ],
        [[A], True, "worker-1", None, [A], True, False, 1, 0, None, False],
    ),
    "finishing twice does nothing the second time": Case(
        lambda d: [
            d.add(),
            d.take(),
            d.finish(),
            d.finish(again=True, after_seconds=1),
            d.queued(),
            d.store.stats().delayed,
        ],
        [[A], True, False, False, 0, 0],
    ),
    "what a lapsed holder wrote still raises the floor": Case(
        lambda d: [d.job(5), d.take(), d.wait(31), d.finish(("pods", 7)), d.view().floor, d.view().stale],
        [[A], True, None, False, {"pods": 7}, True],
    ),
    "a lapsed holder is not counted as running": Case(
        lambda d: [d.add(), d.take(), d.wait(31), d.store.stats().running], [[A], True, None, 0]
    ),
    "a key whose holder lapsed comes back at the resync, once": Case(
        lambda d: [d.add(), d.take(), d.wait(31), d.resync(1000), d.resync(1000), d.take()],
        [[A], True, None, [A], [], True],
    ),
    "news that came under a holder that died does not make the next pass run twice": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.wait(31), d.resync(1000), d.take(), d.finish()],
        [[A], True, [], None, [A], True, False],
    ),
}

RESYNC = {
    "with nothing lost a resync publishes nothing": Case(lambda d: [d.resync(), d.resync(everything=True)], [[], []]),
    "a key that has just been queued is not lost": Case(lambda d: [d.add(), d.resync()], [[A], []]),
    "a key whose task was lost is published again": Case(
        lambda d: [d.add(), d.wait(31), d.resync(), d.take()], [[A], None, [A], True]
    ),
    "a key that a worker holds is not lost": Case(
        lambda d: [d.add(), d.take(ttl_seconds=100), d.add(), d.wait(31), d.resync()], [[A], True, [], None, []]
    ),
    "a full resync queues each unfinished job once": Case(
        lambda d: [drain(d, d.job(5, A)), drain(d, d.job(6, B)), d.resync(everything=True), d.resync(everything=True)],
        [None, None, [A, B], []],
    ),
    "a full resync makes a running job run again": Case(
        lambda d: [d.job(5), d.take(), d.resync(everything=True), d.finish()], [[A], True, [], True]
    ),
    "finished jobs are in no resync": Case(
        lambda d: [drain(d, d.job(5)), d.job(6, finished=True), d.wait(1000), d.resync(0, everything=True)],
        [None, [], None, []],
    ),
    "deleted jobs are in no resync": Case(
        lambda d: [drain(d, d.job(5)), d.no_job(6), d.wait(1000), d.resync(0, everything=True)], [None, [], None, []]
    ),
    "a key is named once though it is lost for two reasons": Case(
        lambda d: [d.job(5), d.take(), d.add(), d.wait(31), d.resync(0, everything=True)], [[A], True, [], None, [A]]
    ),
    "one caller a period gets the task": Case(
        lambda d: [
            d.store.once("resync", 30),
            other(d).once("resync", 30),
            d.store.once("other", 30),
            d.wait(31),
            d.store.once("resync", 30),
        ],
        [True, False, True, None, True],
    ),
}

PROJECTION = {
    "what was applied is in the view": Case(
        lambda d: [d.job(5), d.pod(6), d.view().job, d.pods(), d.view().synced],
        [[A], [], b'{"rv":5}', {"a-0": b'{"pod":6}'}, True],
    ),
    "an unknown job is an empty view": Case(
        lambda d: [d.view().job, d.view().children, d.view().stale], [None, {}, False]
    ),
    "records are bytes and come back as they were": Case(
        lambda d: [d.job(5, record=b'{"a b":" \xc3\xa4\\n\x00"}'), d.view().job], [[A], b'{"a b":" \xc3\xa4\\n\x00"}']
    ),
    "an object without a version is news the first time": Case(
        lambda d: [d.job(0), d.pod(0), drain(d), d.pod(0), sorted(d.pods())], [[A], [], None, [], ["a-0"]]
    ),
    "a new job queues its key": Case(lambda d: [d.job(5), d.take()], [[A], True]),
    "several changes of one job queue its key once": Case(
        lambda d: [d.apply(a_job(5), a_pod(6), a_pod(7, name="a-1"), a_job(8))], [[A]]
    ),
    "changes of several jobs queue each": Case(lambda d: [d.apply(a_job(5, B), a_job(6, A))], [[B, A]]),
    "a thousand changes in one call are all applied": Case(
        lambda d: [d.apply(a_job(1), *(a_pod(i, name=f"a-{i}") for i in range(2, 1001))), len(d.pods())], [[A], 999]
    ),
    "the same change again is no news": Case(lambda d: [drain(d, d.job(5)), d.job(5), d.queued()], [None, [], 0]),
    "the same version with another record is news": Case(
        lambda d: [drain(d, d.job(5)), d.job(5, record=b"{}"), d.view().job], [None, [A], b"{}"]
    ),
    "older news of a job is dropped": Case(
        lambda d: [drain(d, d.job(5)), d.job(4), d.view().job], [None, [], b'{"rv":5}']
    ),
    "older news of a child is dropped": Case(
        lambda d: [d.job(5), drain(d, d.pod(7)), d.pod(6), d.pods()], [[A], None, [], {"a-0": b'{"pod":7}'}]
    ),
    "an older version of one child does not hide another child": Case(
        lambda d: [d.job(5), d.pod(9), drain(d), d.pod(6, name="a-1"), sorted(d.pods())],
        [[A], [], None, [A], ["a-0", "a-1"]],
    ),
    "a child that is deleted is gone, and that is news": Case(
        lambda d: [d.job(5), drain(d, d.pod(6)), d.no_pod(7), d.pods()], [[A], None, [A], {}]
    ),
    "an older deletion of a child that is there is dropped": Case(
        lambda d: [d.job(5), drain(d, d.pod(7)), d.no_pod(6), d.pods()], [[A], None, [], {"a-0": b'{"pod":7}'}]
    ),
    "a deleted child does not come back by older news": Case(
        lambda d: [d.job(5), d.pod(6), d.no_pod(8), drain(d), d.pod(7), d.pods()], [[A], [], [], None, [], {}]
    ),
    "a deletion told twice is news once": Case(
        lambda d: [d.job(5), d.pod(6), drain(d), d.no_pod(8), drain(d), d.no_pod(8)], [[A], [], None, [A], None, []]
    ),
    "a child made again under its name is news": Case(
        lambda d: [d.job(5), d.pod(6), d.no_pod(8), drain(d), d.pod(9), d.pods()],
        [[A], [], [], None, [A], {"a-0": b'{"pod":9}'}],
    ),
    "a child that comes before its job waits for it": Case(
        lambda d: [d.pod(4), d.queued(), d.job(5), d.pods()], [[], 0, [A], {"a-0": b'{"pod":4}'}]
    ),
    "a finished job keeps its record and drops its children": Case(
        lambda d: [d.job(5), d.pod(6), d.job(7, finished=True), d.view().job, d.view().children],
        [[A], [], [], b'{"rv":7}', {}],
    ),
    "a job that finishes queues nothing": Case(
        lambda d: [drain(d, d.job(5)), d.job(7, finished=True), d.queued(), d.store.stats().unfinished],
        [None, [], 0, 0],
    ),
    "later events of a finished job's children queue nothing and store nothing": Case(
        lambda d: [drain(d, d.job(5)), d.job(7, finished=True), d.pod(8), d.no_pod(9), d.queued(), d.view().children],
        [None, [], [], [], 0, {}],
    ),
    "a job that is already finished when it is first seen queues nothing": Case(
        lambda d: [d.job(7, finished=True), d.queued(), d.view().job], [[], 0, b'{"rv":7}']
    ),
    "a finished job that changes stays finished and queues nothing": Case(
        lambda d: [d.job(7, finished=True), d.job(9, finished=True), d.queued(), d.view().job], [[], [], 0, b'{"rv":9}']
    ),
    "a finished job that asked to be looked at later is": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish(after_seconds=60),
            d.job(7, finished=True),
            d.wait(61),
            d.due(),
            d.take(),
        ],
        [[A], True, False, [], None, [A], True],
    ),
    "a job that is deleted is gone, with nothing left to do": Case(
        lambda d: [d.job(5), d.no_job(6), d.view().job, d.queued(), d.take(), d.store.stats().unfinished],
        [[A], [], None, 0, False, 0],
    ),
    "a deleted job takes its delay and its failures with it": Case(
        lambda d: [d.job(5), d.take(), d.fail() > 0, d.no_job(6), d.store.stats().delayed, d.store.stats().failing],
        [[A], True, True, [], 0, 0],
    ),
    "a deleted job does not come back by older news": Case(
        lambda d: [d.job(5), d.no_job(7), d.job(6), d.view().job, d.queued()], [[A], [], [], None, 0]
    ),
    "children of a deleted job stay known until they go, and queue nothing": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.no_job(7),
            d.pod(8),
            list(d.store.known_keys()),
            d.no_pod(9),
            list(d.store.known_keys()),
        ],
        [[A], [], [], [], [A], [], []],
    ),
    "a job deleted and created again is queued": Case(
        lambda d: [drain(d, d.job(5)), d.no_job(6), d.job(8), d.take(), d.view().job],
        [None, [], [A], True, b'{"rv":8}'],
    ),
    "a finished job deleted and created again is queued": Case(
        lambda d: [d.job(5, finished=True), d.no_job(6), d.job(8), d.store.stats().unfinished], [[], [], [A], 1]
    ),
    "a finished job whose deletion nobody saw is queued when it is created again": Case(
        lambda d: [d.job(5, finished=True), d.job(8), d.pod(9), sorted(d.pods())], [[], [A], [], ["a-0"]]
    ),
    "children of the first job count for the second until they are gone": Case(
        lambda d: [d.job(5), d.pod(6), d.no_job(7), d.job(8), drain(d), sorted(d.pods()), d.no_pod(9), d.pods()],
        [[A], [], [], [A], None, ["a-0"], [A], {}],
    ),
    "the deletion of a child that the projection had dropped is still news": Case(
        lambda d: [d.pod(4), d.job(5, finished=True), drain(d, d.job(8)), d.no_pod(9)], [[], [], None, [A]]
    ),
    "keys with a job or with children are known": Case(
        lambda d: [d.job(5, A), d.pod(6, B), d.job(7, C, finished=True), list(d.store.known_keys())],
        [[A], [], [], [A, B, C]],
    ),
    "children are known by resource": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.pod(7, C, "c-0"),
            list(d.store.known_children([A, B, C], "pods")),
            list(d.store.known_children([A, B, C], "services")),
            list(d.store.known_children([A], "pods")),
        ],
        [[A], [], [], [(A, "a-0"), (C, "c-0")], [], [(A, "a-0")]],
    ),
    "nodes come and go and queue nothing": Case(
        lambda d: [
            d.store.apply_nodes(1, {"n1": b"1", "n2": b"2"}),
            d.store.apply_nodes(1, {"n1": None}),
            dict(d.store.nodes(["n1", "n2"])),
            list(d.store.known_nodes()),
            dict(d.store.view(A, ["n2", "n9"]).nodes),
            d.queued(),
        ],
        [None, None, {"n2": b"2"}, ["n2"], {"n2": b"2"}, 0],
    ),
    "loads of nodes come and go and queue nothing": Case(
        lambda d: [
            d.store.apply_loads(1, {"n1": b"1", "n2": b"2", "-": b"3"}),
            d.store.apply_loads(1, {"n1": None, "n2": b"4"}),
            dict((c := d.store.cluster()).loads),
            c.synced,
            d.queued(),
        ],
        [None, None, {"n2": b"4", "-": b"3"}, True, 0],
    ),
    "all loads at once leave none of an earlier writer's": Case(
        lambda d: [
            d.store.apply_loads(1, {"n1": b"1"}),
            d.store.apply_loads(1, {"n2": b"2"}, whole=True),
            dict(d.store.cluster().loads),
            d.store.apply_loads(1, {}, whole=True),
            dict(d.store.cluster().loads),
        ],
        [None, None, {"n2": b"2"}, None, {}],
    ),
    "more loads than one call of a script takes": Case(
        lambda d: [
            d.store.apply_loads(1, {"old": b"1"}),
            d.store.apply_loads(1, {f"n{i}": b"%d" % i for i in range(600)}, whole=True),
            (loads := d.store.cluster().loads) and len(loads),
            loads["n599"],
        ],
        [None, None, 600, b"599"],
    ),
    "the cluster is its nodes, with their loads, once everything has been seen": Case(
        lambda d: [
            d.store.lead(1),
            (c := d.store.cluster()).synced,
            d.store.apply_nodes(1, {"n": b"1"}),
            d.store.mark_synced(1),
            (c := d.store.cluster()).synced,
            dict(c.nodes),
            dict(c.loads),
        ],
        [None, False, None, None, True, {"n": b"1"}, {}],
        lead=False,
    ),
    "unfinished jobs are read with their versions": Case(
        lambda d: [
            d.job(5),
            d.pod(6, B),
            d.job(7, C, finished=True),
            d.job(8, B, record=b"a b c"),
            d.store.unfinished(),
        ],
        [[A], [], [], [B], {A: (5, b'{"rv":5}'), B: (8, b"a b c")}],
    ),
    "children of several jobs, of some resources": Case(
        lambda d: [
            d.job(5),
            d.pod(6, name="a-1"),
            d.pod(7, name="a-0", record=b"a b"),
            d.pod(8, C, "c-0"),
            d.apply(replace(a_pod(9), resource="services")),
            d.apply(replace(a_pod(10), resource="jobs", name="a-jobs")),
            {
                k: {of: dict(records) for of, records in v.items()}
                for k, v in d.store.children([A, B, C], ("pods", "jobs")).items()
            },
        ],
        [
            [A],
            [],
            [],
            [],
            [],
            [],
            {
                A: {"pods": {"a-0": b"a b", "a-1": b'{"pod":6}'}, "jobs": {"a-jobs": b'{"pod":10}'}},
                B: {"pods": {}, "jobs": {}},
                C: {"pods": {"c-0": b'{"pod":8}'}, "jobs": {}},
            },
        ],
    ),
}

SEEN = {
    "an event moves what has been seen of its resource": Case(
        lambda d: [d.job(5), d.pod(7), d.view().seen], [[A], [], {"aitrainingjobs": 5, "pods": 7}]
    ),
    "a deletion moves it too": Case(
        lambda d: [d.job(5), d.pod(7), d.no_pod(9), d.view().seen["pods"]], [[A], [], [], 9]
    ),
    "an older child does not move it back": Case(
        lambda d: [d.job(5), d.pod(9), d.pod(6, name="a-1"), d.view().seen["pods"]], [[A], [], [], 9]
    ),
    "a bookmark moves it for every job": Case(
        lambda d: [d.job(5), d.pod(7), d.progress(pods=20), d.view().seen["pods"], d.view(B).seen["pods"]],
        [[A], [], [], 20, 20],
    ),
    "progress never goes back": Case(
        lambda d: [d.progress(pods=20), d.progress(pods=10), d.view().seen["pods"]], [[], [], 20]
    ),
    "a bookmark of one namespace counts for its jobs alone": Case(
        lambda d: [d.progress(pods__default=20), d.view(A).seen.get("pods"), d.view(C).seen.get("pods")], [[], 20, None]
    ),
    "a view that has seen less than an own write is stale": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 9)), d.view().floor, d.view().stale],
        [[A], True, False, {"pods": 9}, True],
    ),
    "it is stale no more once the watch has shown the write": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 9)), d.pod(9), d.view().stale], [[A], True, False, [], False]
    ),
    "nor when a bookmark has passed it": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 9)), d.progress(pods=12), d.view().stale],
        [[A], True, False, [], False],
    ),
    "the job's own write is seen by the job's own event": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.view().stale, d.job(10), d.view().stale],
        [[A], True, False, True, [], False],
    ),
    "a floor never goes down": Case(
        lambda d: [d.job(5), d.take(), d.floor(("pods", 9)), d.finish(("pods", 8)), d.view().floor],
        [[A], True, None, False, {"pods": 9}],
    ),
    "a floor that is never reached lapses after five minutes": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 9)), d.wait(301), d.view().floor], [[A], True, False, None, {}]
    ),
    "a floor raised in the middle of a pass counts at once": Case(
        lambda d: [d.job(5), d.take(), d.floor(("pods", 9)), d.view().stale], [[A], True, None, True]
    ),
}

ECHOES = {
    "event after finish: the echo of an own write moves the projection and queues nothing": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 6)), d.pod(6), d.queued(), d.pods()],
        [[A], True, False, [], 0, {"a-0": b'{"pod":6}'}],
    ),
    "event before finish: the same": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.finish(("pods", 6)), d.queued(), d.pods()],
        [[A], True, [], False, 0, {"a-0": b'{"pod":6}'}],
    ),
    "event after the floor was raised in the pass: the same": Case(
        lambda d: [d.job(5), d.take(), d.floor(("pods", 6)), d.pod(6), d.finish(("pods", 6)), d.queued()],
        [[A], True, None, [], False, 0],
    ),
    "event before the floor was raised in the pass: the same": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.floor(("pods", 6)), d.finish(("pods", 6)), d.queued()],
        [[A], True, [], None, False, 0],
    ),
    "floor raised in the pass, event after finish: the same": Case(
        lambda d: [d.job(5), d.take(), d.floor(("pods", 6)), d.finish(), d.pod(6), d.queued()],
        [[A], True, None, False, [], 0],
    ),
    "one own write seen before finish, the other after": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.finish(("pods", 6), JOB), d.job(10), d.queued()],
        [[A], True, [], False, [], 0],
    ),
    "an own status write queues nothing": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.job(10), d.queued()], [[A], True, False, [], 0]
    ),
    "news after finish queues": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.job(11), d.take()], [[A], True, False, [A], True]
    ),
    "news while held queues at finish": Case(
        lambda d: [d.job(5), d.take(), d.job(11), d.finish(), d.take()], [[A], True, [], True, True]
    ),
    "news among own writes while held queues at finish": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.pod(7), d.finish(("pods", 6)), d.take()],
        [[A], True, [], [], True, True],
    ),
    "news between two own writes is not lost": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.pod(7), d.pod(8), d.finish(("pods", 6), ("pods", 8)), d.take()],
        [[A], True, [], [], [], True, True],
    ),
    "the same number of another resource is no echo": Case(
        lambda d: [d.job(5), d.take(), d.finish(("services", 6)), d.pod(6)], [[A], True, False, [A]]
    ),
    "an echo is taken for one only once": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 6)), d.pod(6), d.pod(7)], [[A], True, False, [], [A]]
    ),
    "an own write that the watch skipped does not swallow the next event": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 6)), d.pod(8), d.take()], [[A], True, False, [A], True]
    ),
    "echoes of two passes are told apart from news": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish(("pods", 6), again=True),
            d.take(),
            d.finish(("pods", 7)),
            d.pod(6),
            d.pod(7),
            d.pod(8),
        ],
        [[A], True, True, True, False, [], [], [A]],
    ),
    "an echo of the pass before, come while the key is held again, is no news": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 6), again=True), d.take(), d.pod(6), d.finish()],
        [[A], True, True, True, [], False],
    ),
    "own writes of a holder that was fenced at its end are news": Case(
        lambda d: [d.job(5), d.take(), d.wait(31), d.finish(("pods", 6)), d.pod(6), d.take()],
        [[A], True, None, False, [A], True],
    ),
    "own writes of a holder that died are news": Case(
        lambda d: [d.job(5), d.take(), d.wait(31), d.pod(6), d.take()], [[A], True, None, [A], True]
    ),
    "the echo of one job's write is none for another job": Case(
        lambda d: [
            d.job(5, A),
            d.job(6, B),
            d.take(A),
            d.take(B),
            d.finish(("pods", 9), key=A),
            d.finish(key=B),
            d.pod(9, B, "b-0"),
        ],
        [[A], [B], True, True, False, False, [B]],
    ),
    "an echo that never comes is forgotten after five minutes": Case(
        lambda d: [d.job(5), d.take(), d.finish(("pods", 6)), d.wait(301), d.pod(6)], [[A], True, False, None, [A]]
    ),
    "a dropped event while held is no news": Case(
        lambda d: [d.job(5), d.take(), d.job(4), d.finish()], [[A], True, [], False]
    ),
    "an own deletion is told by its own version": Case(
        lambda d: [d.job(5), d.pod(6), d.take(), d.finish(("pods", 9)), d.no_pod(9), d.queued(), d.pods()],
        [[A], [], True, False, [], 0, {}],
    ),
    "a deletion that left nothing is news when it comes after finish: what waited for it goes on": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.take(),
            d.finish(gone=(("pods", 9),)),
            d.view().stale,
            d.no_pod(9),
            d.view().stale,
        ],
        [[A], [], True, False, True, [A], False],
    ),
    "and when it comes before": Case(
        lambda d: [d.job(5), d.pod(6), d.take(), d.no_pod(9), d.finish(gone=(("pods", 9),)), d.view().stale, d.take()],
        [[A], [], True, [], True, False, True],
    ),
    "and when the floor was raised in the pass": Case(
        lambda d: [d.job(5), d.pod(6), d.take(), d.floor(gone=(("pods", 9),)), d.view().stale, d.finish(), d.no_pod(9)],
        [[A], [], True, None, True, False, [A]],
    ),
    "beside it the echo of another own write queues nothing": Case(
        lambda d: [d.job(5), d.pod(6), d.take(), d.finish(JOB, gone=(("pods", 9),)), d.job(10), d.no_pod(9)],
        [[A], [], True, False, [], [A]],
    ),
    "the own write that ends a job queues nothing": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.job(10, finished=True), d.queued()], [[A], True, False, [], 0]
    ),
}

WRITERS = {
    "nobody may write before it leads": Case(lambda d: [raised(lambda: d.job(5))], ["Lost"], lead=False),
    "an older writer is fenced as soon as a newer one leads": Case(
        lambda d: [
            other(d).lead(2),
            raised(lambda: d.job(5)),
            raised(lambda: d.store.lead(1)),
            raised(lambda: d.store.apply_nodes(1, {})),
            raised(lambda: d.store.apply_loads(1, {})),
            raised(lambda: d.store.mark_synced(1)),
        ],
        [None, "Fenced", "Fenced", "Fenced", "Fenced", "Fenced"],
    ),
    "the newer writer goes on with the projection as it stands": Case(
        lambda d: [
            drain(d, d.job(5)),
            (new := other(d)).lead(2),
            new.apply(2, [a_job(5)]),
            new.apply(2, [a_job(6)]),
            d.view().synced,
        ],
        [None, None, [], [A], True],
    ),
    "a writer of another form takes the form away, and one of the same does not": Case(
        lambda d: [
            d.store.mark_synced(1, "red", "f1"),
            d.store.lead(1, "f1"),
            d.store.history().form,
            d.store.lead(1),
            d.store.history().form,
            d.store.lead(1, "f2"),
            d.store.history().form,
        ],
        [None, None, "f1", None, "f1", None, ""],
    ),
    "a writer may lead again": Case(lambda d: [d.store.lead(1), d.job(5)], [None, [A]]),
    "a view is not synced before every list has been projected": Case(
        lambda d: [d.store.lead(1), d.job(5), d.view().synced, d.store.mark_synced(1), d.view().synced],
        [None, [A], False, None, True],
        lead=False,
    ),
}

HISTORY = {
    "says how far each watch has got, and of which cluster": Case(
        lambda d: [
            d.store.mark_synced(1, "red"),
            d.progress(pods=9, services__default=7),
            (h := d.store.history()).cluster,
            dict(h.progress),
        ],
        [None, [], "red", {"pods": 9, "services/default": 7}],
    ),
    "says whether it is whole, and in which form": Case(
        lambda d: [
            d.store.history().synced,
            d.store.lead(1),
            d.store.history().synced,
            d.store.mark_synced(1, "red", "f1"),
            (h := d.store.history()).synced,
            h.form,
            d.store.mark_synced(1, "red"),
            d.store.history().form,
        ],
        [False, None, False, None, True, "f1", None, ""],
        lead=False,
    ),
    "one that began anew is not whole": Case(
        lambda d: [d.store.mark_synced(1, "red", "f1"), d.store.forget_history(1), d.store.history().synced],
        [None, None, False],
    ),
    "nor is one that was lost, though somebody leads": Case(
        lambda d: [
            d.store.mark_synced(1, "red", "f1"),
            d.flush(),
            d.store.lead(1),
            (h := d.store.history()).synced,
            h.form,
        ],
        [None, None, None, False, ""],
    ),
    "a writer that does not know the cluster leaves what is known": Case(
        lambda d: [d.store.mark_synced(1, "red"), d.store.mark_synced(1), d.store.history().cluster],
        [None, None, "red"],
    ),
    "one that began anew knows nothing and is not synced": Case(
        lambda d: [
            d.store.mark_synced(1, "red"),
            d.job(5),
            d.pod(6),
            d.progress(pods=9),
            d.store.apply_nodes(1, {"n": b"{}"}),
            d.store.apply_loads(1, {"n": b"{}"}),
            d.store.forget_history(1),
            dict(d.store.cluster().loads),
            d.view().job,
            d.pods(),
            dict(d.view().seen),
            d.view().synced,
            list(d.store.known_keys()),
            list(d.store.known_nodes()),
            d.store.history().cluster,
            dict(d.store.history().progress),
        ],
        [None, [A], [], [], None, None, None, {}, None, {}, {}, False, [], [], "", {}],
    ),
    "lower versions are news again: of a job, of a child, of what was deleted": Case(
        lambda d: [
            d.job(50),
            d.pod(60),
            d.no_pod(61, name="a-1"),
            drain(d),
            d.store.forget_history(1),
            d.job(5),
            d.pod(6),
            d.pod(7, name="a-1"),
            sorted(d.pods()),
        ],
        [[A], [], [], None, None, [A], [], [], ["a-0", "a-1"]],
    ),
    "no floor makes a view stale for ever": Case(
        lambda d: [
            d.job(50),
            d.take(),
            d.floor(("pods", 90)),
            d.finish(),
            d.view().stale,
            d.store.forget_history(1),
            d.job(5),
            d.view().stale,
        ],
        [[A], True, None, False, True, None, [A], False],
    ),
    "no echo swallows an event of the same number": Case(
        lambda d: [
            d.job(50),
            d.take(),
            d.finish(("pods", 60)),
            d.store.forget_history(1),
            d.job(5),
            d.take(),
            d.finish(),
            d.pod(60),
        ],
        [[A], True, False, None, [A], True, False, [A]],
    ),
    "who holds a key holds it on, and tokens go on growing": Case(
        lambda d: [
            d.job(50),
            d.take(),
            (old := d.holds[A].token) > 0,
            d.store.forget_history(1),
            d.renew(),
            d.add(),
            d.finish(),
            d.take(),
            d.holds[A].token > old,
        ],
        [[A], True, True, None, None, [], True, True, True],
    ),
    "what is queued stays queued": Case(
        lambda d: [d.job(50), d.later(1, B), d.store.forget_history(1), d.wait(2), d.queued(), d.due()],
        [[A], None, None, None, 1, [B]],
    ),
    "no full resync queues what is no more": Case(
        lambda d: [
            d.job(50),
            drain(d),
            d.store.forget_history(1),
            d.resync(everything=True),
            d.store.stats().unfinished,
        ],
        [[A], None, None, [], 0],
    ),
    "an older writer may not end it": Case(
        lambda d: [other(d).lead(2), raised(lambda: d.store.forget_history(1))], [None, "Fenced"]
    ),
}

FLUSH = {
    "the writer is told that the projection has vanished": Case(
        lambda d: [d.job(5), d.flush(), raised(lambda: d.job(6)), raised(lambda: d.progress(pods=9))],
        [[A], None, "Lost", "Lost"],
    ),
    "a backup from before the loss is seen to be older, however many writes it has": Case(
        lambda d: [
            d.job(5),
            d.job(6),
            d.job(7),
            d.save(),
            d.flush(),
            d.store.lead(1),
            d.job(7),
            d.go_back(),
            raised(lambda: d.job(8)),
        ],
        [[A], [], [], None, None, None, [A], None, "Lost"],
    ),
    "a view is empty and not synced": Case(
        lambda d: [d.job(5), d.flush(), d.view().job, d.view().synced], [[A], None, None, False]
    ),
    "a queued key is not acquired": Case(lambda d: [d.job(5), d.flush(), d.take()], [[A], None, False]),
    "a holder is fenced when it renews, and harmless at finish": Case(
        lambda d: [d.job(5), d.take(), d.flush(), raised(d.renew), d.finish(("pods", 6), again=True), d.queued()],
        [[A], True, None, "Fenced", False, 0],
    ),
    "the writer leads again, lists everything, and every job is queued": Case(
        lambda d: [
            drain(d, d.job(5)),
            d.flush(),
            d.store.lead(1),
            d.job(5),
            d.view().synced,
            d.store.mark_synced(1),
            d.view().synced,
            d.take(),
        ],
        [None, None, None, [A], False, None, True, True],
    ),
    "an old holder cannot harm the holder after it": Case(
        lambda d: [
            d.job(5),
            d.take(),
            (old := d.holds[A]).owner,
            d.flush(),
            d.add(),
            d.take(owner="worker-2"),
            d.finish(hold=old),
            raised(lambda: d.renew(hold=old)),
            d.renew(),
        ],
        [[A], True, "worker-1", None, [A], True, False, "Fenced", None],
    ),
    "a resync and a drain find nothing and break nothing": Case(
        lambda d: [d.job(5), d.later(1), d.flush(), d.resync(0, everything=True), d.due(), d.store.stats().queued],
        [[A], None, None, [], [], 0],
    ),
}


def fail_in_a_row(d: Drive, times: int) -> list[float]:
    waits = []
    for _ in range(times):
        d.add()
        assert d.take()
        waits.append(d.fail())
    return waits


def other(d: Drive) -> Any:
    """The store as another process has it."""
    return d.world.another()


def drain(d: Drive, *_: Any) -> Any:
    """Whatever is queued is done, with nothing written."""
    for key in (A, B, C):
        if d.take(key):
            d.finish(key=key)


TABLES = {
    "queue": QUEUE,
    "delays": DELAYS,
    "failures": FAILURES,
    "leases": LEASES,
    "resync": RESYNC,
    "projection": PROJECTION,
    "seen": SEEN,
    "echoes": ECHOES,
    "writers": WRITERS,
    "history": HISTORY,
    "flushall": FLUSH,
}
CASES = {f"{table}: {sentence}": case for table, cases in TABLES.items() for sentence, case in cases.items()}


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    case = CASES[sentence]
    assert case.do(Drive(world, lead=case.lead)) == case.want
