"""Serves `/healthz` and `/readyz` of one process over HTTP, for probes. The process supplies the report.

`/healthz` (alive) fails only if a restart would help. `/readyz` (ready) fails while the process cannot do its work. A
process that waits for Redis or the API server is alive and not ready.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

import orjson
import structlog

from tjworker.settings import Settings

log = structlog.get_logger(__name__)

SILENCE_SECONDS = 10.0
"""A connection that is silent for longer is closed, since each one holds a thread."""


class HealthReport(Protocol):
    """The state of a process."""

    def problems(self) -> Sequence[str]:
        """Why the process is not alive; empty if it is."""
        ...

    @property
    def ready(self) -> bool: ...

    def body(self) -> dict[str, Any]: ...


# A thread for each connection: a client that connects and says nothing must not fail the kubelet's probes.
class _ProbeServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log errors other than lost connections. The base class prints a traceback for each."""
        # Probes that asked while this process was stopped have all hung up.
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            log.error("a probe could not be answered", exc_info=error)


class HealthServer:
    """Answers GET /healthz and /readyz with 200 or 503 and the report as JSON."""

    # The kubelet probes the pod's address, not the loopback address.
    def __init__(self, port: int, report: Callable[[], HealthReport], *, host: str = "0.0.0.0") -> None:  # noqa: S104
        class ProbeHandler(BaseHTTPRequestHandler):
            timeout = SILENCE_SECONDS

            def do_GET(self) -> None:
                now = report()
                good = {"/healthz": not now.problems(), "/readyz": now.ready}.get(self.path)
                body = orjson.dumps(now.body()) + b"\n" if good is not None else b"not found\n"
                self.send_response(404 if good is None else 200 if good else 503)
                self.send_header("Content-Type", "application/json" if good is not None else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class names it so
                """Log nothing: probes come every few seconds."""

        self._server = _ProbeServer((host, port), ProbeHandler)
        # A probe that hangs must not keep the process from ending.
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        # A worker's child must not keep the port open.
        os.register_at_fork(after_in_child=self._server.socket.close)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def open_health(settings: Settings, report: Callable[[], HealthReport]) -> HealthServer | None:
    """A started server on `TJ_HEALTH_HOST` and `TJ_HEALTH_PORT`; None for port 0. Raises OSError, logged in a line, if
    the port cannot be opened."""
    if not settings.health_port:
        return None
    try:
        server = HealthServer(settings.health_port, report, host=settings.health_host)
    except OSError as error:
        # The process must not run on: probes could not reach it, and it would be killed without a message.
        log.error(
            f"TJ_HEALTH_HOST={settings.health_host} TJ_HEALTH_PORT={settings.health_port} cannot be opened: "
            f"{error.strerror}; choose others"
        )
        raise
    server.start()
    return server
