"""The Celery app: what importing it does and does not, its settings, and beat's rows."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import make_app
from tjworker.publisher import RESYNC
from tjworker.settings import Settings, load_settings, settings_or_exit

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@dataclass(frozen=True, slots=True)
class Case:
    environment: dict[str, str]
    want_words: tuple[str, ...]


WRONG = {
    "a number that is none": Case({"TJ_RESYNC_SECONDS": "soon"}, ("TJ_RESYNC_SECONDS='soon'", "valid number")),
    "a Redis that is none": Case({"TJ_REDIS_URL": "localhost:6379"}, ("TJ_REDIS_URL=(not shown)", "rediss?://")),
    "the operator's own namespace among those that it serves": Case(
        {"TJ_OWN_NAMESPACE": "tj-system", "TJ_NAMESPACES": "team-a,tj-system"},
        ("TJ_NAMESPACES='team-a,tj-system'", "tj-system is the operator's own namespace", "docs/operations.md"),
    ),
    "a password in the options of Redis' URL, which libraries print": Case(
        {"TJ_REDIS_URL": "redis://h/0?password=hunter2"},
        ("TJ_REDIS_URL=(not shown)", "its option password belongs before the host: redis://USER:PASSWORD@HOST"),
    ),
    "Sentinel where the address of Redis belongs": Case(
        {"TJ_REDIS_URL": "sentinel://:hunter2@s0:26379;sentinel://s1:26379/0"},
        ("TJ_REDIS_URL=(not shown)", "does not ask Sentinel", "follows the primary", "'Redis with Sentinel'"),
    ),
    "two ways to serve namespaces at once": Case(
        {"TJ_NAMESPACES": "team-a", "TJ_NAMESPACES_EXCLUDED": "team-b"},
        ("TJ_NAMESPACES_EXCLUDED='team-b'", "TJ_NAMESPACES='team-a' is set, too"),
    ),
    "two at once": Case(
        {"TJ_LOG_LEVEL": "LOUD", "TJ_WRITE_CONCURRENCY": "99"}, ("TJ_LOG_LEVEL='LOUD'", "TJ_WRITE_CONCURRENCY='99'")
    ),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_wrong_setting_is_named_with_its_variable_value_and_rule(
    sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WRONG[sentence].environment.items():
        monkeypatch.setenv(name, value)
    load_settings.cache_clear()
    try:
        with pytest.raises(SystemExit) as caught:
            settings_or_exit()
    finally:
        load_settings.cache_clear()
    assert all(word in str(caught.value) for word in WRONG[sentence].want_words)


def test_a_wrong_setting_ends_a_process_of_celery_with_one_line() -> None:
    done = run("-m", "celery", "-A", "tjworker.app", "worker", TJ_RESYNC_SECONDS="soon")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1


def test_importing_the_app_imports_no_decision_and_no_client_of_the_cluster() -> None:
    done = run(
        "-c",
        "import sys, tjworker.app\n"
        "above = 'tjworker.reconcile', 'tjworker.worker.tasks', 'tjworker.execution.executor', 'kubernetes'\n"
        "print([module for module in sys.modules if module.startswith(above)])",
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_importing_the_app_connects_to_nothing() -> None:
    done = run(
        "-c",
        "import socket\nsocket.socket.connect = None\nimport tjworker.app\n"
        "from tjworker.publisher import Publisher\nfrom tjworker.settings import load_settings\n"
        "Publisher(load_settings()).publish([])\nprint('imported')",
        TJ_REDIS_URL="redis://192.0.2.1:6379/0",
    )
    assert done.stdout.strip() == "imported", done.stderr


def test_two_operators_on_one_redis_have_their_own_queue_events_and_remote_control() -> None:
    conf = make_app(Settings(key_prefix="blue")).conf
    assert conf.task_default_queue == "blue"
    assert conf.event_exchange.startswith("blue.")
    assert conf.control_exchange.startswith("blue.")
    # kombu's record of fetched messages would be one for all; without it there is none.
    assert conf.broker_transport_options["ack_emulation"] is False


def test_only_json_is_accepted() -> None:
    conf = make_app(Settings()).conf
    assert (conf.accept_content, conf.task_serializer) == (["json"], "json")


def test_every_periodic_task_exists() -> None:
    done = run(
        "-c",
        "from tjworker.app import app; app.loader.import_default_modules()\n"
        "print([row['task'] for row in app.conf.beat_schedule.values() if row['task'] not in app.tasks])",
    )
    assert done.stdout.strip() == "[]", done.stderr
    assert RESYNC in {row["task"] for row in make_app(Settings()).conf.beat_schedule.values()}
