"""The writer on a store in memory: what is written, what is not, what is published, and what happens when Redis fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.watcher.test_projection import JOB, KEY, NODE, changed, meta
from tests.waiting import PATIENCE_SECONDS
from tjworker.base import Fenced, JobKey, Transient
from tjworker.store.memory import MemoryStore
from tjworker.store.port import Change
from watcher.inbox import Batch, Closed, Inbox
from watcher.projection import Projected, deletion, project, project_node
from watcher.writer import Writer

SOURCES = ("aitrainingjobs", "pods", "nodes")


class Bench:
    def __init__(self, store: MemoryStore | None = None, *, token: int = 1) -> None:
        self.store = store or MemoryStore()
        self.inbox = Inbox()
        self.published: list[JobKey] = []
        self.relists: list[int] = []
        self.stopped = threading.Event()
        self.publish: Callable[[Sequence[JobKey]], None] = self.published.extend
        self.writer = Writer(
            self.store,
            self._publish,
            self.inbox,
            token=token,
            sources=SOURCES,
            relist=self.relists.append,
            now=lambda: 0.0,
            stopped=self.stopped,
        )
        self.writer.lead()

    def _publish(self, keys: Sequence[JobKey]) -> None:
        self.publish(keys)

    def sync(self) -> None:
        """Every list is in; nothing more is told of them."""
        for source in SOURCES:
            self.put(source, listed=True)

    def put(
        self,
        source: str,
        *changes: Projected,
        position: int = 0,
        listed: bool = False,
        existing: frozenset[tuple[JobKey, str]] | None = None,
        epoch: int = 0,
    ) -> None:
        self.inbox.put(Batch(source, changes, position, listed, existing, epoch))
        self.step()

    def step(self) -> None:
        self.writer.step(0)
        while self.writer.sweeping:
            self.writer.step(0)

    def view(self) -> Any:
        return self.store.view(JobKey(KEY))


def job(rv: int = 7, phase: str = "Running", uid: str = "job-uid") -> Projected:
    projected = project(
        "aitrainingjobs",
        {**JOB, "metadata": {**JOB["metadata"], "resourceVersion": str(rv), "uid": uid}, "status": {"phase": phase}},
    )
    assert projected is not None
    return projected


def pod(rv: int = 20, *, node: str = "node-a", name: str = "p0", uid: str = "job-uid") -> Projected:
    made = meta(name=name, resourceVersion=str(rv))
    made["ownerReferences"] = [{**made["ownerReferences"][0], "uid": uid}]
    projected = project("pods", {"metadata": made, "spec": {"nodeName": node}})
    assert projected is not None
    return projected


def gone(projected: Projected, rv: int) -> Projected:
    return Projected(deletion(projected.change, rv))


def settle(bench: Bench) -> None:
    """A worker takes every key and lets go of it; what is published later is news."""
    for key in list(dict.fromkeys(bench.published)):
        hold = bench.store.acquire(key, "w", 30)
        if hold is not None:
            bench.store.finish(hold)
    bench.published.clear()


def test_a_change_is_written_and_its_job_published_once() -> None:
    bench = Bench()
    bench.put("aitrainingjobs", job())
    bench.put("pods", pod(20), pod(21))
    assert list(bench.view().children["pods"]) == ["p0"]
    assert bench.published == [KEY]


def test_views_may_be_decided_on_only_when_every_list_is_in() -> None:
    bench = Bench()
    for source in SOURCES:
        assert not bench.view().synced
        bench.put(source, position=5, listed=True, existing=frozenset())
    assert bench.view().synced


def test_children_of_a_finished_job_never_reach_the_store() -> None:
    bench = Bench()
    bench.put("aitrainingjobs", job(phase="Succeed"))
    applied: list[Change] = []
    real = bench.store.apply

    def spy(token: int, changes: Sequence[Change], **more: Any) -> list[JobKey]:
        applied.extend(changes)
        return real(token, changes, **more)

    bench.store.apply = spy  # type: ignore[method-assign]
    bench.put("pods", pod(20), gone(pod(20), 21))
    assert applied == []
    assert bench.published == []


def test_children_of_a_job_made_again_under_the_name_of_a_finished_one_do() -> None:
    bench = Bench()
    bench.put("aitrainingjobs", job(phase="Failed"), gone(job(), 8), job(9, uid="second"))
    bench.put("pods", pod(20, uid="second"))
    assert list(bench.view().children["pods"]) == ["p0"]


def test_what_went_away_while_nobody_watched_is_swept() -> None:
    first = Bench()
    first.put("aitrainingjobs", job())
    first.put("pods", pod(20), pod(21, name="p1"))
    first.put("nodes", project_node(NODE))
    second = Bench(first.store, token=2)
    settle(first)
    second.put("aitrainingjobs", position=100, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    second.put("pods", position=100, listed=True, existing=frozenset({(JobKey(KEY), "p1")}))
    second.put("nodes", position=100, listed=True, existing=frozenset())
    assert list(second.view().children["pods"]) == ["p1"]
    assert second.view().job is not None
    assert list(second.store.known_nodes()) == []
    assert second.published == [KEY]


def test_a_job_that_went_away_while_nobody_watched_is_swept() -> None:
    first = Bench()
    first.put("aitrainingjobs", job())
    second = Bench(first.store, token=2)
    second.put("aitrainingjobs", position=100, listed=True, existing=frozenset())
    assert second.view().job is None


def test_a_heartbeat_of_a_node_writes_nothing_and_wakes_nobody() -> None:
    bench = Bench()
    bench.sync()
    bench.put("aitrainingjobs", job())
    bench.put("pods", pod())
    bench.put("nodes", project_node(NODE))
    settle(bench)
    before = bench.store.nodes(["node-a"])
    bench.put("nodes", project_node(changed("metadata.resourceVersion", "10")))
    assert bench.store.nodes(["node-a"]) == before
    assert bench.published == []


@pytest.mark.parametrize("where", ["node-a", "node-b"])
def test_a_node_that_falls_ill_wakes_the_jobs_with_pods_there_and_no_others(where: str) -> None:
    bench = Bench()
    bench.sync()
    bench.put("aitrainingjobs", job())
    bench.put("pods", pod(node=where))
    bench.put("nodes", project_node(NODE))
    settle(bench)
    bench.put("nodes", project_node(changed("status.conditions.0.status", "False")))
    assert bench.published == ([KEY] if where == "node-a" else [])


def test_a_node_that_vanishes_wakes_the_jobs_with_pods_there() -> None:
    bench = Bench()
    bench.sync()
    bench.put("aitrainingjobs", job())
    bench.put("pods", pod())
    bench.put("nodes", project_node(NODE))
    settle(bench)
    bench.put("nodes", gone(project_node(NODE), 11))
    assert bench.published == [KEY]
    assert bench.store.nodes(["node-a"]) == {}


def test_a_finished_job_is_not_woken_by_a_node() -> None:
    bench = Bench()
    bench.sync()
    bench.put("aitrainingjobs", job())
    bench.put("pods", pod())
    bench.put("nodes", project_node(NODE))
    bench.put("aitrainingjobs", job(30, phase="Succeed"))
    settle(bench)
    bench.put("nodes", gone(project_node(NODE), 31))
    assert bench.published == []


NODES_AT_START: dict[str, tuple[list[Projected], list[str]]] = {
    "A watcher that starts over unchanged nodes wakes nobody.": ([project_node(NODE)], []),
    "A node that fell ill while none ran wakes its jobs.": ([project_node(changed("spec.taints", []))], [KEY]),
    "A node that went away while none ran wakes its jobs.": ([], [KEY]),
}


@pytest.mark.parametrize("name", NODES_AT_START)
@pytest.mark.parametrize("pods_first", [True, False])
def test_nodes_at_the_start_of_a_watcher(name: str, pods_first: bool) -> None:
    nodes, want = NODES_AT_START[name]
    first = Bench()
    first.sync()
    first.put("aitrainingjobs", job())
    first.put("pods", pod())
    first.put("nodes", project_node(NODE))
    settle(first)
    second = Bench(first.store, token=2)
    second.put("aitrainingjobs", job(), position=50, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    lists = [
        ("pods", [pod()], frozenset({(JobKey(KEY), "p0")})),
        ("nodes", nodes, frozenset((JobKey(""), node.change.name) for node in nodes)),
    ]
    for source, changes, existing in lists if pods_first else reversed(lists):
        second.put(source, *changes, position=50, listed=True, existing=existing)
    assert second.published == want


def test_keys_whose_time_has_come_are_published() -> None:
    clock = [1000.0]
    bench = Bench(MemoryStore(clock=lambda: clock[0]))
    bench.put("aitrainingjobs", job())
    settle(bench)
    bench.store.add_after(JobKey(KEY), 5)
    bench.writer._now = lambda: clock[0]
    for second, want in ((4.0, []), (6.0, [KEY])):
        clock[0] = 1000.0 + second
        bench.writer.step(0)
        assert bench.published == want


def test_an_empty_redis_makes_everything_listed_again_before_views_are_decided_on() -> None:
    bench = Bench()
    for source in SOURCES:
        bench.put(source, position=5, listed=True, existing=frozenset())
    bench.store.flush()
    bench.put("pods", pod(20))
    assert bench.relists == [1]
    assert not bench.view().synced
    for source in SOURCES:
        bench.put(source, position=6, listed=True, existing=frozenset(), epoch=0)
    assert not bench.view().synced, "lists from before the loss do not count"
    bench.put("aitrainingjobs", job(), position=7, listed=True, existing=frozenset({(JobKey(KEY), "digits")}), epoch=1)
    bench.put("pods", pod(20), position=7, listed=True, existing=frozenset({(JobKey(KEY), "p0")}), epoch=1)
    bench.put("nodes", position=7, listed=True, existing=frozenset(), epoch=1)
    assert bench.view().synced
    assert list(bench.view().children["pods"]) == ["p0"]


@dataclass(frozen=True, slots=True)
class Anew:
    """After a first term that saw cluster red up to 50: a list of pods, and whether history began anew with it."""

    version: int
    cluster: str = "red"
    rewound: bool = False
    want: bool = True


ANEW = {
    "A list that is behind what an earlier writer saw is of another history.": Anew(49),
    "A list at the same place goes on.": Anew(50, want=False),
    "A list of another cluster is of another history, however far it is.": Anew(900, "blue"),
    "A cluster that may not be named is known by its versions alone.": Anew(900, "", want=False),
    "A cluster that may not be named is known by its versions, also when they went back.": Anew(7, ""),
    "A list that shows an object older than it was is of another history.": Anew(900, rewound=True),
}


@pytest.mark.parametrize("name", ANEW)
def test_history(name: str) -> None:
    case = ANEW[name]
    first = Bench()
    first.put("aitrainingjobs", job(40))
    first.put("pods", pod(45))
    for source in SOURCES:
        first.inbox.put(Batch(source, position=50, listed=True, list_version=50, cluster="red"))
        first.writer.step(0)
    settle(first)
    first.writer._now = lambda: 10.0
    first.step()
    second = Bench(first.store, token=2)
    second.inbox.put(Batch("pods", (pod(4),), list_version=case.version, cluster=case.cluster, rewound=case.rewound))
    second.step()
    assert second.relists == ([1] if case.want else [])
    assert second.view().synced is not case.want
    assert list(second.view().children.get("pods", {})) == ([] if case.want else ["p0"])
    if case.want:
        second.put("pods", pod(4, name="late"))
        assert second.view().children == {}, "what was read before is of a history that is over"
        for source, change in {"aitrainingjobs": job(3), "pods": pod(4), "nodes": None}.items():
            second.inbox.put(Batch(source, (change,) if change else (), 9, True, None, 1, 9, "blue"))
            second.writer.step(0)
        assert (second.view().synced, list(second.view().children["pods"])) == (True, ["p0"])
        assert second.store.history().cluster == "blue"
        assert second.published == [KEY]


def test_an_empty_redis_is_noticed_without_any_change_in_the_cluster() -> None:
    bench = Bench()
    bench.put("pods", position=5)
    bench.store.flush()
    bench.writer._now = lambda: 10.0
    bench.step()
    assert bench.relists == [1]


def test_a_redis_that_is_away_is_waited_for_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    real, left = bench.store.apply, [3]

    def flaky(token: int, changes: Sequence[Change], **more: Any) -> list[JobKey]:
        if left[0]:
            left[0] -= 1
            raise Transient("Redis cannot be reached")
        return real(token, changes, **more)

    bench.store.apply = flaky  # type: ignore[method-assign]
    monkeypatch.setattr("watcher.writer.FIRST_WAIT_SECONDS", 0.001)
    bench.put("aitrainingjobs", job())
    assert bench.view().job is not None
    assert bench.published == [KEY]
    assert not bench.writer.store_away


def test_keys_that_could_not_be_published_go_out_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr("watcher.writer.FIRST_WAIT_SECONDS", 0.001)
    left = [2]

    def flaky(keys: Sequence[JobKey]) -> None:
        if left[0]:
            left[0] -= 1
            raise Transient("Redis cannot be reached")
        bench.published.extend(keys)

    bench.publish = flaky
    bench.put("aitrainingjobs", job())
    assert bench.published == [KEY]


def test_a_writer_that_is_no_longer_leader_stops_and_writes_nothing() -> None:
    bench = Bench()
    Bench(bench.store, token=2)
    with pytest.raises(Fenced):
        bench.put("aitrainingjobs", job())
    assert bench.view().job is None


def test_a_full_inbox_holds_the_informer_back_and_lets_it_go_on_in_order() -> None:
    inbox = Inbox(capacity=2)
    taken: list[int] = []

    def informer() -> None:
        for position in range(1, 7):
            inbox.put(Batch("pods", (pod(position),), position))

    thread = threading.Thread(target=informer)
    thread.start()
    while len(taken) < 6:
        taken += [batch.position for batch in inbox.take(PATIENCE_SECONDS, limit=1)]
        assert len(inbox) <= 2
    thread.join(PATIENCE_SECONDS)
    assert taken == [1, 2, 3, 4, 5, 6]


def test_a_closed_inbox_frees_a_waiting_informer() -> None:
    inbox = Inbox(capacity=1)
    inbox.put(Batch("pods", (pod(1),), 1))
    freed = threading.Event()

    def informer() -> None:
        try:
            inbox.put(Batch("pods", (pod(2),), 2))
        except Closed:
            freed.set()

    thread = threading.Thread(target=informer)
    thread.start()
    inbox.close()
    assert freed.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)


# -- what the next writer may trust --------------------------------------------------------------------------------------


def whole(position: int = 50) -> Bench:
    """A first term that is synced up to there, of cluster red."""
    bench = Bench()
    for source in SOURCES:
        bench.inbox.put(Batch(source, position=position, listed=True, list_version=position, cluster="red"))
    bench.step()
    return bench


def test_a_second_writer_is_told_where_to_begin_and_the_first_one_may_not_move_that_any_more() -> None:
    first = whole()
    first.put("pods", pod(60), position=60)
    start = Bench(first.store, token=2).writer.lead()
    assert (start.cluster, start.positions) == ("red", {"aitrainingjobs": 50, "pods": 60})
    with pytest.raises(Fenced):
        first.put("pods", pod(70), position=70)
    assert first.store.history().progress["pods"] == 60


def test_a_key_that_the_last_watcher_queued_and_did_not_publish_is_published_by_the_next() -> None:
    first = whole()

    def dies(keys: Sequence[JobKey]) -> None:
        raise _Died

    first.publish = dies
    with pytest.raises(_Died):
        first.put("aitrainingjobs", job(55), position=55)
    second = Bench(first.store, token=2)
    second.writer.take_over()
    second.step()
    assert second.published == [KEY]


def test_a_list_that_a_forerunner_has_outrun_is_not_taken_for_an_older_history() -> None:
    second = Bench(whole().store, token=2)
    second.put("aitrainingjobs", job(55))
    second.inbox.put(Batch("pods", (pod(60),), 60, ahead=True))
    second.step()
    second.inbox.put(Batch("pods", (pod(51, name="p1"),), 56, True, frozenset({(JobKey(KEY), "p1")}), list_version=56))
    second.step()
    assert second.relists == []
    assert sorted(second.view().children["pods"]) == ["p0", "p1"], "p0 is newer than the list"
    assert second.store.history().progress["pods"] == 60


def test_a_page_of_the_list_that_a_forerunner_has_outrun_changes_no_books() -> None:
    """The job had finished; it was deleted and made again while the list was under way. A pod of the new one comes and goes."""
    second = Bench(whole().store, token=2)
    again = job(1020, uid="uid-2")
    second.inbox.put(Batch("aitrainingjobs", (gone(job(), 1010), again), 1020, ahead=True))
    second.step()
    second.inbox.put(Batch("aitrainingjobs", (job(990, phase="Succeed"),), 0, list_version=1000))
    new = pod(1030, uid="uid-2")
    second.inbox.put(Batch("pods", (new,), 1030, ahead=True))
    second.step()
    assert list(second.view().children["pods"]) == ["p0"]
    second.inbox.put(Batch("pods", (gone(new, 1040),), 1040, ahead=True))
    second.step()
    assert second.view().children.get("pods", {}) == {}
    second.put("aitrainingjobs", position=1000, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    assert second.view().job is not None, "it is newer than the list"
    assert second.writer._ahead["aitrainingjobs"], "the watch from the list on repeats it"
    second.put("aitrainingjobs", again, position=1020)
    assert "aitrainingjobs" not in second.writer._ahead


@pytest.mark.parametrize("swept", ["swept", "being swept", "with nothing to sweep"])
def test_what_a_forerunner_gives_after_the_list_is_not_taken(swept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was in the middle of what had happened meanwhile: that the pod is gone again stands where it never reads on to."""
    first = whole()
    first.put("aitrainingjobs", job(51), job_named("later", 52), position=60)
    monkeypatch.setattr("watcher.writer.SWEEP_KEYS", 1)
    second = Bench(first.store, token=2)
    existing = None if swept == "with nothing to sweep" else frozenset[tuple[JobKey, str]]()
    second.inbox.put(Batch("pods", (), 1100, True, existing))
    second.writer.step(0)
    if swept == "being swept":
        second.writer.step(0)
        assert second.writer.sweeping, "past the job of this pod, not past the other"
    else:
        second.step()
    second.inbox.put(Batch("pods", (pod(1010, name="late"),), 1010, ahead=True))
    second.step()
    assert "late" not in second.view().children.get("pods", {})


