"""What Flower shows of passes, with a real worker and the Flower of `tj up`: how each ended by its colour and in words,
found by its job's key, with a page of its own; and no rows of periodic tasks that have nothing to tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.valkey import Valkey, free_port
from tests.support.ending_passes import ENDS
from tests.support.paths import ROOT
from tests.support.waiting import until
from tjstack.services import TASKS_COLUMNS
from tjworker.app import make_app
from tjworker.base import JobKey
from tjworker.publisher import COLLECT_ORPHANS, RECONCILE, RESYNC, Publisher
from tjworker.settings import Settings

pytestmark = pytest.mark.xdist_group("flower-shows-ends")  # they share what its fixture starts or renders

KEY = "aitrainingjobs.elasticdeeplearning.ai/team-a/{}"


@dataclass(frozen=True)
class Case:
    job: str
    want_state: str
    want_words: str


CASES = {
    "a pass that did its work is green": Case("done", "SUCCESS", "Running, created 2"),
    "a pass that the API server refused is yellow: it is tried again": Case("refused", "RETRY", "exceeded quota"),
    "a pass that waits for the watch is green: no trouble": Case("stale", "SUCCESS", "waits until the watch"),
    "a pass that waiting does not cure is red": Case("bug", "FAILURE", "bug: KeyError: 'spec'; next try in 300 s"),
}


class Shown:
    """A worker that has run every case once, and what Flower says of it."""

    def __init__(self, url: str, app: Any) -> None:
        self.url, self.app = url, app

    def get(self, path: str, **query: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:  # noqa: S310
            return str(answer.read().decode())

    def tasks(self, **query: str) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads(self.get("/api/tasks", **query))
        return list(found.values())

    def ended(self) -> list[str]:
        return [t["name"] for t in self.tasks() if t["state"] in ("SUCCESS", "RETRY", "FAILURE")]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder: Path = tmp_path_factory.mktemp("flower")
    with ExitStack() as stack:
        redis = stack.enter_context(Valkey(folder))
        port, told = free_port(), {"TJ_REDIS_URL": redis.url, "FLOWER_UNAUTHENTICATED_API": "true"}

        def start(*command: str) -> None:
            with (folder / "log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", *command], env={**os.environ, **told}, cwd=ROOT, stdout=log, stderr=log
                )
            stack.callback(process.wait)
            stack.callback(process.kill)

        flower = Shown(f"http://127.0.0.1:{port}", make_app(Settings(redis_url=redis.url)))
        start("tjstack.flower", "--address=127.0.0.1", f"--port={port}")
        start("celery", "-A", "tests.support.ending_passes", "worker", "-P", "prefork", "-c", "1", "-E")
        said = (folder / "log").read_text
        until("Flower sees the worker", lambda: _workers(flower), context=said, look_seconds=0.1)
        for name in (RESYNC, COLLECT_ORPHANS):
            flower.app.send_task(name)
        for case in CASES.values():  # each by itself: together they would be one task
            Publisher(Settings(redis_url=redis.url)).publish([JobKey(KEY.format(case.job))])
        until("all have ended", lambda: len(flower.ended()) > len(CASES), context=said, look_seconds=0.1)
        yield flower
        flower.app.close()
        assert "Traceback" not in said(), "what is expected needs no traceback in the log"


def _workers(flower: Shown) -> bool:
    try:
        return "celery@" in flower.get("/workers", json="1")
    except OSError:
        return False


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_how_a_pass_ended_is_seen_and_found_by_its_job(case: Case, shown: Shown) -> None:
    key = KEY.format(case.job)
    (found,) = shown.tasks(search=key)
    assert (found["state"], found["name"]) == (case.want_state, RECONCILE)
    assert found["args"] == f"team-a/{case.job} ({key})", "the list cuts long ones: the job comes first"
    assert case.want_words in found["result"], "the list shows it, and it can be searched"
    assert not found["traceback"], "it says nothing that the words do not say"
    page = shown.get(f"/task/{found['uuid']}")
    assert case.want_state in page
    assert key in page


def test_a_state_can_be_asked_for(shown: Shown) -> None:
    by_state = {
        state: len(shown.tasks(search=f"state:{state} {RECONCILE}")) for state in ("SUCCESS", "RETRY", "FAILURE")
    }
    assert by_state == {"SUCCESS": 2, "RETRY": 1, "FAILURE": 1}


def test_periodic_tasks_show_only_when_they_fail(shown: Shown) -> None:
    (found,) = [t for t in shown.tasks() if t["name"] != RECONCILE]
    assert (found["name"], found["state"], found["result"]) == (COLLECT_ORPHANS, "FAILURE", "3 deleted, 2 failed")


def test_no_pass_is_run_twice_for_its_colour(shown: Shown) -> None:
    """Celery's own retry sends a message; the work queue has the key already."""
    assert len([t for t in shown.tasks() if t["name"] == RECONCILE]) == len(ENDS)
    with shown.app.connection_for_read() as connection:
        assert connection.default_channel.client.llen(shown.app.conf.task_default_queue) == 0


@pytest.mark.parametrize("file", ["k8s/base/flower.yaml", "docker-compose.yml"])
def test_every_flower_shows_the_same_columns(file: str) -> None:
    assert TASKS_COLUMNS in (ROOT / file).read_text(encoding="utf-8")
