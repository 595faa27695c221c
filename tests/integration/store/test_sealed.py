"""The seal on each record: what somebody who can write Redis, and has no record key, puts there is not used.

He has the store without a seal: he may lead, write any record anywhere and take any away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.integration.store.contract import Case, named, play
from tests.integration.store.driver import A, B, a_job, a_pod, other, raised
from tests.integration.store.worlds import World
from tests.support.queueing import finish_one
from tjworker.api.resources import PODS
from tjworker.base import JobKey, Terminal
from tjworker.settings import Settings
from tjworker.store.connect import open_sealed_store
from tjworker.store.projection import Change, Lost, RecordPlace
from tjworker.store.seal import SEAL_BYTES, Seal, open_seal
from tjworker.store.sealed_store import SealedProjection, SealedStore, sealed

_NO_KEY = JobKey("")
OURS, OLD, THEIRS = (who * 32 for who in ("o", "l", "t"))
NODE = {"n1": b'{"name":"n1"}'}


@pytest.fixture
def system(world: World) -> System:
    return System(world)


class System:
    """A watcher and a worker with a key, and somebody without one (`redis`) at the same Redis."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.redis = world.bare
        self.ours = self.store(OURS)
        self.fill(self.ours)

    def store(self, *keys: str, prefix: str = "tj") -> SealedStore:
        return sealed(self.world.another(), Seal(keys, prefix))

    @staticmethod
    def fill(store: SealedStore, *, token: int = 1) -> None:
        store.projection.lead(token, "f")
        store.projection.apply(token, [a_job(5), a_pod(6), a_job(5, B), a_pod(7, B)], progress={PODS: 7})
        store.projection.apply_nodes(token, NODE)
        store.projection.apply_node_requests(token, {"n1": b"[1]"})
        store.projection.mark_synced(token, "red", "f")

    def raw(self, change: Change) -> bytes:
        """What stands in Redis of this object."""
        view = self.redis.projection.view(change.key)
        record = view.job if change.is_job else view.children[change.resource][change.name]
        assert record is not None
        return record


@dataclass(frozen=True)
class Poison:
    write: Callable[[System], Any]
    want_synced: bool = False
    """Of a view of A: not synced, so that nothing is decided."""


POISON = {
    "nothing": Poison(lambda s: None, want_synced=True),
    "a job's record replaced": Poison(lambda s: s.redis.projection.apply(1, [a_job(99, record=b'{"spec":{}}')])),
    "a job's record changed, with the seal of the true one": Poison(
        lambda s: s.redis.projection.apply(1, [a_job(99, record=s.raw(a_job(5))[:SEAL_BYTES] + b'{"rv":9}')])
    ),
    "a job's record of another job": Poison(
        lambda s: s.redis.projection.apply(1, [a_job(99, record=s.raw(a_job(5, B)))])
    ),
    "a pod's record replaced": Poison(lambda s: s.redis.projection.apply(1, [a_pod(99, record=b'{"pod":1}')])),
    "a pod's record of another job": Poison(
        lambda s: s.redis.projection.apply(1, [a_pod(99, record=s.raw(a_pod(7, B)))])
    ),
    "a pod's record under another name": Poison(
        lambda s: s.redis.projection.apply(1, [a_pod(99, name="a-1", record=s.raw(a_pod(6)))])
    ),
    "a pod's record in the place of the job's": Poison(
        lambda s: s.redis.projection.apply(1, [a_job(99, record=s.raw(a_pod(6)))])
    ),
    "a record of an install with another key": Poison(
        lambda s: s.redis.projection.apply(
            1, [a_pod(99, record=Seal([THEIRS], "tj").seal(b"{}", "job", A, "pods/a-0"))]
        )
    ),
    "a record of an install with another prefix and the same key": Poison(
        lambda s: s.redis.projection.apply(1, [a_pod(99, record=Seal([OURS], "tk").seal(b"{}", "job", A, "pods/a-0"))])
    ),
    "nothing but a seal": Poison(
        lambda s: s.redis.projection.apply(1, [a_pod(99, record=s.raw(a_pod(6))[:SEAL_BYTES])])
    ),
    "no bytes at all": Poison(lambda s: s.redis.projection.apply(1, [Change(A, PODS, "a-0", 99, b" ")])),
}


