"""The page, as a viewer of it gets it: over HTTP, from a real Redis, as far as the viewer's token may read."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.conftest import RealRedis
from tests.integration.page.test_shown import cells
from tests.support.builders import make_job
from tests.support.page_world import PageWorld
from tests.support.queueing import acquire_one, finish_one
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.api.status import Failure
from tjworker.base import JobKey, Terminal
from tjworker.history.records import Entry, Summary
from tjworker.page import access, server
from tjworker.page.__main__ import site_of
from tjworker.page.board import AGE_SECONDS, HISTORY_SECONDS, MESSAGE_CHARS, WORKER_SECONDS
from tjworker.page.site import PAST_THREADS, THREADS
from tjworker.settings import Settings
from tjworker.store.work_queue import NOTHING_WRITTEN
from tjworker.telemetry import metrics
from tjworker.telemetry.metrics import REGISTRY
from tjworker.worker.consumer import ask

KIND = "aitrainingjobs.elasticdeeplearning.ai"
DIGITS = make_job("digits").workers(2)
GONE = Summary(KIND, "team-a", "gone-a", "uid-gone", "AITrainingJob", "Failed", deleted_at="2026-11-24T10:00:00Z")
BEARER = {"Authorization": "Bearer all"}
HOSTILE = "<script>window.hacked=1</script>\"'><img src=x onerror=alert(1)>\x1b[31mred\x1b[0m\u202e"


@pytest.fixture
def page(real_redis: RealRedis) -> Iterator[PageWorld]:
    with PageWorld(real_redis).served() as world:
        yield world


def test_a_list_shows_each_job_and_asks_the_api_server_for_nothing_but_rights(page: PageWorld) -> None:
    page.add(DIGITS.status(phase="Running", message="all 2 replicas are running"))
    answer = page.get("/")
    assert answer.code == 200
    for words in ("digits", "Running", "all 2 replicas are running", f'href="/jobs/{KIND}/default/digits"'):
        assert words in answer.body
    assert {path.rpartition("/")[2] for _, _, path in page.asked} == {"selfsubjectaccessreviews"}
    asked = len(page.asked)
    for _ in range(3):
        page.get("/")
    assert len(page.asked) == asked, "the rights are remembered for a while"


def test_a_viewer_sees_the_jobs_of_the_namespaces_that_the_token_may_list_and_no_others(page: PageWorld) -> None:
    for namespace in ("team-a", "team-b"):
        page.add(make_job(f"of-{namespace}").workers(1).status(phase="Running"), namespace)
    page.history.put([Entry("team-a", "uid-gone", GONE, 1e12)], 0)
    shown = {
        token: [name for name in ("of-team-a", "of-team-b") if name in page.get("/", token).body]
        for token in ("team-a", "team-b", "all")
    }
    assert shown == {"team-a": ["of-team-a"], "team-b": ["of-team-b"], "all": ["of-team-a", "of-team-b"]}
    assert "team-b" not in page.get("/", "team-a").body, "neither in a filter"
    assert "gone-a" in page.get("/history", "team-a").body
    assert "gone-a" not in page.get("/history", "team-b").body
    rows = json.loads(page.get("/api/history", "team-b").body)
    assert rows == {"jobs": []}


def test_a_namespace_beyond_those_that_are_checked_is_shown_when_it_is_chosen(
    page: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MOST_NAMESPACES", 1)
    for namespace in ("team-a", "team-b"):
        page.add(make_job(f"of-{namespace}").workers(1).status(phase="Running"), namespace)
    listed = page.get("/", "team-b").body
    assert "of-team-b" not in listed
    assert "Jobs of 1 more kinds and namespaces are not shown: choose a namespace." in listed
    assert "of-team-b" in page.get("/?namespace=team-b", "team-b").body


REFUSED = {
    "a job of another namespace": (f"/jobs/{KIND}/team-a/of-a", 403, "team-a" + "|your token may not"),
    "a job of the past of another namespace": ("/history/team-a/uid-gone", 403, "your token may not list jobs"),
    "one that there is not, of another namespace": ("/history/team-a/uid-other", 403, "your token may not list jobs"),
    "when a job of another namespace changes": (f"/events?watch={KIND}/team-a/of-a", 403, ""),
    "a job that there is not": (f"/jobs/{KIND}/team-b/none", 404, "see History"),
    "a kind that there is not": ("/jobs/pods/team-b/none", 404, "no name of a job"),
    "an address that there is not": ("/nowhere", 404, "no such view"),
    "a way out of the folder": ("/static/../server.py", 404, ""),
}


@pytest.mark.parametrize(("path", "code", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_a_viewer_may_not_see_or_is_not_there_is_one_sentence(
    page: PageWorld, path: str, code: int, says: str
) -> None:
    page.add(make_job("of-a").workers(1), "team-a")
    page.history.put([Entry("team-a", "uid-gone", GONE, 1e12)], 0)
    answer = page.get(path, "team-b")
    assert answer.code == code
    assert any(part in answer.body for part in says.split("|"))
    assert "of-a" not in answer.body.replace(path, "") or code == 403
    assert "Traceback" not in answer.body


def test_without_a_token_or_with_one_that_the_cluster_does_not_know_nothing_is_shown(page: PageWorld) -> None:
    page.add(DIGITS)
    for token, says in (("", "sign in"), ("unknown", "does not know this token")):
        answer = page.get("/", token)
        assert (answer.code, "digits" in answer.body) == (401, False)
        assert says in answer.body
        assert page.get("/events?watch=jobs", token).code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_on_ones_own_machine_only_its_own_names_are_answered(real_redis: RealRedis) -> None:
    """A page of somebody else's whose name points to 127.0.0.1 (DNS rebinding) would read everything."""
    with PageWorld(real_redis, own=True).served() as world:
        assert world.get("/", "").code == 200
        for path in ("/", "/events?watch=jobs", f"/logs/{KIND}/default/digits", "/api/history"):
            assert world.get(path, "", Host="evil.example.com").code == 403, path


