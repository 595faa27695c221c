"""Events of own writes queue nothing; news does, whatever the order."""

from __future__ import annotations

import pytest

from tests.integration.store.contract import Case, named, play
from tests.integration.store.driver import JOB, A, B
from tests.integration.store.worlds import World
from tjworker.api.resources import PODS, SERVICES
from tjworker.store.work_queue import AtOnce, OnOwnWrite

ECHOES = {
    "event after finish: the echo of an own write moves the projection and queues nothing": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 6)), d.pod(6), d.queued(), d.pods()],
        [[A], True, False, [], 0, {"a-0": b'{"pod":6}'}],
    ),
    "event before finish: the same": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.finish((PODS, 6)), d.queued(), d.pods()],
        [[A], True, [], False, 0, {"a-0": b'{"pod":6}'}],
    ),
    "event after the minimum observed version was raised in the pass: the same": Case(
        lambda d: [d.job(5), d.take(), d.min_observed((PODS, 6)), d.pod(6), d.finish((PODS, 6)), d.queued()],
        [[A], True, None, [], False, 0],
    ),
    "event before the minimum observed version was raised in the pass: the same": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.min_observed((PODS, 6)), d.finish((PODS, 6)), d.queued()],
        [[A], True, [], None, False, 0],
    ),
    "minimum observed version raised in the pass, event after finish: the same": Case(
        lambda d: [d.job(5), d.take(), d.min_observed((PODS, 6)), d.finish(), d.pod(6), d.queued()],
        [[A], True, None, False, [], 0],
    ),
    "one own write seen before finish, the other after": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.finish((PODS, 6), JOB), d.job(10), d.queued()],
        [[A], True, [], False, [], 0],
    ),
    "an own status write queues nothing": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.job(10), d.queued()], [[A], True, False, [], 0]
    ),
    "a change that no pass decides on is shown, and queues nothing": Case(
        lambda d: [d.job(5), d.take(), d.finish(), d.quiet_job(9), d.queued(), d.view().job],
        [[A], True, False, [], 0, b'{"rv":9}'],
    ),
    "the same while leased": Case(
        lambda d: [d.job(5), d.take(), d.quiet_job(9), d.finish(), d.queued()], [[A], True, [], False, 0]
    ),
    "the news after it queues": Case(
        lambda d: [d.job(5), d.take(), d.finish(), d.quiet_job(9), d.job(10), d.take()],
        [[A], True, False, [], [A], True],
    ),
    "news after finish queues": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.job(11), d.take()], [[A], True, False, [A], True]
    ),
    "news while leased queues at finish": Case(
        lambda d: [d.job(5), d.take(), d.job(11), d.finish(), d.take()], [[A], True, [], True, True]
    ),
    "news among own writes while leased queues at finish": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.pod(7), d.finish((PODS, 6)), d.take()],
        [[A], True, [], [], True, True],
    ),
    "news between two own writes is not lost": Case(
        lambda d: [d.job(5), d.take(), d.pod(6), d.pod(7), d.pod(8), d.finish((PODS, 6), (PODS, 8)), d.take()],
        [[A], True, [], [], [], True, True],
    ),
    "the same number of another resource is no echo": Case(
        lambda d: [d.job(5), d.take(), d.finish((SERVICES, 6)), d.pod(6)], [[A], True, False, [A]]
    ),
    "an echo is taken for one only once": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 6)), d.pod(6), d.pod(7)], [[A], True, False, [], [A]]
    ),
    "an own write that the watch skipped does not swallow the next event": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 6)), d.pod(8), d.take()], [[A], True, False, [A], True]
    ),
    "echoes of two passes are told apart from news": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish((PODS, 6), next_pass=AtOnce()),
            d.take(),
            d.finish((PODS, 7)),
            d.pod(6),
            d.pod(7),
            d.pod(8),
        ],
        [[A], True, True, True, False, [], [], [A]],
    ),
    "an echo of the pass before, come while the key is leased again, is no news": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 6), next_pass=AtOnce()), d.take(), d.pod(6), d.finish()],
        [[A], True, True, True, [], False],
    ),
    "own writes of a holder that was fenced at its end are news": Case(
        lambda d: [d.job(5), d.take(), d.wait(31), d.finish((PODS, 6)), d.take(), d.finish(), d.pod(6), d.take()],
        [[A], True, None, True, True, False, [A], True],
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
            d.finish((PODS, 9), key=A),
            d.finish(key=B),
            d.pod(9, B, "b-0"),
        ],
        [[A], [B], True, True, False, False, [B]],
    ),
    "an echo that never comes is forgotten after five minutes": Case(
        lambda d: [d.job(5), d.take(), d.finish((PODS, 6)), d.wait(301), d.pod(6)], [[A], True, False, None, [A]]
    ),
    "a dropped event while leased is no news": Case(
        lambda d: [d.job(5), d.take(), d.job(4), d.finish()], [[A], True, [], False]
    ),
    "an own deletion is told by its own version": Case(
        lambda d: [d.job(5), d.pod(6), d.take(), d.finish((PODS, 9)), d.no_pod(9), d.queued(), d.pods()],
        [[A], [], True, False, [], 0, {}],
    ),
    "a deletion that left nothing is news when it comes after finish: what waited for it goes on": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.take(),
            d.finish(gone=((PODS, 9),)),
            d.view().stale,
            d.no_pod(9),
            d.view().stale,
        ],
        [[A], [], True, False, True, [A], False],
    ),
    "and when it comes before": Case(
        lambda d: [d.job(5), d.pod(6), d.take(), d.no_pod(9), d.finish(gone=((PODS, 9),)), d.view().stale, d.take()],
        [[A], [], True, [], True, False, True],
    ),
    "and when the minimum observed version was raised in the pass": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.take(),
            d.min_observed(gone=((PODS, 9),)),
            d.view().stale,
            d.finish(),
            d.no_pod(9),
        ],
        [[A], [], True, None, True, False, [A]],
    ),
    "beside it the echo of another own write queues nothing": Case(
        lambda d: [d.job(5), d.pod(6), d.take(), d.finish(JOB, gone=((PODS, 9),)), d.job(10), d.no_pod(9)],
        [[A], [], True, False, [], [A]],
    ),
    "an own write that the watch of all namespaces has gone beyond has no echo to come": Case(
        lambda d: [d.job(5), d.progress(pods=50), d.take(), d.finish((PODS, 40)), d.pod(40)],
        [[A], [], True, False, [A]],
    ),
    "nor one that the watch of its own namespace has gone beyond": Case(
        lambda d: [d.job(5), d.progress(pods__default=50), d.take(), d.finish((PODS, 40)), d.pod(40)],
        [[A], [], True, False, [A]],
    ),
    "the watch of another namespace says nothing of it": Case(
        lambda d: [d.job(5), d.progress(pods__other=50), d.take(), d.finish((PODS, 40)), d.pod(40)],
        [[A], [], True, False, []],
    ),
    "the own write that ends a job queues nothing": Case(
        lambda d: [d.job(5), d.take(), d.finish(JOB), d.job(10, finished=True), d.queued()], [[A], True, False, [], 0]
    ),
}