@pytest.mark.parametrize("sentence", POISON)
def test_a_view_with_a_record_that_the_watcher_has_not_written_is_not_decided_on(sentence: str, system: System) -> None:
    poison = POISON[sentence]
    poison.write(system)
    with capture_logs() as logs:
        view = system.ours.projection.view(A)
    assert view.synced is poison.want_synced
    if poison.want_synced:
        assert view.job is not None
        return
    assert view.job is None
    assert not view.children
    (told,) = (line for line in logs if line["log_level"] == "error")
    assert told["key"] == A
    assert told["field"] in ("job", "pods/a-0", "pods/a-1")
    assert "TJ_RECORD_KEYS" in told["event"]
    assert told["refused_so_far"] == system.ours.projection.refused == 1


@pytest.mark.parametrize("sentence", [name for name, poison in POISON.items() if not poison.want_synced])
def test_such_a_record_is_taken_out_and_the_watcher_lists_everything_again(sentence: str, system: System) -> None:
    POISON[sentence].write(system)
    system.ours.projection.view(A)
    assert raised(lambda: system.ours.projection.apply(1, [a_pod(8)])) == "Lost"
    system.fill(system.ours)
    view = system.ours.projection.view(A)
    assert view.synced
    assert view.job == a_job(5).record
    assert dict(view.children[PODS]) == {"a-0": a_pod(6).record}


def test_the_key_that_a_worker_takes_comes_with_an_opened_view(system: System) -> None:
    ((claim, view),) = system.ours.queue.acquire_views(A, "w", 30, 1).views
    assert view.job == a_job(5).record
    system.redis.projection.apply(1, [a_job(99, B)])
    finish_one(system.ours.queue, claim)
    ((_, view),) = system.ours.queue.acquire_views(B, "w", 30, 16).views
    assert (view.job, view.synced) == (None, False)


@dataclass(frozen=True)
class Read:
    poison: Callable[[System], Any]
    read: Callable[[SealedProjection], Any]
    want: Any


def _whole_cluster(projection: SealedProjection) -> tuple[bool, bool]:
    found = projection.cluster()
    return found.synced, found.nodes_whole


READS = {
    "an unfinished job": Read(lambda s: s.redis.projection.apply(1, [a_job(99)]), lambda p: list(p.unfinished()), [B]),
    "a child of several jobs": Read(
        lambda s: s.redis.projection.apply(1, [a_pod(99)]),
        lambda p: {key: dict(found[PODS]) for key, found in p.children([A, B], [PODS]).items()},
        {A: {}, B: {"a-0": a_pod(7).record}},
    ),
    "a node": Read(lambda s: s.redis.projection.apply_nodes(1, NODE), lambda p: dict(p.nodes(["n1"])), {}),
    "a node, for the autoscaler": Read(
        lambda s: s.redis.projection.apply_nodes(1, NODE), _whole_cluster, (False, False)
    ),
    "requests of a node": Read(
        lambda s: s.redis.projection.apply_node_requests(1, {"n1": b"[9]"}), _whole_cluster, (False, False)
    ),
    "requests of a node, from another node": Read(
        lambda s: s.redis.projection.apply_node_requests(1, {"n2": s.redis.projection.cluster().node_requests["n1"]}),
        _whole_cluster,
        (False, False),
    ),
    "a node's record as the requests of its pods": Read(
        lambda s: s.redis.projection.apply_node_requests(1, {"n1": s.redis.projection.cluster().nodes["n1"]}),
        _whole_cluster,
        (False, False),
    ),
}


@pytest.mark.parametrize("sentence", READS)
def test_every_other_read_leaves_out_what_the_watcher_has_not_written(sentence: str, system: System) -> None:
    case = READS[sentence]
    case.poison(system)
    assert case.read(system.ours.projection) == case.want
    assert system.ours.projection.refused == 1
    assert not system.redis.projection.view(B).synced, "the watcher is asked to list everything"


def test_the_watcher_is_asked_once_a_minute_whatever_is_written(system: System) -> None:
    def poisoned_again() -> bool:
        """Whether the watcher has been asked once more."""
        system.redis.projection.lead(1)
        system.redis.projection.mark_synced(1)
        system.redis.projection.apply(1, [a_job(99)])
        system.ours.projection.view(A)
        return not system.redis.projection.view(B).synced

    assert poisoned_again()
    assert not poisoned_again()
    system.world.advance(61)
    assert poisoned_again()


