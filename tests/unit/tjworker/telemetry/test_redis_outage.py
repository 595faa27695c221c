"""An outage of Redis is one line, and its end another; what Celery's loggers say meanwhile is dropped."""

from __future__ import annotations

import logging

import pytest
from structlog.testing import capture_logs

from tjworker.telemetry import redis_outage
from tjworker.telemetry.redis_outage import RedisOutage


def test_an_outage_is_two_lines_however_often_redis_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    now, name = [100.0], "celery.of.this.test"
    outage, celery = RedisOutage([name], lambda: now[0]), logging.getLogger(name)
    with capture_logs() as said, caplog.at_level(logging.INFO, name):
        celery.warning("before")
        for _ in range(3):
            outage.fails(OSError("connection\nrefused"))
            celery.error("Cannot connect")
            now[0] += 20
        outage.works()
        outage.works()
        celery.warning("after")
    assert [record.message for record in caplog.records] == ["before", "after"]
    assert [(line["log_level"], line.get("error"), line.get("away_seconds")) for line in said] == [
        ("warning", "connection refused", None),
        ("info", None, 60.0),
    ]


def test_a_librarys_traceback_becomes_the_words_of_its_error(caplog: pytest.LogCaptureFixture) -> None:
    library = logging.getLogger("a.library.of.this.test")
    library.addFilter(redis_outage.OneLine())
    with caplog.at_level(logging.INFO, library.name):
        try:
            raise OSError("command not allowed\nwhen used memory > 'maxmemory'")
        except OSError:
            library.warning("cannot refresh %s, will retry", "bindings", exc_info=True)
    (record,) = caplog.records
    assert record.getMessage() == (
        "cannot refresh bindings, will retry: command not allowed when used memory > 'maxmemory'"
    )
    assert record.exc_info is None
