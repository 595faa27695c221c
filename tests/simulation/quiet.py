"""How thousands of scenarios are played in one process: without log lines, which would say thousands of times the same
(what happened stands in the trace), and without looking for garbage in what stays anyway.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import structlog

COLLECT_AFTER_OBJECTS = 20_000
"""A scenario leaves some ten thousand behind, most of them in cycles. Python's 700 would look through its world thirty
times."""


@cache
def _keep_what_is_imported() -> None:
    """Once a process: modules, schemas and compiled models are no garbage for as long as it lives."""
    gc.collect()
    gc.freeze()


@contextmanager
def quiet() -> Iterator[None]:
    before = structlog.get_config()
    # Uncached: a logger that is used here for the first time would stay quiet for the life of the process.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL), cache_logger_on_first_use=False
    )
    cluster = logging.getLogger("localcluster")
    level = cluster.level
    cluster.setLevel(logging.CRITICAL)
    _keep_what_is_imported()
    thresholds = gc.get_threshold()
    gc.set_threshold(COLLECT_AFTER_OBJECTS, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        structlog.configure(**before)
        cluster.setLevel(level)
