"""Serves `/metrics` of one process over HTTP, on `TJ_METRICS_HOST` and `TJ_METRICS_PORT`; not on port 0.

A process whose port cannot be opened logs that, and runs without metrics. The children of a worker count into files
that they share with it (the client library's multiprocess mode), and the worker's main process shows the sum.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import prometheus_client
import structlog
from prometheus_client import values
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector as LibraryCollector

from tjworker.settings import Settings
from tjworker.telemetry.metrics import REGISTRY, Sample, counted

log = structlog.get_logger(__name__)
FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""An environment variable of the client library."""
Collect = Callable[[], Iterable[Sample]]


class SharedFiles(LibraryCollector):
    """Collects the sums over the processes of a worker, which count into files of `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterable[Any]:
        # A child creates its file empty. The library's own collector cannot read such a file, and the scrape fails.
        files = [str(path) for path in self._folder.glob("*.db") if path.stat().st_size > 0]
        merged: Iterable[Any] = MultiProcessCollector.merge(files, accumulate=True)  # type: ignore[no-untyped-call]
        return merged


class Collector(LibraryCollector):
    """Collects gauges, which are read at each scrape. If `collect_samples` raises, a scrape shows the other metrics."""

    def __init__(self, collect_samples: Collect) -> None:
        self._collect_samples = collect_samples

    def describe(self) -> list[Any]:
        # Otherwise the registry collects when the process starts, to learn the names.
        return []

    def collect(self) -> Iterable[Any]:
        try:
            return list(counted(self._collect_samples()))
        except Exception:
            log.exception("some metrics cannot be read")
            return []


class ScrapeServer:
    """Serves until `close`. A child that is forked later closes its copy of the port."""

    def __init__(self, port: int, host: str, registry: prometheus_client.CollectorRegistry) -> None:
        self._server, self._thread = prometheus_client.start_http_server(port, host, registry)
        self.port = int(self._server.server_address[1])
        # A child that outlives its worker would hold the port, and the next worker would run without metrics.
        os.register_at_fork(after_in_child=self._server.socket.close)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def share_with_children(settings: Settings) -> None:
    """Count into files from now on. Call it before the first value is counted and the first child is forked."""
    if not settings.metrics_port:
        return
    # A new folder for each start: a killed worker leaves its files, and their counts would be added to the new ones.
    folder = os.environ[FOLDER] = tempfile.mkdtemp(prefix="tj-metrics-")
    atexit.register(_remove_folder, folder, os.getpid())
    # A child's file is named by its place in the pool, not by its pid: the child's successor continues the file, so
    # files do not pile up and no total falls.
    values.ValueClass = values.MultiProcessValue(_place_in_pool)  # type: ignore[no-untyped-call]


def serve(settings: Settings, *collectors: Collect, shared: bool = False) -> ScrapeServer | None:
    """Serve what this process counts and what the collectors read. `shared`: after `share_with_children`. None if no
    port is set, or it cannot be opened."""
    if not settings.metrics_port:
        return None
    registry = prometheus_client.CollectorRegistry() if shared else REGISTRY
    if shared:
        registry.register(SharedFiles(Path(os.environ[FOLDER])))
    for collect in collectors:
        registry.register(Collector(collect))
    try:
        return ScrapeServer(settings.metrics_port, settings.metrics_host, registry)
    except OSError as error:
        # Unlike a port for probes: no one kills a process that shows no metrics, so it does its work.
        log.error(
            f"TJ_METRICS_HOST={settings.metrics_host} TJ_METRICS_PORT={settings.metrics_port} cannot be opened: "
            f"{error.strerror}; this process shows no metrics; choose others"
        )
        return None


def _place_in_pool() -> str:
    """The place of this process in the pool of its worker."""
    # Only a worker has billiard loaded; the watcher imports this module, too.
    from billiard.process import current_process

    index = getattr(current_process(), "index", None)
    return "main" if index is None else f"child-{index}"


def _remove_folder(folder: str, owner: int) -> None:
    # A forked child inherits the exit handler, and must not remove the files.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
