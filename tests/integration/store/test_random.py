"""The same random calls on the memory store and on a real Redis must give the same answers, step by step, and leave the
same under each key: else a key that a script forgets to delete shows only to calls that are rarely drawn together.

Hypothesis prints the shortest failing sequence and the seed to run it again (`--hypothesis-seed`).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.conftest import RealRedis
from tests.integration.store.driver import A, B, C, raised
from tests.integration.store.worlds import TIMES, MemoryWorld, RedisWorld, World
from tests.support.kinds import AITRAININGJOBS
from tests.support.queueing import acquire_one, finish_one
from tests.support.tiers import drawn
from tjworker.api.resources import PODS
from tjworker.base import GroupResource, JobKey
from tjworker.store.port import Store
from tjworker.store.projection import Change, RecordPlace
from tjworker.store.work_queue import AtOnce, Claim, NextPass, OnNews, OnOwnWrite, PassEnding, WithBackoff, Written

KEYS = (A, B, C)
keys = st.sampled_from(KEYS)
resources = st.sampled_from([AITRAININGJOBS, PODS])
offsets = st.integers(-2, 2)
"""Of a resourceVersion from the run's own, which grows: so that events, echoes, tombstones and own writes meet."""
uids = st.sampled_from(["", "u1", "u2"])
"""Of the jobs that have had a name, one after the other."""
next_passes = st.one_of(
    st.just(AtOnce()), *(st.builds(kind, st.sampled_from([None, 30.0])) for kind in (OnNews, WithBackoff, OnOwnWrite))
)
writes = st.lists(st.tuples(resources, offsets), max_size=3)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """With an offset for its resourceVersion."""
    key = draw(keys)
    resource = draw(resources)
    rv = draw(offsets)
    is_job = resource == AITRAININGJOBS
    gone = draw(st.integers(0, 3)) == 0
    finished = is_job and not gone and draw(st.integers(0, 3)) == 0
    name = "job" if is_job else draw(st.sampled_from(["x-0", "x-1"]))
    spec, uid = draw(st.integers(1, 2)), draw(uids)
    return Change(
        key,
        resource,
        name,
        rv,
        None if gone else b"{}",
        finished=finished,
        is_job=is_job,
        job_uid="" if gone else uid,
        generation=spec if is_job and not gone else 0,
        quiet=is_job and not gone and draw(st.integers(0, 3)) == 0,
    )


