"""Health: the judgement as a table, and the server once."""

from __future__ import annotations

import socket
import struct
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from tests.support.waiting import PATIENCE_SECONDS
from tjworker.telemetry import health
from tjworker.telemetry.health import HealthServer
from watcher.health import Pulse, WatcherReport


@dataclass(frozen=True)
class Case:
    report: WatcherReport
    want_alive: bool
    want_ready: bool


def leading(
    *, synced: bool = True, state: str = "watching", age: float = 1, away: bool = False, writer: float = 0
) -> WatcherReport:
    return WatcherReport(True, synced, away, writer, {"pods": Pulse(state, synced, age)})


CASES: dict[str, Case] = {
    "A leader that watches and has everything is alive and ready.": Case(leading(), True, True),
    "A leader that still lists is alive and not ready.": Case(leading(synced=False, state="listing"), True, False),
    "A leader that goes on where the last one stopped is ready while it lists.": Case(
        replace(leading(synced=False, state="listing"), resumed=True), True, True
    ),
    "A watch without any sign for 90 s is dead, and what it shows is old.": Case(leading(age=91), False, False),
    "A watch may be silent for a minute, and be opened again.": Case(leading(age=89), True, True),
    "Who waits longer for a silent watch sets another limit.": Case(
        replace(leading(age=100), sign_limit_seconds=110), True, True
    ),
    "A kind that is not installed is no reason to be restarted.": Case(leading(state="missing", age=900), True, True),
    "An API server that is away is no reason to be restarted; what is known grows old.": Case(
        leading(state="waiting", age=900), True, False
    ),
    "A watch that is opened again in a moment makes nothing old.": Case(leading(state="waiting", age=5), True, True),
    "A Redis that is away is no reason to be restarted; nothing is written.": Case(
        leading(age=900, away=True), True, False
    ),
    "A writer that does not move is dead.": Case(leading(writer=900), False, True),
    "A standby is alive and ready.": Case(WatcherReport(False, False), True, True),
}


@pytest.mark.parametrize("name", CASES)
def test_judgement(name: str) -> None:
    case = CASES[name]
    assert (not case.report.problems(), case.report.ready) == (case.want_alive, case.want_ready)


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("leads", [False, True])
@pytest.mark.parametrize("writer", [0, 179, 180, 181])
def test_a_writer_that_hangs_is_dead_wherever_redis_is_and_a_standby_has_none(
    writer: float, leads: bool, away: bool
) -> None:
    """Who waits for Redis tries again and again, and each try is a move."""
    report = WatcherReport(leads, True, away, writer, {"pods": Pulse("watching", True, 1)})
    assert bool(report.problems()) is (leads and writer > 180)


ENDLESS = {"starting": True, "waiting": True, "missing": True, "forbidden": True, "listing": False, "watching": False}


@pytest.mark.parametrize("state", ENDLESS)
def test_who_waits_for_others_may_wait_for_ever(state: str) -> None:
    """A list that hangs is no wait: each of its requests has a time-out."""
    assert (leading(state=state, age=9999).problems() == []) is ENDLESS[state]
    assert leading(state=state, age=90).problems() == []


def test_a_problem_names_the_resource_the_age_and_the_limit() -> None:
    assert leading(age=200).problems() == ["the watch of pods has given no sign for 200 s (limit 90 s)"]


def test_the_server_answers_with_the_report() -> None:
    reports = [leading(), leading(synced=False)]
    server = HealthServer(0, lambda: reports[0], host="127.0.0.1")
    server.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=PATIENCE_SECONDS) as answer:
            assert orjson.loads(answer.read())["reflectors"]["pods"]["state"] == "watching"
        reports.pop(0)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/readyz", timeout=PATIENCE_SECONDS)
        assert caught.value.code == 503
    finally:
        server.stop()


def test_a_client_that_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    assert health.SILENCE_SECONDS == 10
    monkeypatch.setattr(health, "SILENCE_SECONDS", 0.05)
    server = HealthServer(0, leading, host="127.0.0.1")
    server.start()
    try:
        for half in (b"", b"GET /healthz HT"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as silent:
                silent.sendall(half)
                assert silent.recv(1) == b""
    finally:
        server.stop()


def test_a_probe_that_hangs_up_leaves_nothing_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """As all do that asked while the process was stopped."""
    asked, answered = threading.Event(), threading.Event()

    def report() -> WatcherReport:
        asked.wait(PATIENCE_SECONDS)
        return leading()

    server = HealthServer(0, report, host="127.0.0.1")
    shutdown = server._server.shutdown_request

    def shut_down(request: Any) -> None:
        shutdown(request)
        answered.set()

    server._server.shutdown_request = shut_down  # type: ignore[method-assign]
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        asked.set()
        assert answered.wait(PATIENCE_SECONDS)
    finally:
        server.stop()
    assert capfd.readouterr() == ("", "")


def test_the_report_counts_what_is_skipped_and_names_the_first_of_it() -> None:
    skipped = {f"default/{n:02}": "ValueError: made up" for n in range(12)}
    report = WatcherReport(
        True, True, reflectors={"pods": Pulse("watching", True, 1, "", skipped, 40)}, unserved=frozenset("ab")
    )
    body = report.body()
    told = body["reflectors"]["pods"]["skipped"]
    assert (told["objects"], told["times"], list(told["first"])) == (12, 40, [f"default/{n:02}" for n in range(10)])
    assert body["unserved_namespaces"] == ["a", "b"]
    assert report.ready
    assert report.problems() == []
