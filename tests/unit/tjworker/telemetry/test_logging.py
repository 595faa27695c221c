"""Logs: the same facts as JSON and as text, from our loggers and from libraries."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from tjworker.settings import Settings
from tjworker.telemetry.logging import _make_renderers, configure_logging


@pytest.fixture(autouse=True)
def root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def written(log_format: str, level: str = "INFO") -> io.StringIO:
    stream = io.StringIO()
    configure_logging(Settings(log_format=log_format, log_level=level), stream=stream)
    return stream


def test_a_decision_is_one_json_object_on_one_line() -> None:
    stream = written("json")
    structlog.get_logger("tjworker.executor", job="aitrainingjobs.elasticdeeplearning.ai/default/a").info(
        "pod deleted", uid="u-1", attempt=2, token=7
    )
    line = json.loads(stream.getvalue())
    time = line.pop("timestamp")
    assert line == {
        "event": "pod deleted",
        "level": "info",
        "logger": "tjworker.executor",
        "job": "aitrainingjobs.elasticdeeplearning.ai/default/a",
        "uid": "u-1",
        "attempt": 2,
        "token": 7,
    }
    assert time.endswith("Z")


def test_people_read_a_line_with_the_facts_as_fields_and_no_colours_in_a_file() -> None:
    stream = written("console")
    structlog.get_logger("tjworker").info("pod deleted", job="aitrainingjobs.elasticdeeplearning.ai/default/a", token=7)
    assert "pod deleted" in stream.getvalue()
    assert "token=7" in stream.getvalue()
    assert "\x1b[" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


FACTS: tuple[dict[str, Any], ...] = (
    {},
    {"key": "aitrainingjobs.elasticdeeplearning.ai/default/a", "token": 7},
    {"b": "two words", "a": "", "c": None, "d": ["x", 1], "e": 1.5, "f": True},
    {"equals": "a=b", "quote": "it's", "double": 'say "x"', "tab": "a\tb", "lines": "a\nb", "plain": "ünïcode/[x]{y}"},
    {"stack": "Stack (most recent call last):\n  x"},
    {"exception": "ValueError: bad"},
)


@pytest.mark.parametrize("facts", FACTS, ids=" ".join)
@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_a_line_for_people_is_that_of_structlog(level: str, facts: dict[str, Any]) -> None:
    event = {"timestamp": "2026-01-01T00:00:00Z", "level": level, "event": "pod deleted", "logger": "tjworker", **facts}
    theirs = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)
    *_, ours = _make_renderers("console", io.StringIO())
    assert ours(None, level, dict(event)) == theirs(None, level, dict(event))


def test_what_a_library_logs_has_the_same_form() -> None:
    stream = written("json")
    logging.getLogger("some.library").warning("lost %s of %d", "one", 3)
    assert json.loads(stream.getvalue())["event"] == "lost one of 3"


def test_an_exception_stays_on_the_one_line() -> None:
    stream = written("json")
    try:
        raise ValueError("bad")
    except ValueError:
        structlog.get_logger("tjworker").exception("pass failed")
    assert stream.getvalue().count("\n") == 1
    assert "ValueError: bad" in json.loads(stream.getvalue())["exception"]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_shows_no_local_variables(log_format: str) -> None:
    stream = written(log_format)
    password = "hunter" + "2"
    try:
        raise ValueError(f"bad value of {len(password)} characters")
    except ValueError:
        logging.getLogger("some.library").exception("lost")
    assert "ValueError: bad value of 7 characters" in stream.getvalue()
    assert password not in stream.getvalue()


def test_below_the_level_nothing_is_written() -> None:
    stream = written("json", "WARNING")
    structlog.get_logger("tjworker").info("quiet")
    logging.getLogger("some.library").info("quiet")
    assert stream.getvalue() == ""


def test_celery_tells_of_no_task_that_went_well() -> None:
    stream = written("json")
    logging.getLogger("celery.app.trace").info("Task tjworker.reconcile succeeded")
    logging.getLogger("celery.worker.strategy").info("Task tjworker.reconcile received")
    logging.getLogger("celery.app.trace").error("Task tjworker.reconcile raised")
    assert stream.getvalue().count("\n") == 1


def test_setting_it_up_twice_writes_each_line_once() -> None:
    written("json")
    stream = written("json")
    structlog.get_logger("tjworker").info("once")
    assert stream.getvalue().count("\n") == 1


def test_words_of_others_in_a_line_are_obeyed_by_no_terminal() -> None:
    evil = "\x1b]0;owned\x07\u202e"
    stream = written("console")
    log = structlog.get_logger("tjworker")
    log.info(f"refused {evil}", error=f"{evil} named", nested={"a": evil})
    try:
        raise ValueError(evil)
    except ValueError:
        log.exception("a bug")
    logging.getLogger("celery").error("said %s", evil)
    said = stream.getvalue()
    assert said.count("owned") == 5
    assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_a_process_that_starts_warns_of_names_that_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TJ_NAMESPACE", "7")
    line = json.loads(written("json").getvalue())
    assert line["level"] == "warning"
    assert "TJ_NAMESPACE is no setting, and has no effect; did you mean TJ_NAMESPACES?" in line["event"]


@pytest.mark.parametrize(("asked", "want"), [("DEBUG", "WARNING"), ("INFO", "WARNING"), ("ERROR", "ERROR")])
def test_libraries_that_talk_much_say_no_more_than_was_asked_for(asked: str, want: str) -> None:
    configure_logging(Settings(log_level=asked), stream=io.StringIO())
    for name in ("celery.beat", "celery.app.trace", "urllib3"):
        assert logging.getLevelName(logging.getLogger(name).level) == want, name
