"""The history follows what the watches show, and harms nobody when its store does not follow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.local_api import local_api
from tests.support.memory_history import MemoryHistory
from tests.unit.watcher.test_in_process import JOB, Bench
from tjworker.api.labels import JOB_UID
from tjworker.api.resources import PODS
from tjworker.api.timefmt import to_rfc3339
from tjworker.base import Transient
from tjworker.clock import ClusterClock
from tjworker.history.records import DELETION_AT, GONE_AT, Entry, Story
from tjworker.history.store import LIVE_SECONDS, MOST_PODS, Bounds, LeftOut
from tjworker.settings import Settings
from tjworker.telemetry.metrics import REGISTRY
from watcher import historian as module
from watcher.__main__ import _make_historian, _make_watcher
from watcher.historian import Historian

NOW = 1_700_000_000.0
HOUR, DAY = 3_600.0, 86_400.0


class World:
    def __init__(self) -> None:
        self.now = NOW
        self.store = MemoryHistory(Bounds(7 * DAY, 100))
        self.historian = self.new_historian()

    def new_historian(self) -> Historian:
        self.historian = Historian(self.store, 7 * DAY, now=lambda: self.now)
        return self.historian

    def job(self, kind: str, phase: str = "", **status: Any) -> None:
        raw = job_object(phase, **status)
        self.historian.see(AITRAININGJOBS, kind, raw)

    def pod(self, kind: str, uid: str = "p0", phase: str = "Running", job: str = "uid-digits", **more: Any) -> None:
        meta = {"name": f"digits-trainer-{uid}", "namespace": "default", "uid": uid, "labels": {JOB_UID: job}, **more}
        self.historian.see(PODS, kind, {"metadata": meta, "status": {"phase": phase}})

    def page(self, *objects: Any, rv: str = "8") -> None:
        """A list of one page shows these objects."""
        for each in objects:
            if isinstance(each["metadata"], dict):
                each["metadata"]["resourceVersion"] = rv
        self.historian.list_begins(str(AITRAININGJOBS))
        self.historian.list_page(str(AITRAININGJOBS), objects)
        self.historian.list_ends(str(AITRAININGJOBS))

    def listed(self, *uids: str, source: str = AITRAININGJOBS) -> None:
        self.historian.list_begins(source)
        objects = [{"metadata": {"name": uid, "namespace": "default", "uid": uid}} for uid in uids]
        self.historian.list_page(source, objects)
        self.historian.list_ends(source)

    @property
    def story(self) -> Story:
        self.historian.write()
        found = self.store.story("default", "uid-digits")
        assert found is not None
        return found


def job_object(phase: str = "", **status: Any) -> dict[str, Any]:
    raw = make_job("digits").workers(2).manifest()
    raw["metadata"] |= {"uid": "uid-digits", "namespace": "default", "resourceVersion": "7"}
    raw["metadata"]["creationTimestamp"] = "2023-11-14T22:00:00Z"
    return {**raw, "status": {"phase": phase, **status}} if phase else raw


@pytest.fixture
def world() -> World:
    return World()


def lost() -> float:
    return counted("lost")


def counted(result: str) -> float:
    return REGISTRY.get_sample_value("tj_history_entries_total", {"result": result}) or 0.0


def test_a_job_that_is_deleted_leaves_its_status_its_phases_and_its_pods(world: World) -> None:
    world.job("ADDED")
    world.job("MODIFIED", "Running", message="all 2 replicas are running")
    world.pod("MODIFIED", "p0", "Failed")
    world.job("MODIFIED", "Restarting", restarts=1)
    world.now += 60
    world.job("DELETED", "Restarting", restarts=1)
    world.pod("DELETED", "p1")
    story = world.story
    assert (story.summary.phase, story.summary.restarts) == ("Restarting", 1)
    assert story.summary.deleted_at == "2023-11-14T22:14:20Z"
    assert [(m.phase, m.message) for m in story.moments] == [
        ("Running", "all 2 replicas are running"),
        ("Restarting", ""),
    ]
    assert sorted(pod["metadata"]["uid"] for pod in story.pods) == ["p0", "p1"]
    assert story.job["metadata"]["name"] == "digits"


def test_a_pod_that_was_deleted_keeps_the_time_at_which_it_was_told_to_end(world: World) -> None:
    world.job("ADDED", "Running")
    world.pod("MODIFIED", deletionTimestamp="2023-11-14T22:14:00Z", deletionGracePeriodSeconds=30)
    # The kubelet's second deletion, without grace, has another time.
    world.pod("DELETED", phase="Failed", deletionTimestamp="2023-11-14T22:13:32Z", deletionGracePeriodSeconds=0)
    (pod,) = world.story.pods
    assert pod["metadata"][DELETION_AT] == "2023-11-14T22:13:30Z"


def test_news_that_comes_late_brings_no_deleted_job_back(world: World) -> None:
    world.job("ADDED")
    world.job("DELETED", "Running")
    world.job("MODIFIED", "Running")
    world.listed("uid-digits")
    assert world.story.summary.deleted_at


LISTS: dict[str, tuple[str, bool]] = {
    "the list of its kind": (AITRAININGJOBS, True),
    "that of another namespace": (f"{AITRAININGJOBS}/other", False),
}


@pytest.mark.parametrize("sentence", LISTS)
def test_a_job_that_went_while_no_watcher_ran_is_marked_when_its_list_lacks_it(sentence: str, world: World) -> None:
    source, marked = LISTS[sentence]
    world.job("ADDED")
    world.job("MODIFIED", "Running")
    world.historian.write()
    world.new_historian()
    world.now += 3600
    world.listed("uid-another", source=source)
    assert world.story.summary.deleted_at == ("2023-11-14T23:13:20Z" if marked else "")


def test_a_job_that_the_list_shows_or_that_a_watch_shows_meanwhile_is_not_marked(world: World) -> None:
    world.job("ADDED")
    world.job("MODIFIED", "Running")
    world.historian.write()
    world.listed("uid-digits")
    assert not world.story.summary.deleted_at
    world.historian.list_begins(str(AITRAININGJOBS))
    world.job("MODIFIED", "Scaling")  # a watch beside the list, which is older
    world.historian.list_ends(str(AITRAININGJOBS))
    assert not world.story.summary.deleted_at


SHOWN_BY_A_LIST: dict[str, tuple[list[tuple[str, str]], str, int, str, list[str]]] = {
    "it has ended while nobody watched": ([], "Succeed", 60, "Succeed", []),
    "it has ended long ago, and an earlier watcher has written it": ([], "Succeed", 3600, "", []),
    "it runs, and nobody has seen it before": ([], "Running", 0, "", []),
    "it has ended while the watch was broken": (
        [("ADDED", "Running")],
        "Failed",
        3600,
        "Failed",
        ["Running", "Failed"],
    ),
    "it is as the watch has shown it": ([("ADDED", "Running")], "Running", 0, "Running", ["Running"]),
}
"""What watches have shown of a job; its phase in a list, and how long ago it has ended; the phase and the phases over
time in the history ('': it has none of it)."""


@pytest.mark.parametrize("sentence", SHOWN_BY_A_LIST)
def test_what_a_list_shows_of_a_job(sentence: str, world: World) -> None:
    events, phase, ago, want, want_phases = SHOWN_BY_A_LIST[sentence]
    for kind, seen in events:
        world.job(kind, seen)
    ended_at = {"completionTime": to_rfc3339(NOW - ago)} if ago else {}
    world.page(job_object(phase, **ended_at), rv="8")
    world.historian.write()
    story = world.store.story("default", "uid-digits")
    found = ("", []) if story is None else (story.summary.phase, [moment.phase for moment in story.moments])
    assert found == (want, want_phases)


def test_a_resumed_watch_that_is_older_than_a_list_adds_no_phase_behind_it(world: World) -> None:
    world.page(job_object(), rv="6")
    world.page(job_object("Running"), rv="9")
    for rv, phase in (("7", "Created"), ("9", "Running"), ("10", "Scaling")):
        raw = job_object(phase)
        raw["metadata"]["resourceVersion"] = rv
        world.historian.see(AITRAININGJOBS, "MODIFIED", raw)
    assert [moment.phase for moment in world.story.moments] == ["Running", "Scaling"]


RESTORED = {"the watcher has run throughout": False, "the watcher was started after the restore": True}


@pytest.mark.parametrize("sentence", RESTORED)
@pytest.mark.parametrize("last", ["MODIFIED", "DELETED"])
def test_a_job_that_a_restore_of_etcd_brings_back_lives_in_the_history(sentence: str, last: str, world: World) -> None:
    world.job("ADDED", "Running")
    world.job(last, "Succeed", completionTime=to_rfc3339(NOW))
    world.historian.write()
    world.now += 60
    if RESTORED[sentence]:
        world.new_historian()
        world.page(job_object("Running"), rv="3")
    world.historian.begin_new_history()
    world.page(job_object("Running"), rv="3")
    summary = world.story.summary
    assert (summary.phase, summary.ended_at, summary.deleted_at) == ("Running", "", "")
    world.job("MODIFIED", "Failed")
    assert world.story.moments[-1].phase == "Failed"


def test_an_object_of_a_list_that_cannot_be_read_costs_the_others_nothing(world: World) -> None:
    world.job("ADDED", "Running")
    odd: list[Any] = [{"metadata": "none"}, {"metadata": {"namespace": "a", "uid": "u"}, "status": 7}]
    with capture_logs():
        world.page(*odd, job_object("Running"))
    assert not world.story.summary.deleted_at


def test_an_entry_that_meets_a_bug_of_the_store_costs_the_others_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = world.store.put

    def put(entries: Sequence[Entry], now: float) -> LeftOut:
        if any(entry.uid == "uid-odd" for entry in entries):
            raise ZeroDivisionError
        return answer(entries, now)

    monkeypatch.setattr(world.store, "put", put)
    odd = job_object("Running")
    odd["metadata"]["uid"] = "uid-odd"
    before = counted("written"), lost()
    world.historian.see(AITRAININGJOBS, "ADDED", odd)
    world.job("ADDED", "Running")
    with capture_logs():
        world.historian.write()
    assert (counted("written") - before[0], lost() - before[1]) == (1, 1)
    assert [one.uid for one in world.store.summaries()] == ["uid-digits"]


def test_pods_beyond_the_bound_of_a_job_are_counted(world: World) -> None:
    before = counted("cut")
    world.job("ADDED", "Running")
    for number in range(MOST_PODS + 3):
        world.pod("DELETED", f"p{number}")
    assert len(world.story.pods) == MOST_PODS
    assert counted("cut") - before == 3


def test_while_the_store_is_away_phases_wait_within_a_bound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_MOMENTS", 3)
    world.store.away = True
    before = lost()
    for number in range(6):
        world.job("MODIFIED" if number else "ADDED", ("Running", "Restarting")[number % 2])
        world.now += 1
        world.historian.write()
    world.store.away = False
    assert [moment.phase for moment in world.story.moments] == ["Running", "Restarting", "Running"]
    assert lost() - before == 3


def test_news_that_comes_while_a_write_fails_goes_over_what_was_to_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(*_: object) -> None:
        world.job("MODIFIED", "Restarting", restarts=1)
        world.pod("DELETED", "p0", "Failed")
        world.job("DELETED", "Restarting", restarts=1)
        raise Transient("away")

    world.job("ADDED")
    world.job("MODIFIED", "Running")
    world.pod("MODIFIED", "p0", "Failed")
    with monkeypatch.context() as away:
        away.setattr(world.store, "put", put)
        world.historian.write()
    story = world.story
    assert (story.summary.phase, story.summary.restarts, bool(story.summary.deleted_at)) == ("Restarting", 1, True)
    assert story.job["status"]["phase"] == "Restarting"
    assert [m.phase for m in story.moments] == ["Running", "Restarting"]
    assert [bool(pod["metadata"].get(GONE_AT)) for pod in story.pods] == [True]


def test_what_waits_is_bounded_and_what_is_let_go_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING_JOBS", 2)
    world.store.away = True
    before = lost()
    for number in range(5):
        raw = job_object("Running")
        raw["metadata"] |= {"uid": f"uid-{number}"}
        world.historian.see(AITRAININGJOBS, "ADDED", raw)
        world.historian.write()
    assert lost() - before == 3
    world.store.away = False
    world.historian.write()
    assert len(world.store.summaries()) == 2


def test_what_is_left_at_the_end_is_counted_as_lost(world: World) -> None:
    world.store.away = True
    world.job("ADDED", "Running")
    before = lost()
    world.historian.start()
    world.historian.stop(10.0)
    assert lost() - before == 1


def test_the_object_is_kept_without_the_values_of_its_environment(world: World) -> None:
    raw = job_object("Running")
    container = raw["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "TOKEN", "value": "hunter2"}]
    raw["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"}
    world.historian.see(AITRAININGJOBS, "ADDED", raw)
    assert "hunter2" not in str(world.story.job)
    assert container["name"] in str(world.story.job)


def test_a_clock_that_is_a_month_ahead_drops_nothing_before_the_api_server_has_said_what_time_it_is(
    world: World,
) -> None:
    world.job("ADDED")
    world.job("DELETED", "Running")
    world.historian.write()
    world.new_historian()
    world.now = NOW + 30 * DAY
    world.historian.write()
    assert len(world.store) == 1
    world.now = NOW  # as the first answer says
    world.listed()
    world.historian.write()
    assert len(world.store) == 1
    world.now = NOW + 8 * DAY
    world.historian.write()
    assert len(world.store) == 0


def test_the_watchers_history_goes_by_the_date_of_the_api_servers_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_api(tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        settings, ahead = Settings(record_keys="a" * 32), time.time() + 30 * DAY
        clock = ClusterClock(wall=lambda: ahead)
        watcher, historian = _make_watcher(settings, None, clock), _make_historian(settings, clock)
        assert historian is not None
        assert historian._now() == ahead
        watcher._api.alive()
        assert abs(historian._now() - time.time()) < HOUR


def test_an_object_that_cannot_be_read_costs_nobody_anything(world: World) -> None:
    world.historian.see(PODS, "DELETED", {"metadata": "none"})
    world.historian.see(AITRAININGJOBS, "ADDED", {"metadata": {}})
    world.historian.write()
    assert world.store.summaries() == []


def kept_until(world: World) -> float:
    world.historian.write()
    return world.store._kept["default", "uid-digits"].keep_until


def test_a_job_is_kept_from_its_deletion_else_its_end_else_its_last_change_on(world: World) -> None:
    world.job("ADDED", "Running")
    assert kept_until(world) == NOW + LIVE_SECONDS
    world.now += HOUR
    world.job("MODIFIED", "Succeed", completionTime="2023-11-14T22:13:30Z")  # 10 s after NOW
    assert kept_until(world) == NOW + 10 + 7 * DAY
    world.job("DELETED", "Succeed", completionTime="2023-11-14T22:13:30Z")
    assert kept_until(world) == NOW + HOUR + 7 * DAY
    world.now += HOUR
    world.pod("DELETED", "late")
    assert kept_until(world) == NOW + HOUR + 7 * DAY, "a pod that goes later changes nothing of that"
    assert [pod["metadata"]["uid"] for pod in world.story.pods] == ["late"]


WRITES: dict[str, tuple[list[tuple[str, str]], int]] = {
    "it is new": ([("ADDED", "")], 1),
    "its phase changes": ([("ADDED", ""), ("MODIFIED", "Running")], 2),
    "its status changes after its end": ([("ADDED", "Failed"), ("MODIFIED", "Failed")], 2),
    "it is deleted": ([("ADDED", "Running"), ("DELETED", "Running")], 2),
    "it is deleted, and nobody has seen it before": ([("DELETED", "Running")], 1),
    "it is shown again after that": ([("DELETED", "Running"), ("MODIFIED", "Failed"), ("ADDED", "")], 1),
}
"""What the watch shows of one job, and how many entries of it are written."""


@pytest.mark.parametrize("sentence", WRITES)
def test_what_of_a_job_is_news(sentence: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    events, want = WRITES[sentence]
    written: list[Entry] = []

    def put(entries: Sequence[Entry], now: float) -> LeftOut:
        written.extend(entries)
        return LeftOut()

    monkeypatch.setattr(world.store, "put", put)
    for kind, phase in events:
        world.job(kind, phase)
        world.historian.write()
    assert len(written) == want


OVER: dict[str, tuple[str, str, str, list[str]]] = {
    "it runs": ("MODIFIED", "Running", "default", []),
    "it has succeeded": ("MODIFIED", "Succeeded", "default", ["p0"]),
    "it has failed": ("MODIFIED", "Failed", "default", ["p0"]),
    "it is gone": ("DELETED", "Running", "default", ["p0"]),
}


@pytest.mark.parametrize("sentence", OVER)
def test_which_pods_of_a_job_are_kept(sentence: str, world: World) -> None:
    kind, phase, namespace, want = OVER[sentence]
    world.job("ADDED", "Running")
    meta = {"name": "p", "namespace": namespace, "uid": "p0", "labels": {JOB_UID: "uid-digits"}}
    world.historian.see(PODS, kind, {"metadata": meta, "status": {"phase": phase}})
    assert [pod["metadata"]["uid"] for pod in world.story.pods] == want
    gone = "2023-11-14T22:13:20Z" if kind == "DELETED" else None
    assert [pod["metadata"].get(GONE_AT) for pod in world.story.pods] == [gone] * len(want)


def test_a_job_of_a_real_watch_and_its_pod_reach_the_history() -> None:
    bench = Bench()
    store = MemoryHistory(Bounds(7 * DAY, 100))
    bench.watcher = bench.new_watcher(historian=Historian(store, 7 * DAY, now=lambda: NOW))
    bench.settle()
    made = bench.kube.create(AITRAININGJOBS, "default", JOB)
    pod = bench.pod("digits-trainer-0", made)
    pod["metadata"]["labels"] = {JOB_UID: made["metadata"]["uid"]}
    bench.kube.create(PODS, "default", pod)
    bench.settle()
    bench.kube.delete(AITRAININGJOBS, "default", "digits", uid=made["metadata"]["uid"])
    bench.settle()
    assert bench.historian is not None
    bench.historian.write()
    story = store.story("default", made["metadata"]["uid"])
    assert story is not None
    assert story.summary.deleted_at
    assert [one["metadata"]["name"] for one in story.pods] == ["digits-trainer-0"]
