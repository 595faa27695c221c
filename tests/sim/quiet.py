"""No log lines: thousands of lives would say thousands of times the same. What happened stands in the trace."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def quiet() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    cluster = logging.getLogger("localcluster")
    level = cluster.level
    cluster.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        structlog.configure(**before)
        cluster.setLevel(level)