def test_of_many_such_records_the_first_are_told_by_name(system: System) -> None:
    system.redis.projection.apply(1, [a_pod(99, name=f"p-{n}") for n in range(40)])
    with capture_logs() as logs:
        system.ours.projection.view(A)
        system.ours.projection.unfinished()
    assert sum(line["log_level"] == "error" for line in logs) == 10
    assert system.ours.projection.refused == 40


# -- keys ------------------------------------------------------------------------------------------


def test_a_new_key_is_brought_in_without_a_pause(system: System) -> None:
    """Workers first learn the new key, then the watcher seals with it, then the old one goes."""
    worker = system.store(OURS, OLD)
    assert worker.projection.view(A).synced
    watcher = system.store(OLD, OURS)
    watcher.projection.lead(2, "f")
    assert watcher.projection.checkpoint().form == "", "another key is another form: everything is listed"
    watcher.projection.apply(2, [a_job(5), a_pod(6)])
    assert worker.projection.view(A).job == a_job(5).record
    assert worker.projection.view(B).job == a_job(5, B).record, "sealed with the old key, and not listed yet"
    watcher.projection.mark_synced(2, "red", "f")
    assert system.store(OLD).projection.view(A).synced
    assert watcher.projection.checkpoint().form == "f"
    assert (worker.projection.refused, watcher.projection.refused) == (0, 0)


FORMS = {
    "of a version before records were sealed": ("0123456789abcdef", "without a seal"),
    "of a version that seals otherwise, or of another key": ("a0b1:0123456789abcdef", "of form a0b1"),
    "of a watcher that has not listed everything": ("", "no form"),
}


@pytest.mark.parametrize("sentence", FORMS)
def test_records_of_no_key_of_ours_are_dropped_when_a_watcher_leads(sentence: str, world: World) -> None:
    """In one line that names what was found; the list that follows fills the projection again."""
    form, want = FORMS[sentence]
    world.bare.projection.lead(1, form)
    world.bare.projection.apply(1, [a_job(5), a_pod(6)], progress={PODS: 6})
    world.bare.projection.apply_nodes(1, NODE)
    world.bare.projection.mark_synced(1, "red", form)
    store = sealed(world.another(), Seal([OURS], "tj"))
    with capture_logs() as logs:
        store.projection.lead(2, "f")
    (line,) = logs
    assert "it is dropped, and everything is listed again" in line["event"]
    assert want in line["found"]
    assert not list(store.projection.known_nodes())
    view = store.projection.view(A)
    assert (view.job, view.synced, store.projection.refused) == (None, False, 0)
    System.fill(store, token=2)
    assert store.projection.view(A).job == a_job(5).record


def test_the_same_key_leads_again_and_goes_on(system: System) -> None:
    again = system.store(OURS)
    again.projection.lead(2, "f")
    found = again.projection.checkpoint()
    assert (found.synced, found.form, found.cluster, dict(found.progress)) == (True, "f", "red", {PODS: 7})
    assert again.projection.view(A).synced


def test_a_watcher_of_another_version_that_ends_before_it_has_listed_costs_no_record(system: System) -> None:
    system.store(OURS).projection.lead(2, "another version")
    again = system.store(OURS)
    with capture_logs() as logs:
        again.projection.lead(3, "another version")
    assert again.projection.checkpoint().form == "", "it lists everything"
    assert (logs, again.projection.view(A).job) == ([], a_job(5).record)


def test_the_watcher_is_told_that_a_worker_could_not_open_a_record(system: System) -> None:
    """As while a later version's workers run beside it: Redis has lost nothing, and the line must not say so."""
    system.store(THEIRS).projection.view(A)
    with pytest.raises(Lost, match="a worker could not open a record"):
        system.ours.projection.apply(1, [])
    system.ours.projection.lead(1, "f")
    assert system.ours.projection.apply(1, []) == []


def test_an_empty_redis_needs_no_reset(world: World) -> None:
    store = sealed(world.another(), Seal([OURS], "tj"))
    with capture_logs() as logs:
        store.projection.lead(1, "f")
    assert not logs


KEYS = {"": 0, "k" * 32: 1, f"{'k' * 32},{'l' * 40}": 2}


@pytest.mark.parametrize("text", KEYS)
def test_keys_are_separated_by_commas(text: str) -> None:
    assert len(Settings(record_keys=text).record_key_list) == KEYS[text]


@pytest.mark.parametrize("text", ["short", "k" * 31, f"{'k' * 32},", f"{'k' * 32},short", f"{'k' * 31} k"])
def test_a_key_that_can_be_guessed_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="record_keys"):
        Settings(record_keys=text)


