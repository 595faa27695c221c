"""The report server's HTTPS, by tornado. A thread passes each body to the `Desk`.

The answers are those of Kubeflow Trainer's status server: 200 with the body that was sent, else a metav1.Status. Slow
clients hold no threads. The size of a body, the length of a request line, and the silence of a client are bounded.
"""

from __future__ import annotations

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import structlog
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from tjworker.reports.desk import Desk, Verdict

log = structlog.get_logger(__name__)

MAX_READ_BYTES = 1 << 20
"""A longer body is not read to its end. Bodies above `progress.MAX_BODY_BYTES` are refused."""
BODY_SECONDS, IDLE_SECONDS = 10.0, 120.0
"""The limits of Trainer's server."""
THREADS = 16
MOST_WAITING = 512
"""Reports that wait for a thread or hold one. Further reports are refused as the server is busy."""


class _ReportHandler(RequestHandler):
    def initialize(self, server: ReportListener) -> None:
        self._server = server

    async def post(self) -> None:
        given = self.request.headers.get("Authorization", "")
        answer = await self._server.ask(self.request.path, given, self.request.body)
        self._say(answer)

    def _say(self, answer: Verdict) -> None:
        self.set_status(answer.code)
        self.set_header("Content-Type", "application/json")
        self.finish(self.request.body if answer.code == 200 else orjson.dumps(_status(answer)))

    def write_error(self, status_code: int, **_: object) -> None:
        # Clients of the Kubernetes API parse a metav1.Status. Tornado's own answer is a page of HTML.
        reason = {404: "NotFound", 405: "MethodNotAllowed"}.get(status_code, "InternalError")
        self._say(Verdict(status_code, reason, f"{self.request.method} {self.request.path} cannot be answered"))


class ReportListener:
    """`port` 0: any free port, known after `listen`."""

    def __init__(self, desk: Desk, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._desk = desk
        self._host = host
        self.port = port
        self._threads = ThreadPoolExecutor(THREADS, "report")
        self._asked = 0
        self._server = HTTPServer(
            # Tornado would log a line for each report. `PROGRESS_REPORTS` counts them.
            Application([(r"/.*", _ReportHandler, {"server": self})], log_function=lambda handler: None),
            ssl_options=tls,
            max_body_size=MAX_READ_BYTES,
            # Tornado's default is 100 MB for each connection: a few clients could fill the memory.
            max_buffer_size=MAX_READ_BYTES * 2,
            body_timeout=BODY_SECONDS,
            idle_connection_timeout=IDLE_SECONDS,
        )

    def listen(self) -> None:
        """Listen, in the running loop. Raises OSError if the port cannot be opened."""
        from tornado.netutil import bind_sockets

        sockets = bind_sockets(self.port, self._host)
        self.port = sockets[0].getsockname()[1]
        self._server.add_sockets(sockets)

    async def ask(self, path: str, authorization: str, body: bytes) -> Verdict:
        # The queue of a ThreadPoolExecutor has no bound: while the API server is slow, reports would be answered long
        # after their senders have given up.
        if self._asked >= MOST_WAITING:
            return Verdict(503, "ServiceUnavailable", "too many reports wait; report again")
        self._asked += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._desk.take, path, authorization, body)
        except Exception:
            log.exception("a report has met a bug", path=path)
            return Verdict(500, "InternalError", "the report met an error of the operator; its log has it")
        finally:
            self._asked -= 1

    async def close(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()
        # `write_all` comes next, and must find the reports that threads still hold.
        self._threads.shutdown(wait=True)


def _status(answer: Verdict) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": answer.message,
        "reason": answer.reason,
        "code": answer.code,
    }


class Certificate:
    """The certificate and key in a folder. They are read again when they change, so a renewal needs no restart."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError and ssl.SSLError if the files cannot be used."""
        self._files = folder / "tls.crt", folder / "tls.key"
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load()

    def refresh(self) -> None:
        """Read the files if they have changed. If they cannot be used, as while they are being written, the next call
        tries again, and the old certificate remains."""
        try:
            if self._stamp() != self._loaded:
                self._load()
                log.info("the certificate was renewed")
        except (OSError, ssl.SSLError) as error:
            log.warning("the new certificate cannot be used yet", error=str(error))

    def _load(self) -> None:
        # Before the files are read: if they change meanwhile, the next `refresh` reads them again.
        stamp = self._stamp()
        self.context.load_cert_chain(*self._files)
        self._loaded = stamp

    def _stamp(self) -> tuple[int, ...]:
        # `stat` follows links: the kubelet renews the files of a Secret by swapping the link `..data`.
        return tuple(file.stat().st_mtime_ns for file in self._files)