def test_with_a_password_only_those_who_have_it_see_anything(real_redis: RealRedis) -> None:
    with PageWorld(real_redis, own=True, password="me:pass:word").served() as world:
        for path in ("/", "/cluster", "/history", "/api/history", f"/jobs/{KIND}/default/digits"):
            for wrong in ("", "Basic bWU6cGFzczp3b3Jr", "Bearer me:pass:word", "me:pass:word"):
                answer = world.get(path, "", Authorization=wrong)
                assert (answer.code, answer.headers["WWW-Authenticate"][:6]) == (401, "Basic "), (path, wrong)
        for path in ("/events?watch=jobs", f"/logs/{KIND}/default/digits"):
            assert "digits" not in world.get(path, "").body, path
        given = {"Authorization": "Basic bWU6cGFzczp3b3Jk", "Host": "jobs.example.com"}
        assert world.get("/", "", **given).code == 200


UNSAFE = {
    "everybody in the network": ({"page_access": "kubeconfig", "page_host": "0.0.0.0"}, "set TJ_PAGE_BASIC_AUTH="),
    "a password beside tokens": ({"page_basic_auth": "me:pass:word"}, "or unset the password"),
}


@pytest.mark.parametrize(("settings", "says"), UNSAFE.values(), ids=UNSAFE.keys())
def test_a_page_that_would_show_more_than_was_meant_does_not_start(settings: dict[str, str], says: str) -> None:
    with pytest.raises(Terminal, match=says):
        site_of(Settings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/", "/cluster", "/history", "/nowhere", "/static/page.js", "/static/page.css"])
def test_every_answer_forbids_what_is_not_its_own(page: PageWorld, path: str) -> None:
    headers = page.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_written(page: PageWorld, method: str) -> None:
    page.add(DIGITS)
    assert page.get(f"/jobs/{KIND}/default/digits", method=method).code == 405
    assert page.api.get("aitrainingjobs.elasticdeeplearning.ai", "default", "digits") is not None  # type: ignore[arg-type]


def test_texts_of_a_job_stay_texts(page: PageWorld) -> None:
    at, pod = "2026-11-24T10:00:00Z", "digits-trainer-0"
    failure = Failure(time=at, role="trainer", pod=pod, message=HOSTILE, log_tail=HOSTILE)
    page.add(DIGITS.status(phase="Running", message=HOSTILE, failures=(failure,)))
    page.history.put([Entry("team-a", "uid-gone", replace(GONE, message=HOSTILE, name=HOSTILE), 1e12)], 0)
    for path in ("/", f"/jobs/{KIND}/default/digits", "/history", "/history/team-a/uid-gone"):
        body = page.get(path).body
        assert "window.hacked" in body, f"{path} shows it"
        assert "<script>window" not in body
        assert "<img src=x" not in body
        assert "\x1b" not in body
        assert "\u202e" not in body


def test_a_text_of_a_megabyte_is_cut(page: PageWorld) -> None:
    long = "x" * (1 << 20)
    made = dict(page.add(DIGITS))
    page.change(made, phase="Running", message=long)
    body = page.get("/").body
    assert 0 < body.count("x" * 50) <= MESSAGE_CHARS // 50 + 1
    assert len(body) < 50_000


def test_a_job_of_which_the_status_makes_no_sense_is_a_row_like_others(page: PageWorld) -> None:
    made = dict(page.add(DIGITS))
    senseless: list[dict[str, object]] = [
        {"phase": 7, "restarts": "many"},
        {"replicaStatuses": [1]},
        {"conditions": {}},
    ]
    for status in senseless:
        page.change(made, **status)
        assert "digits" in page.get("/").body


def test_of_5000_jobs_a_page_of_100_is_shown_with_the_way_to_the_others(page: PageWorld) -> None:
    page.crowd(5_000)
    first = page.get("/").body
    assert first.count('<th scope="row">') == 100
    assert "Page 1 of 50, 5000 jobs" in first
    last = page.get("/?page=50").body
    assert last.count('<th scope="row">') == 100
    assert "Page 50 of 50" in page.get("/?page=99999").body


FILTERED = {
    "by name": ("?q=DIG", {"digits"}),
    "by phase": ("?phase=Running", {"digits"}),
    "by the phase of a job without one": ("?phase=New", {"words"}),
    "by namespace": ("?namespace=team-b", {"words"}),
    "by kind": ("?kind=TrainingJob", set()),
    "by what makes no sense": ("?page=x&q=", {"digits", "words"}),
}


@pytest.mark.parametrize(("query", "want"), FILTERED.values(), ids=FILTERED.keys())
def test_a_list_is_filtered(page: PageWorld, query: str, want: set[str]) -> None:
    page.add(make_job("digits").workers(1).status(phase="Running"), "team-a")
    page.add(make_job("words").workers(1), "team-b")
    body = page.get(f"/{query}").body
    assert {name for name in ("digits", "words") if f">{name}</a>" in body} == want


def test_a_job_says_why_it_waits_or_failed_as_tj_describe_does(page: PageWorld) -> None:
    page.add(DIGITS.status(phase="Failed", message="restartLimit 2 of role trainer is used up"))
    body = page.get(f"/jobs/{KIND}/default/digits").body
    assert "restartLimit 2 of role trainer is used up" in body
    assert "<svg" in body
    assert 'aria-label="Replicas"' in body


def test_who_works_on_what_is_of_now_though_no_object_has_changed_since_the_last_look(
    page: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that is gone takes no place in the list.
    monkeypatch.setattr("tjworker.page.board.MOST_WORKERS", 2)
    page.add(DIGITS.status(phase="Running"))
    key, queue, clock = JobKey(f"{KIND}/default/digits"), page.store.queue, page.reader._now

    def works(later: float) -> bool:
        page.reader._now = lambda: clock() + later
        return "worker-7" in page.get("/cluster").body

    with page.redis.client() as redis:
        assert ask(redis, page.redis.prefix, ["host/1", "host/2"]) == 0
        redis.zadd(f"{page.redis.prefix}:workers", {"host/3": time.time() - WORKER_SECONDS - 5})
    assert not works(0)
    assert [(row[""], row["Reconciles now"]) for row in cells(page.get("/cluster").body, "workers")] == [
        ("host/1", "idle"),
        ("host/2", "idle"),
    ]
    queue.add([key])
    claim = acquire_one(queue, key, "worker-7", 60)
    assert claim is not None
    assert works(2)
    finish_one(queue, claim, NOTHING_WRITTEN)
    assert not works(4)


def test_while_redis_is_away_the_page_shows_what_it_had_and_how_old_that_is(page: PageWorld) -> None:
    page.add(DIGITS.status(phase="Running"))
    assert "digits" in page.get("/").body
    page.lose_redis()
    answer = page.get("/")
    assert (answer.code, "digits" in answer.body) == (200, True)
    assert "old: Redis" in answer.body


def test_while_redis_is_silent_more_viewers_than_there_are_threads_are_answered_with_what_the_page_had(
    page: PageWorld,
) -> None:
    page.add(DIGITS.status(phase="Running"))
    assert "digits" in page.get("/").body
    with page.silent_redis(), ThreadPoolExecutor(THREADS + 4) as viewers:
        answers = list(viewers.map(lambda _: page.get("/"), range(THREADS + 4)))
        assert {(answer.code, "digits" in answer.body) for answer in answers} == {(200, True)}
        assert all(" old: Redis has not answered within" in answer.body for answer in answers)
    assert "old: Redis" not in page.get("/").body


def test_while_the_history_is_away_its_list_is_that_of_before_and_a_program_gets_an_error(page: PageWorld) -> None:
    page.history.put([Entry("team-a", "uid-gone", GONE, 1e12)], 0)
    assert page.get("/api/history").code == 200
    page.history.away = True
    ended_jobs = page.reader.ended_jobs
    assert ended_jobs is not None
    ended_jobs._now = lambda: time.time() + 3600
    answer = page.get("/history")
    assert (answer.code, "gone-a" in answer.body, "old: the history store" in answer.body) == (200, True, True)
    assert [page.get(path).code for path in ("/api/history", "/history/team-a/uid-gone")] == [503, 503]


def test_a_history_that_has_never_answered_holds_no_other_view_up(
    page: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()

    def summaries() -> list[Summary]:
        answers.wait(PATIENCE_SECONDS)
        return []

    monkeypatch.setattr(page.history, "summaries", summaries)
    with ThreadPoolExecutor(THREADS) as viewers:
        waiting = [viewers.submit(page.get, "/history") for _ in range(THREADS)]
        queued, threads = page.site.past._work_queue, page.site.threads._threads
        until("they wait", lambda: queued.qsize() == THREADS - PAST_THREADS or len(threads) == THREADS)
        held, code = len(threads) == THREADS, page.get("/").code
        answers.set()
        assert (held, code, {one.result().code for one in waiting}) == (False, 200, {200})


def test_a_view_that_waits_for_too_long_is_refused_with_what_it_waits_for(
    page: PageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.01)
    answers = threading.Event()
    monkeypatch.setattr(page.history, "story", lambda *_: answers.wait(PATIENCE_SECONDS))
    answer = page.get("/history/team-a/uid-gone")
    answers.set()
    assert (answer.code, "the history has not answered" in answer.body) == (503, True)


def test_while_the_api_server_is_away_a_job_is_one_sentence_with_the_next_step(page: PageWorld) -> None:
    page.add(DIGITS)
    page.api_away = True
    answer = page.get(f"/jobs/{KIND}/default/digits")
    assert answer.code == 503
    assert "tj doctor" in answer.body


def test_a_change_of_a_job_is_an_event(page: PageWorld) -> None:
    made = dict(page.add(DIGITS))
    request = urllib.request.Request(f"{page.url}/events?watch=jobs", headers=BEARER)  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=PATIENCE_SECONDS) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        beat = [stream.readline().strip() for _ in range(2)]
        assert beat[0] == b"event: beat"
        page.change(made, phase="Running")
        lines: list[bytes] = []
        while b"event: change" not in lines:
            lines.append(stream.readline().strip())


def test_logs_of_a_job_that_is_not_there_end_with_a_sentence(page: PageWorld) -> None:
    body = page.get(f"/logs/{KIND}/default/none").body
    assert body.startswith("event: end")
    assert "there is no AITrainingJob none" in body


def test_a_list_completes_an_ended_job_out_of_the_history_and_waits_for_no_history_that_is_away(
    page: PageWorld,
) -> None:
    """Of an ended job the projection keeps neither age nor restarts; the history has them a moment later."""
    made = page.add(DIGITS.status(phase="Succeed", completionTime="2026-11-24T10:00:00Z"))
    asked: list[float] = []
    clock = [time.time()]
    page.reader._now = lambda: clock[0]
    answer = page.history.summaries

    def summaries() -> list[Summary]:
        asked.append(clock[0])
        return answer()

    page.history.summaries = summaries  # type: ignore[method-assign]
    page.history.away = True
    for _ in range(4):
        clock[0] += AGE_SECONDS
        assert [row.restarts for row in page.reader.refresh().jobs.values()] == [0]
    assert len(asked) == 1, "asked again only after a while"
    page.history.away = False
    known = Summary(KIND, "default", "digits", made["metadata"]["uid"], created_at="2026-11-24T09:00:00Z", restarts=3)
    known = replace(known, ended_at="2026-11-24T10:00:00Z")
    page.history.put([Entry("default", known.uid, known, 1e12)], 0)
    before, clock[0] = page.reader.board.revision, clock[0] + HISTORY_SECONDS
    board = page.reader.refresh()
    assert [(row.created_at, row.restarts) for row in board.jobs.values()] == [("2026-11-24T09:00:00Z", 3)]
    assert board.revision > before, "so that an open page reads it again"


def test_a_scrape_shows_requests_by_view_and_result_open_streams_and_the_age_of_the_data(page: PageWorld) -> None:
    metrics.begin("page")

    def requests(view: str, result: str) -> float:
        labels = {"view": view, "result": result}
        return REGISTRY.get_sample_value("tj_page_requests_total", labels) or 0.0

    def read() -> dict[tuple[str, ...], float]:
        return {(metric.name, *labels.values()): value for metric, labels, value in page.site.samples()}

    before = requests("jobs", "ok"), requests("job", "refused"), requests("jobs", "failed")
    page.get("/")
    page.get(f"/jobs/{KIND}/default/no-such-job")
    # A request is counted after its answer has left.
    until("one is listed", lambda: requests("jobs", "ok") == before[0] + 1)
    until("one is refused", lambda: requests("job", "refused") == before[1] + 1)
    request = urllib.request.Request(page.url + "/events?watch=jobs", headers=BEARER)  # noqa: S310
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):  # noqa: S310
        until("the stream is counted", lambda: read()["tj_page_streams", "events"] == 1)
    until("a browser that is gone is no stream", lambda: read()["tj_page_streams", "events"] == 0)
    assert read()["tj_page_data_age_seconds",] < 60
    page.lose_redis()
    page.site = replace(page.site, now=lambda: datetime.fromtimestamp(time.time() + 3600, UTC))
    assert read()["tj_page_data_age_seconds",] > 3000
