"""Leases on keys, what the resync finds, and what a lost Redis takes with it."""

from __future__ import annotations

import pytest

from tests.integration.store.contract import Case, named, play
from tests.integration.store.driver import JOBS, A, B, Drive, drain, many, other, raised
from tests.integration.store.worlds import World
from tjworker.api.resources import PODS
from tjworker.base import KEYS_PER_TASK, JobKey
from tjworker.store.work_queue import AtOnce, WithBackoff


def _steady(d: Drive, *, lost: int) -> list[int]:
    """A new key every five seconds, each with its task, which a worker takes at once; so many of the first tasks are
    lost. How many keys wait for a task of another key at each of the next resyncs, after what they published has run.
    A resync that publishes more than what is lost fails."""
    waiting, published, number = [], 0, 0
    for _ in range(5):
        for _ in range(6):
            for _ in range(1 + (number == 0) * lost):
                number += 1
                d.add(JobKey(f"aitrainingjobs.elasticdeeplearning.ai/n{number % 3}/k{number:03}"))
            d.finish(key=d.turn(JobKey("")) or A)
            d.wait(5)
        again = d.resync()
        published += len(again)
        for _ in again:
            d.finish(key=d.turn(JobKey("")) or A)
        waiting.append(d.queued())
    assert published == lost
    return waiting


