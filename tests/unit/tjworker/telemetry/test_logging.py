"""Logs: one line of JSON, without secrets of local variables, which no terminal obeys."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from tjworker.settings import Settings
from tjworker.telemetry.logging import configure_logging


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
    structlog.get_logger("tjworker.execution.executor", job="aitrainingjobs.elasticdeeplearning.ai/default/a").info(
        "pod deleted", uid="u-1", attempt=2, token=7
    )
    line = json.loads(stream.getvalue())
    time = line.pop("timestamp")
    assert line == {
        "event": "pod deleted",
        "level": "info",
        "logger": "tjworker.execution.executor",
        "job": "aitrainingjobs.elasticdeeplearning.ai/default/a",
        "uid": "u-1",
        "attempt": 2,
        "token": 7,
    }
    assert time.endswith("Z")


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


def test_celery_tells_of_no_task_that_went_well() -> None:
    stream = written("json")
    logging.getLogger("celery.app.trace").info("Task tjworker.reconcile succeeded")
    logging.getLogger("celery.worker.strategy").info("Task tjworker.reconcile received")
    logging.getLogger("celery.app.trace").error("Task tjworker.reconcile raised")
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
