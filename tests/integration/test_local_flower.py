"""The Flower of `tj up`, which asks for no password: a page that gives 127.0.0.1 a name of its own reads nothing of it,
and nobody changes anything with it."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from benchmarks.support.valkey import free_port
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.xdist_group("local-flower")  # they share what its fixture starts or renders

ASKED = {
    "the address that `tj up` prints": ("127.0.0.1:{port}", 200),
    "the name of this machine for itself": ("localhost:{port}", 200),
    "its address by IPv6": ("[::1]:{port}", 200),
    "a name that a page has given to 127.0.0.1": ("rebound.example.com:{port}", 403),
    "an address that begins like it": ("127.0.0.1.example.com", 403),
    "no name": ("", 403),
}
PATHS = ("/", "/tasks", "/api/tasks", "/api/workers", "/metrics", "/static/css/flower.css", "/nowhere")


def code_of(port: int, path: str, host: str, method: str = "GET") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host)
        connection.putheader("Content-Length", "0")
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture(scope="module")
def flower(redis_url: str) -> Iterator[int]:
    """Its port. As `tj up` starts it: see tests/unit/tjstack/test_services.py."""
    port = free_port()
    settings = {
        "TJ_REDIS_URL": redis_url,
        "TJ_KEY_PREFIX": "local-flower",
        "FLOWER_UNAUTHENTICATED_API": "true",
        "TJ_PAGE_PORT": "4321",
    }
    command = [sys.executable, "-m", "tjstack.flower", "--address=127.0.0.1", f"--port={port}"]
    process = subprocess.Popen(command, env={**os.environ, **settings}, cwd=ROOT, stderr=subprocess.DEVNULL)

    def answers() -> bool:
        try:
            return code_of(port, "/healthcheck", "127.0.0.1") == 200
        except OSError:
            return False

    try:
        until("Flower answers", lambda: process.poll() is not None or answers())
        yield port
    finally:
        process.kill()
        process.wait()


def test_it_leads_to_the_page_of_jobs(flower: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{flower}/workers", timeout=PATIENCE_SECONDS) as answer:
        assert re.search(r'<a class="nav-link" href="http://127.0.0.1:4321"[^>]*>Jobs</a>', answer.read().decode())


@pytest.mark.parametrize("sentence", ASKED)
def test_who_is_answered(sentence: str, flower: int) -> None:
    host, want = ASKED[sentence]
    assert code_of(flower, "/tasks", host.format(port=flower)) == want


def test_no_page_is_served_under_another_name(flower: int) -> None:
    assert {path: code_of(flower, path, "rebound.example.com") for path in PATHS} == dict.fromkeys(PATHS, 403)