BEHIND = {
    "the event that a pass waits for queues its key": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish((PODS, 6), next_pass=AtOnce()),
            d.take(),
            d.finish(next_pass=OnOwnWrite(9)),
            d.pod(6),
            d.take(),
            d.view().stale,
        ],
        [[A], True, True, True, False, [A], True, False],
    ),
    "an event that came while the pass ran queues it at once": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish((PODS, 6), next_pass=AtOnce()),
            d.take(),
            d.pod(6),
            d.finish(next_pass=OnOwnWrite(9)),
            d.take(),
        ],
        [[A], True, True, True, [], True, True],
    ),
    "so does the watch's progress beyond it": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish((PODS, 6), next_pass=AtOnce()),
            d.take(),
            d.progress(pods=7),
            d.finish(next_pass=OnOwnWrite()),
        ],
        [[A], True, True, True, [], True],
    ),
    "the echoes of its earlier writes queue nothing": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish((PODS, 6), (PODS, 7), next_pass=AtOnce()),
            d.take(),
            d.finish(next_pass=OnOwnWrite()),
            d.pod(6),
            d.pod(7, name="a-1"),
        ],
        [[A], True, True, True, False, [], [A]],
    ),
    "of each resource the last one counts": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish((PODS, 6), JOB, next_pass=AtOnce()),
            d.take(),
            d.finish(next_pass=OnOwnWrite()),
            d.job(10),
            d.take(),
            d.finish(next_pass=OnOwnWrite()),
            d.pod(6),
        ],
        [[A], True, True, True, False, [A], True, False, [A]],
    ),
    "it comes after its time, too: the watch may skip the event": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.finish((PODS, 6), next_pass=AtOnce()),
            d.take(),
            d.finish(next_pass=OnOwnWrite(9)),
            d.wait(10),
            d.due(),
        ],
        [[A], True, True, True, False, None, [A]],
    ),
}

CASES = named(echoes=ECHOES, behind=BEHIND)


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    play(CASES[sentence], world)
