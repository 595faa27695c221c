"""`python -m tjworker.reports`: serves TJ_REPORTS_HOST and TJ_REPORTS_PORT over TLS until SIGTERM or SIGINT.

One process is enough. A second one does no harm, but then a job may be written twice in ten seconds.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from tjworker.base import Terminal
from tjworker.clock import ClusterClock
from tjworker.kube.client import KubeClient
from tjworker.kube.transport import KubeTransport
from tjworker.reports.desk import WRITERS, Desk
from tjworker.reports.server import THREADS, Certificate, ReportListener
from tjworker.settings import Settings, settings_or_exit
from tjworker.telemetry import metrics, scrape
from tjworker.telemetry.health import open_health
from tjworker.telemetry.logging import configure_logging

log = structlog.get_logger("reports")

LOOK_SECONDS = 1.0
"""Between two searches for writes that are due."""
CERTIFICATE_SECONDS = 60.0
STEP_LIMIT_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class _ReportsHealth:
    """The process is alive if its writes go on, and ready once it listens."""

    ready: bool
    age_seconds: float

    def problems(self) -> list[str]:
        late = self.age_seconds > STEP_LIMIT_SECONDS
        return [f"no write for {self.age_seconds:.0f} s (limit {STEP_LIMIT_SECONDS:.0f} s)"] if late else []

    def body(self) -> dict[str, Any]:
        return {"ready": self.ready, "problems": self.problems()}


class _Process:
    def __init__(self, settings: Settings, desk: Desk, certificate: Certificate) -> None:
        self._settings = settings
        self._desk = desk
        self._certificate = certificate
        self._listens = False
        self._moved_at = time.monotonic()

    def health(self) -> _ReportsHealth:
        return _ReportsHealth(self._listens, time.monotonic() - self._moved_at)

    async def run(self) -> int:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        host, port = self._settings.reports_host, self._settings.reports_port
        server = ReportListener(self._desk, host, port, self._certificate.context)
        try:
            server.listen()
        except OSError as error:
            log.error(
                f"TJ_REPORTS_HOST={host} TJ_REPORTS_PORT={port} cannot be opened: {error.strerror}; choose others"
            )
            return 2
        # Ready only now: before, a Service would send reports to a port that no process listens on.
        self._listens = True
        log.info("takes reports of progress", host=host, port=server.port)
        await self._until(stop)
        log.info("leaving")
        await server.close()
        # After `close`: no further report can come, so this write holds all that were accepted.
        await asyncio.to_thread(self._desk.write_all)
        return 0

    async def _until(self, stop: asyncio.Event) -> None:
        looked_at = time.monotonic()
        while not stop.is_set():
            await asyncio.to_thread(self._desk.write_due)
            self._moved_at = time.monotonic()
            if self._moved_at - looked_at > CERTIFICATE_SECONDS:
                looked_at = self._moved_at
                self._certificate.refresh()
            try:
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue


def main() -> int:
    settings = settings_or_exit()
    configure_logging(settings)
    try:
        certificate = Certificate(Path(settings.reports_tls_folder))
    except (OSError, ssl.SSLError) as error:
        log.error(
            f"TJ_REPORTS_TLS_FOLDER={settings.reports_tls_folder} has no tls.crt and tls.key that can be used: {error}."
            " k8s/secrets.sh makes them"
        )
        return 2
    try:
        # This process has no Redis, the clock of the workers. The Date of the API server takes its place.
        clock = ClusterClock()
        # A connection for each thread that may ask at the same time: no report waits for the write of another job.
        transport = KubeTransport(pool_size=THREADS + WRITERS, answered=metrics.count_request, dated=clock.see_date)
    except Terminal as error:
        log.error(error.message)
        return 2
    kube = KubeClient(transport, request_timeout_seconds=settings.request_timeout_seconds)
    desk = Desk(kube, now=clock, monotonic=time.monotonic)
    process = _Process(settings, desk, certificate)
    try:
        health = open_health(settings, process.health)
    except OSError:
        return 2
    metrics.begin("reporter")
    scrape.serve(settings)
    code = asyncio.run(process.run())
    if health is not None:
        health.stop()
    transport.close()
    return code


if __name__ == "__main__":
    sys.exit(main())
