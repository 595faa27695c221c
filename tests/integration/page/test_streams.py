"""The page's streams, its bounds, and what a job's own view shows of it."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import RealRedis
from tests.integration.page.test_shown import cells, text_of
from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tests.support.page_world import PageWorld
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.api import labels
from tjworker.api.resources import EVENTS, PODS
from tjworker.api.status import TrainerStatus
from tjworker.base import JobKey
from tjworker.cli.jobs import FoundJob
from tjworker.cli.logstream import Excerpt, Wanted
from tjworker.history.records import Entry, Moment, Summary, kept_job, kept_pod, summary_of
from tjworker.page import server, streams, views
from tjworker.page.board import BoardReader
from tjworker.telemetry.metrics import REGISTRY

KIND = "aitrainingjobs.elasticdeeplearning.ai"
DIGITS = make_job("digits").workers(2)
JOB_PATH = f"{KIND}/default/digits"


@pytest.fixture
def page(real_redis: RealRedis, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageWorld]:
    monkeypatch.setattr(streams, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(streams, "LOG_SECONDS", 0.02)
    monkeypatch.setattr(BoardReader, "age_seconds", 0.0)
    with PageWorld(real_redis).served() as world:
        yield world


@contextmanager
def stream(page: PageWorld, path: str, who: str = "all") -> Iterator[Callable[[], tuple[str, Any]]]:
    """Gives a function that waits for the next event: its name and its data."""
    request = urllib.request.Request(page.url + path, headers={"Authorization": f"Bearer {who}"})  # noqa: S310
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE_SECONDS) as opened:

        def following() -> tuple[str, Any]:
            name, data, _ = (opened.readline().decode().strip() for _ in range(3))
            return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

        yield following


def news(following: Callable[[], tuple[str, Any]]) -> tuple[str, Any]:
    """The next event that says something: on a busy machine beats come before it."""
    while (event := following())[0] == "beat":
        pass
    return event


def test_who_watches_one_job_hears_of_that_one_alone(page: PageWorld) -> None:
    digits, words = dict(page.add(DIGITS)), dict(page.add(make_job("words").workers(1)))
    with stream(page, f"/events?watch={JOB_PATH}") as following, stream(page, "/events?watch=jobs") as of_all:
        assert following()[0] == of_all()[0] == "beat"
        page.change(words, phase="Running")
        assert news(of_all)[0] == "change"
        page.change(digits, phase="Running")
        assert news(following) == ("change", page.reader.refresh().jobs[JobKey(JOB_PATH)].mark)
        assert news(of_all) == ("change", page.reader.board.revision)


def test_a_stream_says_that_redis_is_away_and_that_it_is_back(page: PageWorld) -> None:
    page.add(DIGITS)
    there = page.reader._redis, page.reader._client
    with stream(page, "/events?watch=jobs") as following:
        assert following()[0] == "beat"
        page.lose_redis()
        name, words = news(following)
        assert (name, "Redis" in words) == ("away", True)
        page.reader._redis, page.reader._client = there
        assert news(following)[0] == "change"


def test_a_quiet_stream_beats(page: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEAT_SECONDS", 0.05)
    with stream(page, "/events?watch=jobs") as following:
        assert {following()[0] for _ in range(3)} == {"beat"}


def ended(result: str) -> float:
    """How many streams of logs have ended so."""
    return REGISTRY.get_sample_value("tj_page_requests_total", {"view": "logs", "result": result}) or 0.0


def test_a_viewer_takes_so_many_streams_and_leaves_the_others_to_other_viewers(page: PageWorld) -> None:
    page.add(make_job("of-a").workers(1), "team-a")
    page.site.watchers.most, page.site.watchers.each = 2, 1
    watch = "/events?watch=jobs"
    with stream(page, watch, "team-a") as following, stream(page, watch, "team-b") as of_another:
        following(), of_another()
        assert [page.get(watch, who).code for who in ("team-a", "team-c", "")] == [429, 503, 401]
    logs, before = f"/logs/{KIND}/team-a/of-a", (ended("ok"), ended("refused"), ended("failed"))
    page.site.logs.each = 0
    assert "you follow 0 logs already" in page.get(logs, "team-a").body
    page.site.logs.most, page.site.logs.each = 0, 1
    assert "0 logs are being followed already" in page.get(logs, "team-a").body
    assert "your token may not" in page.get(logs, "team-b").body, "a place is only for those who may read the job"
    until("each is counted", lambda: (ended("ok"), ended("refused") - 2, ended("failed") - 1) == before)


def test_on_ones_own_machine_viewers_are_not_told_apart(real_redis: RealRedis) -> None:
    with PageWorld(real_redis, own=True).served() as world:
        world.site.watchers.each = 0
        with stream(world, "/events?watch=jobs") as following:
            assert following()[0] == "beat"


class Follower:
    """In the place of the real one: says three lines, and keeps what it was made with."""

    made: tuple[Any, ...] = ()
    left_out = 0

    def __init__(
        self, cluster: Any, job: FoundJob, wanted: Wanted, excerpt: Excerpt, emit: Any, *, tells_outage: bool, most: int
    ) -> None:
        Follower.made = job.namespace, job.name, wanted, excerpt, tells_outage, most
        self._emit = emit

    def run(self, stop: threading.Event) -> None:
        for line in ("one\ttab", "\x1b[31mred", "x" * (streams.LOG_LINE_CHARS + 1)):
            self._emit("trainer-0", line)


def test_a_log_has_all_its_lines_and_then_its_end(page: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "Follower", Follower)
    page.add(DIGITS)
    with stream(page, f"/logs/{JOB_PATH}?role=trainer") as following:
        lines: list[Any] = []
        while len(lines) < 3:
            name, batch = news(following)
            assert name == "lines"
            lines += batch
        assert news(following) == ("end", "the job has ended, and this is all of its logs that there is")
    assert lines == [
        ["trainer-0", "one\ttab"],
        ["trainer-0", " [31mred"],
        ["trainer-0", "x" * streams.LOG_LINE_CHARS + "\u2026"],
    ]
    excerpt = Excerpt(tail=streams.LOG_TAIL_LINES)
    assert Follower.made == ("default", "digits", Wanted("trainer"), excerpt, False, streams.MOST_FOLLOWED)


WANTED = {
    "": Wanted(),
    "?role=&replica=": Wanted(),
    "?role=ps&replica=7": Wanted("ps", 7),
    "?replica=%20digits-ps-7%20": Wanted(pod="digits-ps-7"),
    "?replica=-1": Wanted(pod="-1"),
    f"?replica={'9' * 5000}": Wanted(index=999_999_999),
}


def test_a_viewer_chooses_logs_by_role_index_or_pod(page: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "Follower", Follower)
    page.add(DIGITS)
    found = {}
    for query in WANTED:
        page.get(f"/logs/{JOB_PATH}{query}")
        found[query] = Follower.made[2]
    assert found == WANTED


def test_of_many_logs_some_are_followed_and_a_note_says_how_to_see_the_others(
    page: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "Follower", Follower)
    monkeypatch.setattr(Follower, "left_out", 984)
    page.add(DIGITS)
    with stream(page, f"/logs/{JOB_PATH}") as following:
        name, words = news(following)
    assert (name, words.partition(":")[0]) == ("note", "16 logs are followed, 984 more are not")


# -- the view of one job -----------------------------------------------------------------------------------------------


def a_pod(job: Any, uid: str = "p0") -> dict[str, Any]:
    meta = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": meta["name"], "uid": meta["uid"]}
    marks = {
        labels.JOB_NAME: "digits",
        labels.REPLICA_NAME: "trainer",
        labels.REPLICA_INDEX: "0",
        labels.RESTART_ATTEMPT: "2",
        labels.JOB_UID: meta["uid"],
        labels.GROUP_NAME: "elasticdeeplearning.ai",
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "digits-trainer-0", "labels": marks, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"nodeName": "node-a", "containers": [{"name": "aitj-main", "image": "x"}]},
    }


def test_the_view_of_a_job_has_its_pods_its_events_and_its_roles(page: PageWorld) -> None:
    told = TrainerStatus(progressPercentage=41)
    made = page.add(DIGITS.role("ps", 1).status(phase="Running", message="all run", trainer_status=told))
    page.api.create(PODS, "default", a_pod(made))
    involved = {"kind": "AITrainingJob", "name": "digits", "uid": made["metadata"]["uid"], "namespace": "default"}
    at = made["metadata"]["creationTimestamp"]
    for number, reason in enumerate(("Created", "Scaled")):
        event = {"type": ("Normal", "Warning")[number], "reason": reason, "message": f"it was {reason}", "count": 1}
        times = {"firstTimestamp": at, "lastTimestamp": at}
        page.api.create(
            EVENTS, "default", {"metadata": {"name": f"e{number}"}, "involvedObject": involved, **event, **times}
        )
    body = page.get(f"/jobs/{JOB_PATH}").body
    assert text_of(re.findall(r"<h1>(.*?)</h1>", body, re.DOTALL)[0]) == "digits Running"
    assert '<progress max="100" value="41"' in body
    assert "all run" in body
    [pod] = cells(body.partition("<h2>Pods</h2>")[2])
    assert {name: pod[name] for name in ("", "Node", "Attempt")} == {
        "": "digits-trainer-0",
        "Node": "node-a",
        "Attempt": "2",
    }
    events = cells(body, "events")
    assert [(row["Reason"], row["Object"], row["Message"]) for row in events] == [
        ("Scaled", "aitrainingjob/digits", "it was Scaled"),
        ("Created", "aitrainingjob/digits", "it was Created"),
    ], "the newest first"
    assert re.findall(r"<option>(.*?)</option>", body) == ["ps", "trainer"]
    assert f'data-watch="{JOB_PATH}"' in body
    assert f'data-log="/logs/{JOB_PATH}"' in body


def test_of_a_job_of_many_pods_some_are_shown_and_drawn_and_a_note_names_the_rest(
    page: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = page.add(DIGITS.status(phase="Running"))
    pods = []
    for number in range(1_000):
        pods.append(one := a_pod(made, f"p{number}"))
        one["metadata"] |= {
            "name": f"digits-trainer-{number}",
            "creationTimestamp": made["metadata"]["creationTimestamp"],
        }
        one["metadata"]["labels"][labels.REPLICA_INDEX] = str(number)
    monkeypatch.setattr(server, "job_pods", lambda *_: pods)
    body = page.get(f"/jobs/{JOB_PATH}").body
    assert len(cells(body.partition("<h2>Pods</h2>")[2])) == views.SHOWN_PODS
    assert f">trainer-{views.SHOWN_PODS - 1}<" in body
    assert f">trainer-{views.SHOWN_PODS}<" not in body
    assert f"{1_000 - views.SHOWN_PODS} more pods" in body


def test_that_a_spec_cannot_be_used_follows_the_headline(page: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    made = page.add(DIGITS.status(phase="Running", message="all run"))
    spoilt = {**made, "spec": {**made["spec"], "timeLimit": "soon"}}  # as an older schema of the CRD took it
    monkeypatch.setattr(server, "find_job", lambda *_: FoundJob(AITRAININGJOBS, spoilt))
    story = page.get(f"/jobs/{JOB_PATH}").body.partition('id="story"')[2]
    headline, message, unusable, *_ = (text_of(one) for one in re.findall(r"<p[^>]*>(.*?)</p>", story, re.DOTALL))
    assert headline.startswith("AITrainingJob digits in namespace default is Running")
    assert message == "all run."
    assert unusable.startswith("Its spec cannot be used: spec.timeLimit")


def test_the_view_of_a_job_of_the_past(page: PageWorld) -> None:
    raw = {**dict(DIGITS.object()), "status": {"phase": "Running", "message": "all run", "restarts": 1}}
    raw["metadata"] |= {"namespace": "team-a", "uid": "uid-1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    summary = summary_of(AITRAININGJOBS, raw, deleted_at="2026-01-01T01:00:00Z")
    pod = a_pod(raw)
    pod["metadata"] |= {"uid": "p0", "creationTimestamp": "2026-01-01T00:00:01Z"}
    pod["status"] = {"phase": "Running"}
    kept = kept_pod(pod, gone_at="2026-01-01T01:00:00Z")
    moments = [Moment("2026-01-01T00:00:05Z", "Running")]
    page.history.put(
        [Entry("team-a", "uid-1", summary, 1e12, job=kept_job(raw), pods={"p0": kept}, moments=moments)], 0
    )
    body = page.get("/history/team-a/uid-1", "team-a").body
    assert text_of(re.findall(r"<h1>(.*?)</h1>", body, re.DOTALL)[0]) == "digits Running Deleted"
    assert "deleted at 2026-01-01T01:00:00Z. As of then:" in body
    assert "all run" in body
    assert "<svg" in body
    [row] = cells(body.partition("<h2>Pods</h2>")[2])
    assert (row[""], row["State"], row["Node"]) == ("digits-trainer-0", "Deleted", "node-a")


def test_the_rows_of_the_history_as_json_have_every_field(page: PageWorld) -> None:
    gone = Summary(KIND, "team-a", "a", "uid-1", "AITrainingJob", "Failed", "c", "e", "d", 3, "why")
    alive = Summary(KIND, "team-a", "b", "uid-2", "AITrainingJob", "Running", "c")
    for one in (gone, alive):
        page.history.put([Entry(one.namespace, one.uid, one, 1e12)], 0)
    answer = page.get("/api/history", "team-a")
    assert answer.headers["Content-Type"].startswith("application/json")
    assert json.loads(answer.body) == {"jobs": [json.loads(gone.to_json())]}


def test_a_bug_of_a_view_is_a_500_and_other_views_go_on(page: PageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(views, "job_list", bug)
        answer = page.get("/")
        assert (answer.code, "its log has it" in answer.body) == (500, True)
        assert page.get("/cluster").code == 200
    assert page.get("/static/page.css").headers["Cache-Control"] == "no-cache"
    assert page.get("/").headers["Cache-Control"] == "no-store"


def test_while_the_operator_still_reads_the_cluster_the_page_says_so(page: PageWorld) -> None:
    note = "jobs may be missing until it has"
    assert note not in page.get("/").body
    with page.redis.client() as redis:
        assert redis.hdel(page.reader._redis.key("writer"), "synced")
    assert note in page.get("/").body
