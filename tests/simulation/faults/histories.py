"""Row 10. Eventually stable: after any history the job is as it should be within 10 + 2 x replicas passes that write,
and ten passes after that, within a minute, write nothing.

A run is a history by its seed (`histories.py`). One that goes wrong is cut down to the acts that matter: `4711:2,5` is
history 4711 with no more than those two.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from tests.model.judge import Judgement, judge
from tests.simulation.busy import CLUSTER, Busy
from tests.simulation.desired import amiss
from tests.simulation.fault import Row, Verdict
from tests.simulation.histories import BUSY_SECONDS, History, make_history
from tests.simulation.oracles import BYSTANDER
from tests.simulation.world import SimWorld
from tjworker.base import JobKey

HISTORIES = 20_000
FIRST, GROUP = int(os.environ.get("TJ_TEST_HISTORIES", "120")), 30
"""In `make test`; `make sim-all` plays all."""
QUIET_SECONDS = 1_500.0
"""A job that crashes again and again rests for up to 5 minutes, a batch Job between two pods for up to 10."""
SETTLED_SECONDS = 100.0
"""What is as it should be may still be told: that a batch Job is done is believed after 90 s, and the TensorBoard of
an ended job goes after 30."""
QUIET_PASSES, QUIET_EVERY_SECONDS = 10, 5.0
MOST_ENDS_AHEAD = 20
"""So often a history is waited for whose programs are still to end: each end is one more disturbance."""
SHRINKING_PLAYS = 60


class Counted(SimWorld):
    """Counts the passes that wrote something."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.writing = 0

    def task(self, number: int, key: JobKey) -> None:
        before = sum(self.requests_made.values())
        super().task(number, key)
        self.writing += sum(self.requests_made.values()) != before


def play(run: str) -> Verdict:
    seed, _, chosen = run.partition(":")
    history = make_history(int(seed))
    if chosen:
        return _live(_only(history, [int(number) for number in chosen.split(",")]))
    verdict = _live(history)
    if not verdict.wrong:
        return verdict
    kept = _shrink(history)
    smallest = _live(_only(history, kept))
    said = (
        f"shows with {len(kept)} of {len(history.acts)} acts: make sim"
        f" SEED={ROW.number}/{seed}:{','.join(map(str, kept))}"
    )
    return Verdict((*verdict.wrong, said), verdict.surplus, smallest.trace)


def _live(history: History) -> Verdict:
    return lived(history)[0]


def lived(history: History) -> tuple[Verdict, Judgement]:
    """The row's verdict, and what of it the model says."""
    busy = Busy(history)
    world = Counted(seed=history.seed, fault=busy, nodes=CLUSTER, **history.settings)
    world.cluster.client.create("/api/v1/namespaces/default/pods", BYSTANDER)
    world.strangers = {"bystander"}
    busy.begin(world)
    world.advance(BUSY_SECONDS + 1)
    busy.calm(world)
    wrong = list(_judge(world))
    said = judge(world.chronicle, world.clock(), busy.late_seconds)
    wrong += said.wrong[:3]
    surplus = len(world.ledger.surplus)
    world.forget()
    return Verdict(tuple(wrong), surplus, f"{history}\n{world.trace}"), said


def _judge(world: Counted) -> Iterator[str]:
    wrong = _comes_to_rest(world)
    for _ in range(MOST_ENDS_AHEAD):
        if wrong or not _end_ahead(world):
            break
        world.live(lambda: not _end_ahead(world), within_seconds=QUIET_SECONDS)
        wrong = _comes_to_rest(world)
    yield from wrong
    world.advance(SETTLED_SECONDS)
    world.requests_made.clear()
    for _ in range(QUIET_PASSES):
        for key in world.memory.queue.add(world.keys()):
            world.enqueue(key)
        world.advance(QUIET_EVERY_SECONDS)
    yield from (f"a pass wrote although nothing was to be done: {write}" for write in sorted(world.requests_made)[:3])
    yield from (f"no longer as it should be: {what}" for what in amiss(world)[:2])
    yield from world.ledger.surplus[:2]
    yield from [result for result in world.results if result.startswith("bug")][:1]


def _comes_to_rest(world: Counted) -> list[str]:
    most, before = 10 + 2 * _replicas(world), world.writing
    if not world.live(lambda: not amiss(world), within_seconds=QUIET_SECONDS):
        return [f"not as it should be after {QUIET_SECONDS:.0f} s of quiet: {'; '.join(amiss(world)[:3])}"]
    wrote = world.writing - before
    return [f"as it should be after {wrote} passes that write, {most} allowed"] if wrote > most else []


def _end_ahead(world: SimWorld) -> bool:
    """A program that runs now is to fail or to succeed by itself: it is not quiet yet."""
    return any(run.play.run_seconds < QUIET_SECONDS for run in world.cluster.kubelet._runs.values())


def _replicas(world: SimWorld) -> int:
    spec = (world.the_job() or {}).get("spec", {})
    roles = spec.get("replicaSpecs")
    if roles is None:
        return 12  # of an EDL job: more than any of its histories ask for
    return sum(role["replicas"] for role in roles.values())


def _some(first: int) -> list[str]:
    return [str(seed) for seed in range(first, first + GROUP)]


def _only(history: History, kept: list[int]) -> History:
    return replace(history, acts=tuple(history.acts[number] for number in kept))


def _shrink(history: History) -> list[int]:
    """Numbers of acts with which it still goes wrong; leaving out any one of them (if there were plays enough to try)
    it does not."""
    kept, plays, size = list(range(len(history.acts))), 0, max(1, len(history.acts) // 2)
    while size:
        at = 0
        while at < len(kept) and plays < SHRINKING_PLAYS:
            without = kept[:at] + kept[at + size :]
            plays += 1
            if _live(_only(history, without)).wrong:
                kept = without
            else:
                at += size
        size //= 2
    return kept


ROW = Row(
    10,
    "eventually stable: as it should be after any history, and then no writes",
    lambda: [str(seed) for seed in range(HISTORIES)],
    {f"histories {first}": partial(_some, first) for first in range(100_000, 100_000 + FIRST, GROUP)},
    play,
)
