"""What a kubelet serves to the API server: GET /containerLogs/<namespace>/<pod>/<container>, and /healthz. Threads,
stdlib.

For kubelets whose API server lives elsewhere. TLS with a certificate of your own when the API server demands it (a real
kube-apiserver does), and then for holders of a client certificate alone. Reads only.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from localcluster.kubelet.logs import FOLLOW_SECONDS, Follower, LogOptions, read
from localcluster.kubelet.logstreams import Find


class LogServer:
    def __init__(
        self, find: Find, *, port: int = 0, cert_file: str = "", key_file: str = "", client_ca_file: str = ""
    ) -> None:
        """With `client_ca_file` only who shows a certificate of that authority is answered."""
        handler = type("Handler", (_Handler,), {"find": staticmethod(find)})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        if cert_file:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert_file, key_file or None)
            if client_ca_file:
                context.load_verify_locations(client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
            # The handshake is left to the request's own thread: a client that never ends it blocks no other client.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port: int = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 3600}, name="log-server", daemon=True
        ).start()

    def close(self) -> None:
        # Not `shutdown`: it would wait for the poll interval. The thread is a daemon.
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    find: Find
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class' name
        """Quiet."""

    def handle(self) -> None:
        with suppress(ConnectionError, ssl.SSLError):  # no handshake, or no certificate
            super().handle()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        parts = url.path.strip("/").split("/")
        if parts == ["healthz"]:
            self._answer(200, b"ok")
        elif len(parts) == 4 and parts[0] == "containerLogs":
            self._serve_log(parts[1], parts[2], parts[3], query)
        else:
            self._answer(404, b"404 page not found\n")

    def _serve_log(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> None:
        try:
            options = LogOptions.of(query, time.time())
            folder, ended = type(self).find(namespace, pod, container, query)
        except (LookupError, ValueError) as error:
            self._answer(400, f"{error.args[0] if error.args else error}\n".encode())
            return
        if options.follow:
            self._follow_log(folder, options, ended)
        else:
            self._answer(200, read(folder, options))

    def _follow_log(self, folder: Path, options: LogOptions, ended: Callable[[], bool]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        follower = Follower(folder, options, ended)
        try:
            while True:
                data = follower.poll()
                if data:
                    self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    self.wfile.flush()
                if follower.done:
                    break
                time.sleep(FOLLOW_SECONDS)
            self.wfile.write(b"0\r\n\r\n")
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