LEASES = {
    "a key that is leased cannot be acquired by another worker": Case(
        lambda d: [d.add(), d.take(), d.add(), d.take(owner="worker-2")], [[A], True, [], False]
    ),
    "a lease that is renewed stays": Case(
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
            (old := d.claims[A]).owner,
            d.wait(31),
            d.add(),
            d.take(owner="worker-2"),
            raised(lambda: d.renew(claim=old)),
            raised(d.renew),
        ],
        [[A], True, "worker-1", None, [A], True, "Fenced", ""],
    ),
    "the old holder is fenced when it renews, even when no other took over": Case(
        lambda d: [d.add(), d.take(), d.wait(31), raised(d.renew)], [[A], True, None, "Fenced"]
    ),
    "the old holder is fenced when it raises a minimum observed version": Case(
        lambda d: [d.add(), d.take(), d.wait(31), raised(lambda: d.min_observed((PODS, 7)))],
        [[A], True, None, "Fenced"],
    ),
    "an old holder that finishes does not let go of the new holder's key": Case(
        lambda d: [
            d.add(),
            d.take(),
            (old := d.claims[A]).owner,
            d.wait(31),
            d.add(),
            d.take(owner="worker-2"),
            d.finish(claim=old, next_pass=WithBackoff()),
            d.stats().running,
            d.stats().failing,
            d.renew(),
            d.finish(),
        ],
        [[A], True, "worker-1", None, [A], True, False, 1, 0, None, False],
    ),
    "finishing twice does nothing the second time": Case(
        lambda d: [d.add(), d.take(), d.finish(), d.finish(next_pass=AtOnce()), d.queued(), d.stats().delayed],
        [[A], True, False, False, 0, 0],
    ),
    "what a lapsed holder wrote still raises the minimum observed version": Case(
        lambda d: [d.job(5), d.take(), d.wait(31), d.finish((PODS, 7)), d.view().min_observed, d.view().stale],
        [[A], True, None, True, {PODS: 7}, True],
    ),
    "a lapsed holder is not counted as running": Case(
        lambda d: [d.add(), d.take(), d.wait(31), d.stats().running], [[A], True, None, 0]
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
    "a key that a worker has leased is not lost": Case(
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
    "a task that is on its way to its key is not lost": Case(
        lambda d: [d.add(A), d.resync(), d.take(), d.finish(), d.add(B), d.messages(1), d.resync(), d.resync()],
        [[A], [], True, False, [B], None, [], []],
    ),
    "a task that is missing at two resyncs is lost, however short each key waits": Case(
        lambda d: [_steady(d, lost=1)], [[1, 0, 0, 0, 0]]
    ),
    "so are several, whatever comes meanwhile": Case(lambda d: [_steady(d, lost=4)], [[4, 0, 0, 0, 0]]),
    "while nothing is lost a steady flow gets no second tasks": Case(
        lambda d: [_steady(d, lost=0), d.messages(0)], [[0, 0, 0, 0, 0], None]
    ),
    "of more that are missing than before, so many as before are lost, each for as many keys as a task serves": Case(
        lambda d: [d.add(A), d.resync(), len(d.add(*many(40))), len(d.resync()), d.messages(1), len(d.resync())],
        [[A], [], 40, KEYS_PER_TASK, None, 2 * KEYS_PER_TASK],
    ),
    "a task that waits serves as many keys as a task does, and no more": Case(
        lambda d: [d.messages(1), d.add(*many(16)), d.resync(), d.add(A), d.resync(), len(d.resync()), d.messages(0)],
        [None, [], [], [A], [], KEYS_PER_TASK, None],
    ),
    "a task that a resync has published is not missing": Case(
        lambda d: [d.add(A), d.wait(31), d.resync(), d.messages(1), d.resync(), d.messages(0), d.resync(), d.resync()],
        [[A], None, [A], None, [], None, [A], [A]],
    ),
    "a version at which a job rests is kept for a day, for that job alone": Case(
        lambda d: [
            *(d.job(5), d.rests_at(), d.note_rest("7"), d.rests_at(), d.rests_at(B), d.wait(86_401), d.rests_at())
        ],
        [[A], "", None, "7", "", None, ""],
    ),
    "a job that rests keeps no minimum of versions that the watch has shown": Case(
        lambda d: [
            *(d.job(5), d.take(), d.min_observed((JOBS, 5), (PODS, 7)), d.note_rest("5"), d.view().min_observed),
            *(d.progress(pods=7), d.note_rest("5"), d.view().min_observed),
        ],
        [[A], True, None, None, {JOBS: 5, PODS: 7}, [], None, {}],
    ),
    "one caller a period gets the task": Case(
        lambda d: [d.once("resync", 30), other(d).maintenance.once("resync", 30), d.once("other", 30)],
        [True, False, True],
    ),
    "and one in the next": Case(lambda d: [d.once("resync", 30), d.wait(31), d.once("resync", 30)], [True, None, True]),
    "a task's key that never ends, or ends after the period, stops it for no period": Case(
        lambda d: [[d.taken("resync", ends), *(d.once("resync", 30) for _ in range(2))] for ends in (None, 10**9)],
        [[None, True, False]] * 2,
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
            d.projection.lead(1),
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
        lambda d: [d.job(5), d.take(), d.flush(), raised(d.renew), d.finish((PODS, 6), next_pass=AtOnce()), d.queued()],
        [[A], True, None, "Fenced", False, 0],
    ),
    "the writer leads again, lists everything, and every job is queued": Case(
        lambda d: [
            drain(d, d.job(5)),
            d.flush(),
            d.projection.lead(1),
            d.job(5),
            d.view().synced,
            d.projection.mark_synced(1),
            d.view().synced,
            d.take(),
        ],
        [None, None, None, [A], False, None, True, True],
    ),
    "an old holder cannot harm the holder after it": Case(
        lambda d: [
            d.job(5),
            d.take(),
            (old := d.claims[A]).owner,
            d.flush(),
            d.add(),
            d.take(owner="worker-2"),
            d.finish(claim=old),
            raised(lambda: d.renew(claim=old)),
            d.renew(),
        ],
        [[A], True, "worker-1", None, [A], True, False, "Fenced", None],
    ),
    "a resync and a drain find nothing and break nothing": Case(
        lambda d: [d.job(5), d.later(1), d.flush(), d.resync(0, everything=True), d.due(), d.stats().queued],
        [[A], None, None, [], [], 0],
    ),
}


def _die(d: Drive, times: int = 1, key: JobKey = A) -> list[float]:
    """Passes over a job that die one after another, each found by a resync. How long the key then waits, each time."""
    waits = []
    for _ in range(times):
        d.later(0, key)
        d.wait(300.1)
        d.due()
        assert d.turn(key) == key
        d.wait(31)
        came = d.resync(1000)
        waits.append(0.0 if came else _waits(d))
    return waits


def _held(d: Drive) -> list[JobKey]:
    """Passes over A die until it waits. What the resync that finds the last death publishes."""
    _die(d, 2)
    d.take()
    d.wait(31)
    return d.resync(1000)


def _waits(d: Drive) -> float:
    """Seconds until the next key is due, to the next of ten."""
    for seconds in range(10, 1000, 10):
        d.wait(10)
        if d.due():
            return float(seconds)
    return -1.0


DEATHS = {
    "a pass that died is tried again at once": Case(
        lambda d: [d.add(), d.take(), d.wait(31), d.resync(1000), d.take(), d.claims[A].deaths],
        [[A], True, None, [A], True, 1],
    ),
    "from the second on it waits, longer each time, up to five minutes": Case(
        lambda d: [_die(d, 8)], [[0, 10, 20, 40, 80, 160, 300, 300]]
    ),
    "the pass is told how many have died before it": Case(
        lambda d: [len(_die(d, 3)), d.take(), d.claims[A].deaths], [3, True, 3]
    ),
    "a pass that finishes, well or not, ends the row": Case(
        lambda d: [len(_die(d, 5)), d.take(), d.fail() > 0, _die(d, 2)], [5, True, True, [0, 10]]
    ),
    "the deaths of one key hold no other": Case(
        lambda d: [len(_die(d, 4)), d.turn(), d.add(B), d.take(B), d.claims[B].deaths], [4, A, [B], True, 0]
    ),
    "news does not end the wait, nor does a full resync": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.wait(31),
            d.resync(),
            d.take(),
            d.wait(31),
            d.resync(1000),
            d.pod(6),
            d.add(),
            d.resync(0, everything=True),
            d.queued(),
            d.wait(11),
            d.due(),
            d.take(),
            sorted(d.pods()),
        ],
        [[A], True, None, [A], True, None, [], [], [], [], 0, None, [A], True, ["a-0"]],
    ),
    "a new spec does: it may be the cure": Case(
        lambda d: [d.spec(5, 1), _held(d), d.spec(7, 2), d.take(), d.claims[A].deaths, d.finish(), d.due()],
        [[A], [], [A], True, 3, False, []],
    ),
    "a status that is written does not, whoever wrote it": Case(
        lambda d: [d.spec(5, 1), _held(d), d.spec(7, 1), d.queued()], [[A], [], [], 0]
    ),
    "a new spec that comes while a pass over the old one dies spares the wait": Case(
        lambda d: [
            d.spec(5, 1),
            len(_die(d, 4)),
            d.take(),
            d.spec(7, 2),
            d.wait(31),
            d.resync(1000),
            d.stats().delayed,
            d.take(),
            d.claims[A].deaths,
        ],
        [[A], 4, True, [], None, [A], 0, True, 5],
    ),
    "so it does when something else has queued the key before": Case(
        lambda d: [
            d.spec(5, 1),
            len(_die(d, 4)),
            d.take(),
            d.add(),
            d.wait(31),
            d.spec(7, 2),
            d.resync(1000),
            d.take(),
            d.claims[A].deaths,
        ],
        [[A], 4, True, [], None, [], [A], True, 5],
    ),
    "and when news finds the death": Case(
        lambda d: [d.spec(5, 1), len(_die(d, 4)), d.take(), d.spec(7, 2), d.wait(31), d.pod(8), d.take()],
        [[A], 4, True, [], None, [A], True],
    ),
    "a status that comes while the pass dies spares nothing, nor does a new pod": Case(
        lambda d: [d.spec(5, 1), len(_die(d, 4)), d.take(), d.spec(7, 1), d.pod(8), d.wait(31), d.resync(1000)],
        [[A], 4, True, [], [], None, []],
    ),
    "it spares one wait, not that after the next death": Case(
        lambda d: [
            d.spec(5, 1),
            len(_die(d, 3)),
            d.take(),
            d.spec(7, 2),
            d.wait(31),
            d.resync(1000),
            d.take(),
            d.wait(31),
            d.resync(1000),
            _waits(d),
        ],
        [[A], 3, True, [], None, [A], True, None, [], 80],
    ),
    "a pass that finishes over a new spec is followed by one that has seen it": Case(
        lambda d: [d.spec(5, 1), len(_die(d, 2)), d.take(), d.spec(7, 2), d.finish()], [[A], 2, True, [], True]
    ),
    "news finds a death before the resync does": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.wait(31),
            d.pod(6),
            d.take(),
            d.claims[A].deaths,
            d.wait(31),
            d.pod(7),
            d.resync(1000),
            d.queued(),
            d.stats().delayed,
        ],
        [[A], True, None, [A], True, 1, None, [], [], 0, 1],
    ),
    "what was queued while the pass ran that died waits with it": Case(
        lambda d: [len(_die(d, 2)), d.take(), d.add(), d.wait(31), d.resync(0), d.queued()], [2, True, [], None, [], 0]
    ),
    "a pass that ends after its lease has not died": Case(
        lambda d: [d.add(), d.take(), d.wait(31), d.resync(1000), d.finish(), d.take(), d.claims[A].deaths],
        [[A], True, None, [A], True, True, 0],
    ),
    "its key is queued even where nobody has missed it yet": Case(
        lambda d: [d.add(), d.take(), d.wait(31), d.finish(), d.stats().running, d.take(), d.claims[A].deaths],
        [[A], True, None, True, 0, True, 0],
    ),
    "so is what was queued while the pass ran": Case(
        lambda d: [d.add(), d.take(), d.add(), d.wait(31), d.finish(), d.take(), d.finish(), d.resync(0)],
        [[A], True, [], None, True, True, False, []],
    ),
    "it ends the wait after a death that was none": Case(
        lambda d: [_die(d), d.take(), d.wait(31), d.resync(1000), d.finish(), d.take(), d.claims[A].deaths],
        [[0], True, None, [], True, True, 1],
    ),
    "it spares no wait after those that were": Case(
        lambda d: [
            _die(d, 3),
            d.take(),
            d.wait(31),
            d.resync(1000),
            d.finish(),
            d.queued(),
            _waits(d),
            d.take(),
            d.claims[A].deaths,
        ],
        [[0, 10, 20], True, None, [], False, 0, 40, True, 3],
    ),
    "a pass that ends late takes nothing from the one that has its key": Case(
        lambda d: [
            d.add(),
            d.take(),
            (late := d.claims[A]) and None,
            d.wait(31),
            d.resync(1000),
            d.take(),
            d.finish(claim=late),
            d.stats().running,
            d.wait(31),
            d.resync(1000),
            d.take(),
            d.claims[A].deaths,
        ],
        [[A], True, None, None, [A], True, False, 1, None, [A], True, 1],
    ),
    "an end that is sent twice counts once": Case(
        lambda d: [d.add(), d.take(), d.finish(), d.finish(), d.queued(), d.resync(0)], [[A], True, False, False, 0, []]
    ),
    "a job that is deleted takes its deaths along": Case(
        lambda d: [d.job(5), d.take(), d.wait(31), d.no_job(6), d.resync(1000), d.job(7), d.take(), d.claims[A].deaths],
        [[A], True, None, [], [A], [], True, 1],
    ),
}


CASES = named(leases=LEASES, resync=RESYNC, flushall=FLUSH, deaths=DEATHS)


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    play(CASES[sentence], world)
