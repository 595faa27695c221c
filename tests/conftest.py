"""Fixtures of the whole suite. A real Redis is started once a session (once for each xdist worker) and killed at its
end.

`TJ_TEST_REDIS_URL` names another Redis to use instead; nothing in it is touched but keys under this run's own prefixes.
"""

from __future__ import annotations

import gc
import os
import tempfile
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
import structlog

from benchmarks.support.valkey import Valkey
from tests.support.failures import comparison_first
from tjworker.settings import Settings


def pytest_configure() -> None:
    """The tester's own operator and cluster are none of the tests' business: settings in their shell would change what
    is tested, and a kubeconfig could lead to a cluster that is in use."""
    theirs = {f"TJ_{name.upper()}" for name in Settings.model_fields}
    for name in list(os.environ):
        if name in theirs or name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
            del os.environ[name]
    # structlog's own choice, rich's traceback with every local variable, takes a second for each bug that a test makes.
    *before, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*before, plain])


COLLECT_GARBAGE_AFTER_OBJECTS = 20_000
"""Python's 700 costs a third of the time of collecting the tests, and a tenth of that of running them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules, tests and their parameters stay for as long as the process lives: nobody looks for garbage in them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(COLLECT_GARBAGE_AFTER_OBJECTS, *gc.get_threshold()[1:])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """For `-n auto`. More than there are CPUs: in much of its time some test waits for real processes."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # pytest-xdist reads it
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * cpus


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """For `--dist loadgroup`: all rows of a table go to one process. Every second process begins with lives of real
    processes, which mostly wait; the others begin with the largest tables, which use the CPUs meanwhile.

    pytest-xdist counts through all the units of a process at the end of each test. With 15,000 units, one a row, that
    took as long as a tenth of the tests.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`

    class Tables(LoadGroupScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            group = super()._split_scope(nodeid)
            return nodeid.partition("[")[0] if group == nodeid else group

        def _assign_work_unit(self, node: Any) -> None:
            if int(node.gateway.id.removeprefix("gw")) % 2:
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
            super()._assign_work_unit(node)

    return Tables(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of pytest-xdist: lives of real processes, the longest first, then tables, the largest last."""
    if not hasattr(config, "workerinput"):
        return

    def group(item: pytest.Item) -> str:
        mark = item.get_closest_marker("xdist_group")
        return str(mark.args[0]) if mark else item.nodeid.partition("[")[0]

    sizes = Counter(map(group, items))
    minutes = {group(item): mark.kwargs.get("minutes", 1) for item in items if (mark := item.get_closest_marker("e2e"))}

    def place(item: pytest.Item) -> int:
        return -minutes[group(item)] if group(item) in minutes else sizes[group(item)]

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, object, object]:
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, AssertionError) and error.args:
        error.args = (comparison_first(str(error.args[0])), *error.args[1:])
    return (yield)


@dataclass(frozen=True, slots=True)
class RealRedis:
    """A URL, and a key prefix that only this test uses."""

    url: str
    prefix: str

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def all_keys(self) -> list[bytes]:
        with self.client() as client:
            return sorted(client.scan_iter(f"{self.prefix}:*"))


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis for reading and writing, not for stopping: tests that stop one start their own
    (`benchmarks.support.valkey.Valkey`)."""
    given = os.environ.get("TJ_TEST_REDIS_URL")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="tj-redis-") as folder, Valkey(Path(folder)) as server:
        yield server.url


@pytest.fixture
def real_redis(redis_url: str) -> Iterator[RealRedis]:
    mine = RealRedis(redis_url, f"t{uuid.uuid4().hex[:12]}")
    yield mine
    with mine.client() as client:
        for key in [*mine.all_keys(), mine.prefix]:
            client.delete(key)


@pytest.fixture
def own_valkey(tmp_path: Path) -> Iterator[Valkey]:
    """A server of this test alone, to stop and start at will."""
    with Valkey(tmp_path, append_only=True) as server:
        yield server
