"""`/healthz` and `/readyz` of one process, over HTTP, for probes. The server is the standard library's; what they say
is judged by who reports.

Two questions: *alive* fails only where a restart would cure it, *ready* fails while the process cannot do its work. A
process that waits (for Redis, for the API server) is alive and not ready.
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
"""A client that says nothing for so long is let go: each connection holds a thread."""


class Report(Protocol):
    """A process, at one moment."""

    def problems(self) -> Sequence[str]:
        """Why it is not alive."""
        ...

    @property
    def ready(self) -> bool: ...

    def body(self) -> dict[str, Any]: ...


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A probe that hung up before it had its answer, as all do that asked while this process was stopped, is no
        news; socketserver prints a traceback."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            log.error("a probe could not be answered", exc_info=error)


class HealthServer:
    """Answers GET /healthz and /readyz with 200 or 503 and the report as JSON."""

    def __init__(self, port: int, report: Callable[[], Report], *, host: str = "0.0.0.0") -> None:  # noqa: S104
        class Handler(BaseHTTPRequestHandler):
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
                """A probe every few seconds is no news."""

        self._server = _Server((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        os.register_at_fork(after_in_child=self._server.socket.close)  # a worker's child must not keep the port

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def open_health(settings: Settings, report: Callable[[], Report]) -> HealthServer | None:
    """On `TJ_HEALTH_HOST` and `TJ_HEALTH_PORT`, started; None for port 0. Raises OSError, logged in one line, for a
    port that cannot be opened: a process that no probe can ask would be killed without a word."""
    if not settings.health_port:
        return None
    try:
        server = HealthServer(settings.health_port, report, host=settings.health_host)
    except OSError as error:
        log.error(
            f"TJ_HEALTH_HOST={settings.health_host} TJ_HEALTH_PORT={settings.health_port} cannot be opened: "
            f"{error.strerror}; choose others"
        )
        raise
    server.start()
    return server
