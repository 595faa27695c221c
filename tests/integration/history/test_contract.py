"""What a history store promises: each store, and its in-memory twin."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.conftest import RealRedis
from tests.support.memory_history import MemoryHistory
from tjworker.history.records import Entry, Moment, Summary
from tjworker.history.redis_history import RedisHistory
from tjworker.history.sql_history import SqlHistory
from tjworker.history.store import MOST_MOMENTS, MOST_PODS, Bounds, HistoryStore, LeftOut, ended, find
from tjworker.store.connect import client
from tjworker.store.redis_commands import RedisCommands

NOW = 1_700_000_000.0
A = Summary("jobs.example.com", "team-a", "digits", "uid-1", "Job", "Running", "2023-11-14T20:00:00Z")
POD = {
    "metadata": {"name": "digits-0", "namespace": "team-a", "uid": "p0", "creationTimestamp": "2023-11-14T20:00:01Z"}
}
Open = Callable[[Bounds], HistoryStore]


@pytest.fixture(params=["memory", "redis", "sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def open_store(request: pytest.FixtureRequest) -> Iterator[Open]:
    opened: list[HistoryStore] = []

    def make(bounds: Bounds) -> HistoryStore:
        if request.param == "memory":
            opened.append(MemoryHistory(bounds))
        elif request.param == "redis":
            redis: RealRedis = request.getfixturevalue("real_redis")
            opened.append(RedisHistory(RedisCommands(client(redis.url), redis.prefix, where=redis.url), bounds))
        else:
            url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgresql")
            opened.append(SqlHistory(url, f"test-{uuid.uuid4().hex[:8]}", bounds))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


@pytest.fixture
def store(open_store: Open) -> HistoryStore:
    return open_store(Bounds(100.0, 50))


def entry(summary: Summary = A, keep_seconds: float = 100.0, **parts: object) -> Entry:
    return Entry(summary.namespace, summary.uid, summary, NOW + keep_seconds, **parts)  # type: ignore[arg-type]


def test_what_was_put_is_read_and_the_newest_object_counts(store: HistoryStore) -> None:
    store.put([entry(job={"spec": {"a": 1}}, pods={"p0": POD}, moments=[Moment("t1", "Running", "all run")])], NOW)
    done = replace(A, phase="Succeed", ended_at="2023-11-14T21:00:00Z")
    store.put([entry(done, job={"spec": {"a": 2}}, moments=[Moment("t2", "Succeed")])], NOW)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert (story.summary, story.job, story.pods) == (done, {"spec": {"a": 2}}, (POD,))
    assert story.moments == (Moment("t1", "Running", "all run"), Moment("t2", "Succeed", ""))
    assert store.summaries() == [done]


def test_the_same_news_twice_changes_nothing(store: HistoryStore) -> None:
    news = entry(job={"a": 1}, pods={"p0": POD}, moments=[Moment("t1", "Running")])
    store.put([news], NOW)
    before = store.story("team-a", "uid-1")
    store.put([news], NOW)
    assert store.story("team-a", "uid-1") == before


def test_news_of_pods_alone_keeps_summary_object_and_the_time_that_the_job_is_kept(store: HistoryStore) -> None:
    store.put([entry(keep_seconds=10, job={"a": 1})], NOW)
    store.put([Entry("team-a", "uid-1", None, NOW + 1000, pods={"p0": POD})], NOW)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert (story.summary, story.job, story.pods) == (A, {"a": 1}, (POD,))
    store.put([], NOW + 11)
    assert store.summaries() == []
    assert store.story("team-a", "uid-1") is None


def test_a_job_that_was_never_there_has_no_story(store: HistoryStore) -> None:
    store.put([entry()], NOW)
    assert store.story("team-b", "uid-1") is None, "of another namespace"
    assert store.story("team-a", "uid-2") is None


def test_what_is_over_goes_with_the_next_write_and_not_earlier(store: HistoryStore) -> None:
    other = replace(A, uid="uid-2")
    store.put([entry(keep_seconds=10), entry(other, keep_seconds=20)], NOW)
    store.put([], NOW + 9)
    assert len(store.summaries()) == 2
    store.put([], NOW + 15)
    assert store.summaries() == [other]


def test_a_job_is_over_at_its_time_and_not_a_moment_before(store: HistoryStore) -> None:
    store.put([entry(keep_seconds=10, pods={"p0": POD})], NOW)
    store.put([], NOW + 9.9)
    assert store.summaries() == [A]
    store.put([], NOW + 10)
    assert (store.summaries(), store.story("team-a", "uid-1")) == ([], None)
    store.put([entry()], NOW + 10)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert (story.job, story.pods, story.moments) == ({}, (), ()), "nothing of it is left for one that comes again"


def test_a_later_summary_moves_the_time_and_one_for_pods_alone_begins_it(store: HistoryStore) -> None:
    store.put([Entry("team-a", "uid-1", None, NOW + 10, pods={"p0": POD})], NOW)
    assert (store.summaries(), store.story("team-a", "uid-1")) == ([], None), "no row without a summary"
    store.put([entry(keep_seconds=30, job={"a": 1})], NOW)
    store.put([], NOW + 20)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert (story.summary, story.job, story.pods) == (A, {"a": 1}, (POD,))
    store.put([entry(keep_seconds=40)], NOW + 20)
    store.put([], NOW + 35)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert story.job == {"a": 1}, "a summary alone keeps the object"


def test_every_field_of_a_summary_comes_back_and_jobs_of_one_uid_are_told_apart_by_namespace(
    store: HistoryStore,
) -> None:
    whole = Summary("r", "team-a", "n", "uid-1", "K", "Failed", "c", "e", "d", 3, "m")
    other = replace(whole, namespace="team-b", restarts=4)
    store.put([entry(whole), entry(other, job={"of": "b"})], NOW)
    assert sorted(store.summaries(), key=lambda one: one.namespace) == [whole, other]
    for summary, job in ((whole, {}), (other, {"of": "b"})):
        story = store.story(summary.namespace, "uid-1")
        assert story is not None
        assert (story.summary, story.job) == (summary, job)


def test_more_jobs_than_one_call_takes_are_written_and_read(open_store: Open) -> None:
    store = open_store(Bounds(100.0, 5_000))
    every = [replace(A, uid=f"uid-{n}", restarts=n) for n in range(150)]
    store.put([entry(one) for one in every], NOW)
    assert sorted(one.restarts for one in store.summaries()) == list(range(150))


def test_of_too_many_jobs_those_go_whose_time_ends_first(open_store: Open) -> None:
    store = open_store(Bounds(100.0, 3))
    every = [replace(A, uid=f"uid-{n}", name=f"job-{n}") for n in range(5)]
    store.put([entry(one, keep_seconds=10.0 + n) for n, one in enumerate(every)], NOW)
    store.put([], NOW)
    assert sorted(one.uid for one in store.summaries()) == ["uid-2", "uid-3", "uid-4"]
    assert store.story("team-a", "uid-0") is None


def test_what_is_over_is_none_of_those_that_are_too_many(open_store: Open) -> None:
    store = open_store(Bounds(100.0, 2))
    every = [replace(A, uid=f"uid-{n}", name=f"job-{n}") for n in range(4)]
    store.put([entry(one, keep_seconds=10.0 + 10 * n) for n, one in enumerate(every)], NOW)
    store.put([], NOW + 15)
    assert sorted(one.uid for one in store.summaries()) == ["uid-2", "uid-3"]


def test_of_a_job_with_endless_pods_so_many_are_kept_and_their_news_the_phases_and_the_summary_go_on(
    store: HistoryStore,
) -> None:
    def pods(*numbers: int, **more: str) -> dict[str, object]:
        return {f"p{n}": {**POD, "metadata": {**POD["metadata"], "uid": f"p{n}", **more}} for n in numbers}

    assert store.put([entry(pods=pods(*range(MOST_PODS - 10)))], NOW) == LeftOut()
    assert store.put([entry(pods=pods(*range(MOST_PODS - 20, MOST_PODS + 5)))], NOW) == LeftOut(parts=5)
    done = replace(A, phase="Failed", ended_at="2023-11-14T21:00:00Z")
    moments = [Moment(f"t{n:03d}", "Running") for n in range(MOST_MOMENTS + 1)]
    news = pods(0, MOST_PODS + 9, gone="yes")
    assert store.put([entry(done, pods=news, moments=moments)], NOW) == LeftOut(parts=2)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert (len(story.pods), story.moments, story.summary) == (MOST_PODS, tuple(moments[:-1]), done)
    assert [pod["metadata"]["uid"] for pod in story.pods if pod["metadata"].get("gone")] == ["p0"]


def test_texts_of_any_kind_come_back_as_they_were(store: HistoryStore) -> None:
    odd = replace(A, name="digits", message="<script>\x1b[31m\u202e\n\U0001f9ea" + "x" * 900)
    store.put([entry(odd, job={"spec": {"text": "\x00 " + "é" * 10}})], NOW)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert (story.summary.message, story.job) == (odd.message, {"spec": {"text": "\x00 " + "é" * 10}})


def test_a_list_of_the_past_begins_with_the_newest_and_leaves_out_what_lives() -> None:
    gone = replace(A, uid="uid-2", deleted_at="2023-11-14T22:00:00Z")
    done = replace(A, uid="uid-3", ended_at="2023-11-14T21:00:00Z")
    assert ended([A, done, gone]) == [gone, done]


def test_of_jobs_of_one_name_the_last_one_is_found() -> None:
    later = replace(A, uid="uid-0", created_at="2023-11-15T20:00:00Z")
    other = replace(A, uid="uid-9", namespace="team-b", created_at="2024-11-15T20:00:00Z")
    assert find([A, later, other], "team-a", "digits") == later
    assert find([A, later], "team-a", "digits", "other.example.com") is None