class Both(RuleBasedStateMachine):
    redis_url: str

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryWorld()
        self.real = RedisWorld(RealRedis(self.redis_url, f"r{uuid.uuid4().hex[:12]}"))
        self.worlds: tuple[World, World] = (self.memory, self.real)
        self.claims: list[tuple[Claim, Claim]] = []
        self.writer = 1
        self.rv = 10
        self.began = self.called = time.monotonic()
        self.lead(1)
        self.apply([Change(key, AITRAININGJOBS, "job", 0, b"{}", is_job=True) for key in KEYS], {})

    def keep_up(self) -> None:
        """Redis' clock goes on between two looks, on a busy machine for seconds."""
        before, self.called = self.called, time.monotonic()
        self.memory.advance(self.called - before)

    def both(self, call: Any) -> tuple[Any, Any]:
        self.keep_up()
        answers = []
        for number, world in enumerate(self.worlds):
            out: list[Any] = []
            error = raised(lambda: out.append(call(world.store, number)))  # noqa: B023  called at once
            answers.append((error, out[0] if out else None))
        return answers[0], answers[1]

    def same(self, call: Any) -> Any:
        memory, real = self.both(call)
        assert memory == real
        return memory

    @rule(token=st.integers(1, 3))
    def lead(self, token: int) -> None:
        error, _ = self.same(lambda s, _: s.projection.lead(token))
        if not error:
            self.writer = token

    @rule(
        batch=st.lists(changes(), max_size=4),
        progress=st.dictionaries(st.sampled_from([PODS, "pods/default", "pods/other"]), offsets, max_size=1),
    )
    def apply(self, batch: list[Change], progress: dict[str, int]) -> None:
        self.rv += 1
        moved = [replace(change, rv=self.rv + change.rv) for change in batch]
        shown = {resource: self.rv + offset for resource, offset in progress.items()}
        self.same(lambda s, _: s.projection.apply(self.writer, moved, progress=shown))

    def written(self, offsets_of: list[tuple[GroupResource, int]]) -> Written:
        """Every other one as a deletion that left nothing."""
        pairs = [(resource, self.rv + offset) for resource, offset in offsets_of]
        return Written(pairs[::2], pairs[1::2])

    @rule(key=keys, before=st.lists(changes(), max_size=2), written=writes, after=st.lists(changes(), max_size=2))
    def one_pass(
        self, key: JobKey, before: list[Change], written: list[tuple[GroupResource, int]], after: list[Change]
    ) -> None:
        """A worker's pass with events in it and after it, at versions near its own writes."""
        self.add([key])
        before_count = len(self.claims)
        self.acquire(key, 100.0)
        if len(self.claims) > before_count:
            self.apply([replace(change, key=key) for change in before], {})
            claim = self.claims[-1]
            self.same(lambda s, n: finish_one(s.queue, claim[n], self.written(written)))
            self.apply([replace(change, key=key) for change in after], {})

    @rule(token=st.integers(1, 3))
    def apply_as_another_writer(self, token: int) -> None:
        self.same(lambda s, _: s.projection.apply(token, []))

    @rule()
    def mark_children(self) -> None:
        self.same(lambda s, _: s.projection.mark_children(self.writer))

    @rule(cluster=st.sampled_from(["", "red"]), form=st.sampled_from(["", "f"]))
    def mark_synced(self, cluster: str, form: str) -> None:
        self.same(lambda s, _: s.projection.mark_synced(self.writer, cluster, form))

    @rule(names=st.dictionaries(st.sampled_from(["n1", "n2"]), st.sampled_from([b"{}", None])), whole=st.booleans())
    def nodes(self, names: dict[str, bytes | None], whole: bool) -> None:
        self.same(lambda s, _: s.projection.apply_nodes(self.writer, names))
        self.same(lambda s, _: s.projection.apply_node_requests(self.writer, names, whole=whole))

    @rule(
        entry=st.one_of(
            st.just(RecordPlace(JobKey(""), "n1", "node")),
            st.builds(RecordPlace, keys, st.sampled_from(["job", f"{PODS}/x-0", f"{PODS}/x-1"])),
        )
    )
    def distrust(self, entry: RecordPlace) -> None:
        for world in self.worlds:
            world.bare.projection.distrust([entry])

    @rule(key=keys)
    def note_rest(self, key: JobKey) -> None:
        self.same(lambda s, _: [s.queue.note_rest(key, "5"), s.queue.rests_at(key)])

    @rule(key=keys, times=st.integers(1, 3))
    def passes_die(self, key: JobKey, times: int) -> None:
        for _ in range(times):
            self.add([key])
            self.acquire(key, 20.0)
            self.time_passes(310.9)
            self.resync(30.0, everything=False)
            self.take_due(3)

    @rule(key=keys)
    def job_is_deleted(self, key: JobKey) -> None:
        self.apply([Change(key, AITRAININGJOBS, "job", 3, None, is_job=True)], {})

    @rule(sure=st.integers(0, 4))
    def history_begins_anew(self, sure: int) -> None:
        if sure == 0:
            self.same(lambda s, _: s.projection.reset(self.writer))

    @rule(some=st.lists(keys, max_size=3))
    def add(self, some: list[JobKey]) -> None:
        self.same(lambda s, _: s.queue.add(some))

    @rule(key=keys, seconds=st.sampled_from([5.0, 50.0, 500.0]))
    def add_after(self, key: JobKey, seconds: float) -> None:
        self.same(lambda s, _: s.queue.add_after(key, seconds))

    @rule(limit=st.integers(1, 3))
    def take_due(self, limit: int) -> None:
        self.same(lambda s, _: s.queue.take_due(limit))

    @rule(key=keys, ttl=st.sampled_from([20.0, 100.0]))
    def acquire(self, key: JobKey, ttl: float) -> None:
        (error, mine), (other_error, theirs) = self.both(lambda s, n: acquire_one(s.queue, key, "w", ttl))
        assert (error, mine is None) == (other_error, theirs is None)
        if mine:
            assert (mine.key, mine.deaths) == (theirs.key, theirs.deaths)
            self.claims.append((mine, theirs))
            for of in (0, 1):
                assert len({pair[of].token for pair in self.claims}) == len(self.claims)

    @rule(key=keys, most=st.integers(1, 4), again=st.booleans())
    def acquire_several(self, key: JobKey, most: int, again: bool) -> None:
        (error, mine), (other_error, theirs) = self.both(lambda s, n: s.queue.acquire_views(key, "w", 100.0, most))
        assert error == other_error
        assert [(c.key, c.deaths, v) for c, v in mine.views] == [(c.key, c.deaths, v) for c, v in theirs.views]
        assert list(mine.publish) == list(theirs.publish)
        taken = (mine, theirs)
        if again:
            self.same(
                lambda s, n: s.queue.finish_all([PassEnding(claim, next_pass=AtOnce()) for claim, _ in taken[n].views])
            )
        else:
            self.claims += [(a, b) for (a, _), (b, _) in zip(mine.views, theirs.views, strict=True)]

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), written=writes, next_pass=next_passes)
    def finish(self, data: st.DataObject, written: list[tuple[GroupResource, int]], next_pass: NextPass) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        (error, mine), (other_error, theirs) = self.both(
            lambda s, n: finish_one(s.queue, claim[n], self.written(written), next_pass)
        )
        assert (error, mine.publish, mine.failures) == (other_error, theirs.publish, theirs.failures)
        assert mine.backoff_seconds == pytest.approx(theirs.backoff_seconds, abs=1e-5)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), written=writes)
    def raise_min_observed(self, data: st.DataObject, written: list[tuple[GroupResource, int]]) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.same(lambda s, n: s.queue.raise_min_observed(claim[n], self.written(written)))

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims))
        self.same(lambda s, n: s.queue.renew(claim[n], 60.0))

    @rule(lost_after=st.sampled_from([0.0, 30.0]), everything=st.booleans())
    def resync(self, lost_after: float, everything: bool) -> None:
        (error, mine), (other_error, theirs) = self.both(
            lambda s, n: s.queue.resync(lost_after_seconds=lost_after, everything=everything)
        )
        assert (error, sorted(mine)) == (other_error, sorted(theirs))

    @rule(count=st.integers(0, 3))
    def messages(self, count: int) -> None:
        for world in (self.memory, self.real):
            world.messages(count)

    @rule(key=keys)
    def queued_by_an_earlier_version(self, key: JobKey) -> None:
        for world in (self.memory, self.real):
            world.queued_by_an_earlier_version(key)

    @rule(seconds=st.sampled_from([7.3, 43.7, 310.9]))
    def time_passes(self, seconds: float) -> None:
        # Odd steps keep every due time and lease well away from "now", where a few milliseconds would decide.
        for world in (self.memory, self.real):
            world.advance(seconds)

    @rule(sure=st.integers(0, 9))
    def flushall(self, sure: int) -> None:
        if sure == 0:
            for world in (self.memory, self.real):
                world.flush()

    @invariant()
    def same_views(self) -> None:
        self.keep_up()
        memory, real = self.memory.tables(), self.real.tables()
        late = 0.1 + time.monotonic() - self.began
        """What the two clocks may differ by, as a call on both takes time."""
        for name in TIMES:
            assert memory.pop(name, {}) == pytest.approx(real.pop(name, {}), abs=late), name
        assert memory == real

        self.same(lambda s, _: [s.projection.view(key) for key in KEYS])

    @rule()
    def reads(self) -> None:
        def everything(store: Store, _: int) -> Any:
            stats, known = store.queue.stats(), store.projection
            return (
                known.cluster(),
                known.checkpoint(),
                known.unfinished(),
                known.children(KEYS, [PODS]),
                list(known.known_keys()),
                list(known.known_children(KEYS, PODS)),
                (stats.queued, stats.delayed, stats.running, stats.unfinished, stats.failing),
            )

        self.same(everything)

    def teardown(self) -> None:
        self.real.flush()
        self.real.client.close()


@pytest.mark.wide
def test_random_calls_give_the_same_answers_in_memory_and_in_redis(redis_url: str) -> None:
    Both.redis_url = redis_url
    run_state_machine_as_test(
        Both,
        settings=settings(
            max_examples=drawn(12),
            stateful_step_count=40,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