def test_without_a_key_no_store_is_opened() -> None:
    with pytest.raises(Terminal, match="openssl rand -hex 32"):
        open_sealed_store(Settings())
    with pytest.raises(Terminal):
        open_seal([], "tj")


# -- what both stores answer -----------------------------------------------------------------------

DISTRUST: dict[str, Case] = {
    "takes the records out, and nothing else": Case(
        lambda d: [
            d.job(5),
            d.pod(6),
            d.pod(7, name="a-1"),
            d.projection.distrust([RecordPlace(A, "pods/a-0")]),
            d.view().job,
            list(d.view().children[PODS]),
        ],
        [[A], [], [], None, b'{"rv":5}', ["a-1"]],
    ),
    "a job without its record is still known and counted as unfinished, and no longer read": Case(
        lambda d: [
            d.job(5),
            d.projection.distrust([RecordPlace(A, "job")]),
            list(d.projection.known_keys()),
            dict(d.projection.unfinished()),
            d.queue.stats().unfinished,
            d.resync(everything=True),
            d.queue.stats().unfinished,
            list(d.projection.known_keys()),
        ],
        [[A], None, [A], {}, 1, [], 0, [A]],
    ),
    "the list that follows deletes it with all that is kept of it": Case(
        lambda d: [
            d.job(5),
            d.take(),
            d.fail() > 0,
            d.projection.distrust([RecordPlace(A, "job")]),
            d.projection.lead(1),
            d.no_job(6),
            list(d.projection.known_keys()),
            d.queue.stats().unfinished,
            d.queue.stats().failing,
        ],
        [[A], True, True, None, None, [], [], 0, 0],
    ),
    "so is one without its last child": Case(
        lambda d: [
            d.pod(6),
            d.projection.distrust([RecordPlace(A, "pods/a-0")]),
            list(d.projection.known_keys()),
            d.projection.lead(1),
            d.no_pod(7),
            list(d.projection.known_keys()),
        ],
        [[], None, [A], None, [], []],
    ),
    "the writer is told that the projection is lost, and leads again": Case(
        lambda d: [
            d.projection.distrust([RecordPlace(A, "job")]),
            d.view().synced,
            raised(lambda: d.job(5)),
            d.projection.lead(1),
            d.job(5),
            d.view().synced,
            d.projection.mark_synced(1),
            d.view().synced,
        ],
        [None, False, "Lost", None, [A], False, None, True],
    ),
    "an older writer stays fenced": Case(
        lambda d: [
            d.projection.distrust([RecordPlace(A, "job")]),
            raised(lambda: d.projection.lead(0)),
            other(d).projection.lead(2),
            raised(lambda: d.job(5)),
        ],
        [None, "Fenced", None, "Fenced"],
    ),
    "a version that was too high goes with its record": Case(
        lambda d: [
            d.job(5),
            d.pod(10**12),
            d.projection.distrust([RecordPlace(A, "pods/a-0")]),
            d.projection.lead(1),
            d.pod(6),
            list(d.view().children[PODS].values()),
        ],
        [[A], [], None, None, [], [b'{"pod":6}']],
    ),
    "so does a tombstone": Case(
        lambda d: [
            d.job(5),
            d.no_pod(10**12),
            d.projection.distrust([RecordPlace(A, "pods/a-0")]),
            d.projection.lead(1),
            d.pod(6),
            list(d.view().children[PODS]),
        ],
        [[A], [], None, None, [], ["a-0"]],
    ),
    "nodes and sums go by their names": Case(
        lambda d: [
            d.projection.apply_nodes(1, {"n1": b"1", "n2": b"2"}),
            d.projection.apply_node_requests(1, {"n1": b"3", "n2": b"4"}),
            d.projection.distrust(
                [
                    RecordPlace(_NO_KEY, "n9", "node"),
                    RecordPlace(_NO_KEY, "n1", "node"),
                    RecordPlace(_NO_KEY, "n2", "requests"),
                ]
            ),
            dict(d.projection.cluster().nodes),
            dict(d.projection.cluster().node_requests),
        ],
        [None, None, None, {"n2": b"2"}, {"n1": b"3"}],
    ),
}
CASES = named(distrust=DISTRUST)


@pytest.mark.parametrize("sentence", CASES)
def test_store(sentence: str, world: World) -> None:
    play(CASES[sentence], world)
