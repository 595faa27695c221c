"""Keys that one task takes together: which, how each is given back, and what their deaths say of each."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from tests.integration.store.contract import Case, named, play
from tests.integration.store.driver import A, B, C, a_pod, many, raised
from tests.integration.store.worlds import World
from tjworker.api.resources import PODS
from tjworker.base import KEYS_PER_TASK, RECORDS_PER_TASK
from tjworker.store.work_queue import AtOnce, OnNews, PassEnding, Written

TOGETHER = {
    "a task takes the keys whose turn it is, of each namespace one and then of the next": Case(
        lambda d: [d.add(A, B, C), d.turns(), d.turns()], [[A, B, C], [A, C, B], []]
    ),
    "it takes no more than it may, and publishes what is left when no task waits": Case(
        lambda d: [len(d.add(*many(5))), len(d.turns(3)), d.left, len(d.turns(3)), d.left], [5, 3, many(5)[3:4], 2, []]
    ),
    "what is left has its task where one waits": Case(
        lambda d: [len(d.add(*many(5))), d.messages(1), len(d.turns(3)), d.left], [5, None, 3, []]
    ),
    "of more than a task serves, others have their tasks": Case(
        lambda d: [len(d.add(*many(40))), d.messages(2), len(d.turns()), d.left], [40, None, KEYS_PER_TASK, []]
    ),
    "each is leased by itself": Case(
        lambda d: [d.add(A, B), d.turns(), d.stats().running, d.claims[A].token != d.claims[B].token, d.turn()],
        [[A, B], [A, B], 2, True, None],
    ),
    "all are given back at once, each as it says": Case(
        lambda d: [
            d.job(5, A),
            d.job(6, B),
            d.add(C),
            sorted(d.turns()) == sorted([A, B, C]),
            d.pod(7, A),
            d.pod(8, B),
            d.finish_all(
                PassEnding(d.claims[A], Written([(PODS, 7)])),
                PassEnding(d.claims[B]),
                PassEnding(d.claims[C], next_pass=OnNews(60)),
            ),
            d.turns(),
            d.stats().delayed,
        ],
        [[A], [B], [C], True, [], [], [False, True, False], [B], 1],
    ),
    "one whose lease has lapsed keeps none of the others, and is queued": Case(
        lambda d: [
            d.add(A, B),
            d.turns(ttl_seconds=20),
            d.renew(B, ttl_seconds=60),
            d.wait(21),
            d.finish_all(PassEnding(d.claims[A], next_pass=AtOnce()), PassEnding(d.claims[B], next_pass=AtOnce())),
            d.resync(),
        ],
        [[A, B], [A, B], None, None, [True, True], []],
    ),
    "all are renewed at once, but those that have lapsed": Case(
        lambda d: [
            d.add(A, B, C),
            d.turns(ttl_seconds=20),
            d.renew(B, ttl_seconds=60),
            d.renew(C, ttl_seconds=60),
            d.wait(21),
            d.renew_all(*(d.claims[key] for key in (A, B, C)), ttl_seconds=90),
            d.wait(80),
            d.resync(),
        ][5:],
        [["Fenced", "", ""], None, [A]],
    ),
    "where all have lapsed that is an error": Case(
        lambda d: [d.add(A), d.turn(), d.wait(31), raised(lambda: d.renew_all(d.claims[A]))], [[A], A, None, "Fenced"]
    ),
    "a fenced one keeps none of the others": Case(
        lambda d: [
            d.add(A, B),
            d.turns(),
            old := dict(d.claims),
            d.wait(31),
            d.resync(),
            d.turn(A, "worker-2"),
            d.finish_all(PassEnding(old[A], next_pass=AtOnce()), PassEnding(d.claims[A])),
        ][3:],
        [None, [A, B], A, [False, False]],
    ),
    "an end that is told again says again that a task is missing": Case(
        lambda d: (
            [d.add(A, B), d.turns()]
            + [d.finish_all(PassEnding(d.claims[A], next_pass=AtOnce()), PassEnding(d.claims[B])) for _ in range(2)]
            + [d.messages(1), d.finish_all(PassEnding(d.claims[A], next_pass=AtOnce())), d.messages(0)]
            + [d.turns(), d.finish_all(PassEnding(replace(d.claims[A], token=1), next_pass=AtOnce()))]
        ),
        [[A, B], [A, B], [True, False], [True, False], None, [False], None, [A], [False]],
    ),
    "when their process dies each comes back, and alone": Case(
        lambda d: [d.add(A, B), d.turns(), d.wait(31), d.resync(), d.turns(), d.left, d.turns(), d.left],
        [[A, B], [A, B], None, [A, B], [A], [B], [B], []],
    ),
    "and the one that lives has not died": Case(
        lambda d: [
            d.add(A, B),
            d.turns(),
            d.wait(31),
            d.resync(),
            d.turns(),
            d.turns(),
            d.finish(key=B),
            d.wait(31),
            d.resync(),
            d.add(B),
            d.turns(),
            d.claims[B].deaths,
            d.stats().delayed > 0,
        ],
        [[A, B], [A, B], None, [A, B], [A], [B], False, None, [], [B], [B], 0, True],
    ),
    "one that has died keeps its turn, behind those before it": Case(
        lambda d: [d.add(B), d.turns(), d.wait(31), d.add(A), d.resync(), d.turns(), d.left, d.turns()],
        [[B], [B], None, [A], [B], [A], [B], [B]],
    ),
    "a big job comes alone, the small ones before it together": Case(
        lambda d: [
            d.job(5, A) + d.job(6, B) + d.job(7, C),
            len(d.apply(*(a_pod(10 + n, B, f"b-{n}") for n in range(RECORDS_PER_TASK)))),
            d.turns(),
            d.left,
            d.turns(),
        ],
        [[A, B, C], 0, [A, C], [B], [B]],
    ),
    "while a task waits for the line, a key that joins it needs none": Case(
        lambda d: [d.messages(1), d.add(A), d.job(5, B), d.later(1, C), d.wait(2), d.due(), d.turns(), d.messages(0)],
        [None, [], [], None, None, [], [A, C, B], None],
    ),
    "nor does one that a pass queues again": Case(
        lambda d: [d.add(A), d.take(), d.messages(1), d.finish(next_pass=AtOnce()), d.turn()],
        [[A], True, None, False, A],
    ),
}


def in_this_line(line: str) -> Case:
    """`line`: keys in the order of their turns, `x` for one whose last pass died. Tasks take what stands together."""
    keys = many(len(line))
    states = dict(zip(keys, line, strict=True))
    died = [key for key in keys if states[key] == "x"]
    return Case(
        lambda d: [
            d.add(*died) == d.turns() == died,
            d.wait(31),
            [d.add(key) for key in keys] and list(iter(lambda: "".join(states[key] for key in d.turns()), "")),
        ],
        [True, None, re.findall(r"x|\.+", line)],
    )


LINES = {
    f"in the line {line} each that died is taken alone": in_this_line(line)
    for line in map("".join, itertools.product(".x", repeat=4))
    if "x" in line
}
CASES = named(together=TOGETHER, died=LINES)


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    play(CASES[sentence], world)
