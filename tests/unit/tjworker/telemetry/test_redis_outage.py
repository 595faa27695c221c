"""An outage of Redis is one line, and its end another."""

from __future__ import annotations

import logging

import pytest
from structlog.testing import capture_logs

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
