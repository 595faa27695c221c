"""The report server over TLS: what a program that talks to it sees."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.reports.desk import Verdict
from tjworker.reports.server import MAX_READ_BYTES, Certificate, ReportListener


class Desk:
    """Answers what its test says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: Verdict | Exception = Verdict(200)
        self.asked: list[tuple[str, str, bytes]] = []

    def take(self, path: str, authorization: str, body: bytes) -> Verdict:
        self.asked.append((path, authorization, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def make_certificate(folder: Path) -> None:
    subprocess.run(
        ["sh", str(ROOT / "k8s/certificates.sh"), str(folder), "localhost"], check=True, timeout=PATIENCE_SECONDS
    )


@dataclass
class Served:
    desk: Desk
    server: ReportListener
    certificate: Certificate
    folder: Path

    def send(self, body: bytes, method: str = "POST", path: str = "/apis/x") -> tuple[int, bytes]:
        tls = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        headers = {"Authorization": "Bearer t", "Content-Type": "application/json"}
        url = f"https://localhost:{self.server.port}{path}"
        request = urllib.request.Request(url, body or None, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=tls) as answer:  # noqa: S310
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    make_certificate(tmp_path)
    desk, certificate = Desk(), Certificate(tmp_path)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> ReportListener:
        server = ReportListener(desk, "127.0.0.1", 0, certificate.context)  # type: ignore[arg-type]
        server.listen()
        return server

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE_SECONDS)
    try:
        yield Served(desk, server, certificate, tmp_path)
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()


def test_a_report_that_counts_is_answered_with_itself(served: Served) -> None:
    """As Trainer's server does; KubeflowCallback looks for 200 alone."""
    body = b'{"trainerStatus": {"progressPercentage": 5}}'
    assert served.send(body) == (200, body)
    assert served.desk.asked == [("/apis/x", "Bearer t", body)]


def test_a_bug_is_an_answer_and_the_server_goes_on(served: Served) -> None:
    served.desk.answer = ZeroDivisionError("bug")
    code, body = served.send(b"{}")
    assert (code, json.loads(body)["reason"]) == (500, "InternalError")
    served.desk.answer = Verdict(200)
    assert served.send(b"{}")[0] == 200


def test_a_body_beyond_all_bounds_is_not_read(served: Served) -> None:
    try:
        code, _ = served.send(b"x" * (MAX_READ_BYTES + 1))
    except (urllib.error.URLError, ConnectionError):
        code = 400  # the connection was closed while the body was still being sent
    assert code == 400
    assert not served.desk.asked
    assert served.send(b"{}")[0] == 200


def test_a_certificate_that_is_renewed_is_shown_without_a_restart(served: Served, tmp_path: Path) -> None:
    served.send(b"{}")
    (served.folder / "tls.crt").unlink()
    served.certificate.refresh()
    assert served.send(b"{}")[0] == 200, "half of a pair changes nothing"
    make_certificate(served.folder)  # with another authority: the client would refuse the old one
    served.certificate.refresh()
    assert served.send(b"{}")[0] == 200
