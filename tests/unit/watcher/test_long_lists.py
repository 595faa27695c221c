"""What may be decided while a long list of jobs is under way. Each page is one job, and between two pages the writer
writes what has come.

On the local cluster's API server, in one process and in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.test_in_process import JOB, Bench
from tjworker.api.resources import PODS
from tjworker.base import JobKey, Terminal
from tjworker.kube.resources import RESOURCES
from watcher.health import WatcherReport

JOBS = RESOURCES[AITRAININGJOBS].path()


def key(name: str) -> JobKey:
    return JobKey(f"{AITRAININGJOBS}/default/{name}")


@dataclass
class Long:
    """Jobs a to d, of which b has a pod; a watcher that begins with an empty Redis. `between` is called before the
    fourth page of jobs is asked for."""

    between: Callable[[Long], None]
    bench: Bench = field(default_factory=lambda: Bench(page_size=1))
    pages: int = 0

    def __post_init__(self) -> None:
        for name in "abcd":
            made = self.make(name)
            if name == "b":
                self.bench.kube.create(PODS, "default", self.bench.pod("b-trainer-0", made))
        self.bench.new_watcher().transport._fault = self._fault

    def make(self, name: str) -> dict[str, object]:
        return self.bench.kube.create(AITRAININGJOBS, "default", {**JOB, "metadata": {"name": name}})

    def _fault(self, method: str, path: str, after: bool) -> None:
        if (method, path, after) != ("GET", JOBS, False):
            return
        self.pages += 1
        if self.pages == 4:
            self.bench.watcher._drain()
            self.between(self)

    def pump(self) -> None:
        self.bench.watcher.pump()
        assert self.pages >= 4, "the list has been under way"

    def decided_on(self) -> list[str]:
        """Whose view a worker takes."""
        views = {name: self.bench.store.projection.view(key(name)) for name in "abcde"}
        return [name for name, view in views.items() if view.synced and view.job is not None]


def test_a_job_is_decided_on_once_it_is_shown_with_all_that_belongs_to_it() -> None:
    def between(long: Long) -> None:
        found.append((long.decided_on(), long.bench.published.copy()))
        found.append(list(long.bench.store.projection.view(key("b")).children[PODS]))
        found.append(long.bench.store.projection.cluster().synced)

    found: list[object] = []
    Long(between).pump()
    assert found == [(["a", "b", "c"], [key(name) for name in "abc"]), ["b-trainer-0"], False]


def test_what_asks_of_the_whole_cluster_waits_for_every_job() -> None:
    long = Long(lambda _: None)
    long.pump()
    assert long.bench.store.projection.cluster().synced
    assert long.decided_on() == ["a", "b", "c", "d"]


def test_a_new_job_does_not_wait_for_the_end_of_the_list() -> None:
    def between(long: Long) -> None:
        long.make("e")
        long.bench.watcher.feed.early[AITRAININGJOBS].step()
        long.bench.watcher._drain()
        found.append(long.decided_on())

    found: list[object] = []
    long = Long(between)
    long.pump()
    assert found == [["a", "b", "c", "e"]]
    assert long.bench.watcher.feed.early[AITRAININGJOBS].stopped, "the list is in, and its own watch goes on"
    assert long.bench.published.count(key("e")) == 1


def test_a_job_that_came_when_redis_had_just_been_emptied_does_not_wait_for_its_place_in_the_list() -> None:
    """It is in the list, behind all others."""

    def between(long: Long) -> None:
        long.bench.watcher.feed.early[AITRAININGJOBS].step()
        long.bench.watcher._drain()
        found.append(long.decided_on())

    found: list[object] = []
    long = Long(between)
    long.pages = -100
    long.bench.watcher.pump()
    long.bench.store.flush()
    long.make("e")
    long.bench.watcher.pump()
    long.pages = 0
    long.pump()
    assert found == [["a", "b", "c", "e"]]


def test_a_job_that_is_deleted_meanwhile_does_not_come_back_with_its_page() -> None:
    def between(long: Long) -> None:
        job = long.bench.kube.get(AITRAININGJOBS, "default", "d")
        assert job is not None
        long.bench.kube.delete(AITRAININGJOBS, "default", "d", uid=job["metadata"]["uid"])
        long.bench.cluster.run_until_idle()
        long.bench.watcher.feed.early[AITRAININGJOBS].step()

    long = Long(between)
    long.pump()
    assert long.decided_on() == ["a", "b", "c"]
    assert long.bench.watcher.writer.jobs.counts() == {(AITRAININGJOBS, ""): 3}


def test_a_list_of_one_page_has_no_watch_beside_it() -> None:
    bench = Bench()
    bench.kube.create(AITRAININGJOBS, "default", JOB)
    bench.new_watcher().pump()
    assert bench.watcher.feed.early == {}


def test_no_job_is_listed_before_what_belongs_to_jobs() -> None:
    def refuse(method: str, path: str, after: bool) -> None:
        if (method, path) == ("GET", RESOURCES[PODS].path()):
            raise Terminal("pods is forbidden", status=403)

    bench = Bench()
    bench.kube.create(AITRAININGJOBS, "default", JOB)
    bench.new_watcher().transport._fault = refuse
    bench.watcher.pump()
    assert ("GET", JOBS) not in bench.watcher.transport.requests
    waits = bench.watcher.feed.pulses(bench.cluster.clock() + 900)[AITRAININGJOBS]
    going_on = WatcherReport(True, synced=False, resumed=True, reflectors={AITRAININGJOBS: waits})
    assert going_on.ready, (
        "what the last watcher had shown of jobs is followed: that their list waits makes it no older"
    )
    bench.watcher.transport._fault = lambda method, path, after: None
    bench.watcher.pump()
    assert bench.store.projection.view(key("digits")).synced