def test_what_a_forerunner_gives_after_redis_was_lost_is_not_taken() -> None:
    second = Bench(whole().store, token=2)
    second.store.flush()
    second.put("aitrainingjobs", job(60))
    assert second.relists == [1]
    second.inbox.put(Batch("pods", (pod(1010, name="late"),), 1010, ahead=True))
    second.step()
    assert "late" not in second.view().children.get("pods", {})


def test_progress_from_before_a_loss_is_not_written_after_it() -> None:
    """Redis came back older: what an informer had shown is not all in it. Whoever goes on from there would miss some."""
    bench = whole()
    before = bench.store.snapshot()
    bench.put("aitrainingjobs", job(60), position=60)
    bench.store.restore(before)
    bench.put("pods", pod(70), position=70)
    assert bench.relists == [1]
    bench.put("pods", pod(71), position=71)
    bench.put("aitrainingjobs", job(72), position=72)
    assert bench.store.history().progress == dict.fromkeys(SOURCES, 50)
    bench.put("pods", position=80, listed=True, epoch=1)
    bench.writer._now = lambda: 10.0
    bench.step()
    assert bench.store.history().progress["pods"] == 80


def test_news_does_not_wait_for_a_sweep_and_progress_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep reads every job that ever was and is kept."""
    first = whole()
    first.put("aitrainingjobs", job(51), *(job_named(f"j{number}", 52 + number) for number in range(5)), position=60)
    first.put("pods", pod(61, name="p1"), position=61)
    monkeypatch.setattr("watcher.writer.SWEEP_KEYS", 1)
    second = Bench(first.store, token=2)
    settle(first)
    second.inbox.put(Batch("pods", (), 70, True, frozenset(), list_version=70))
    second.writer.step(0)
    second.inbox.put(Batch("aitrainingjobs", (job(71),), 71))
    second.inbox.put(Batch("pods", (pod(72),), 72))
    second.writer.step(0)
    assert second.writer.sweeping
    assert (second.published, "p0" in second.view().children["pods"]) == ([KEY], True)
    assert second.store.history().progress["pods"] == 61
    second.step()
    assert second.store.history().progress["pods"] == 72
    assert list(second.view().children["pods"]) == ["p0"], "it is newer than the list, p1 is not"


def job_named(name: str, rv: int) -> Projected:
    projected = project(
        "aitrainingjobs", {**JOB, "metadata": {**JOB["metadata"], "name": name, "resourceVersion": str(rv)}}
    )
    assert projected is not None
    return projected


class _Died(Exception):
    """The process ends here."""


def test_a_writer_that_dies_in_its_sweep_has_not_said_that_it_is_done() -> None:
    first = whole()
    first.put("aitrainingjobs", job(55), position=55)
    first.put("pods", pod(56), position=56)
    second = Bench(first.store, token=2)

    def dies(keys: Sequence[JobKey], resource: str) -> Any:
        raise _Died

    second.store.known_children = dies  # type: ignore[method-assign]
    with pytest.raises(_Died):
        second.put("pods", pod(57, name="p1"), position=100, listed=True, existing=frozenset({(JobKey(KEY), "p1")}))
    assert "p0" in second.view().children["pods"]
    assert second.store.history().progress["pods"] == 56
