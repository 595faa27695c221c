"""A real HTTP server on the loopback that answers as a test says, and a kubeconfig of it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support import fast_yaml as yaml
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.kube.port import Stream

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.server.seen.append(
            (self.command, self.path, self.rfile.read(length), dict(self.headers.items()), self.client_address[1])
        )
        self.server.answer(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815  the base class names them so

    def do_CONNECT(self) -> None:
        """As a proxy: a tunnel to `tunnel_to`, wherever the client wants to go."""
        self.server.seen.append((self.command, self.path, b"", dict(self.headers.items()), self.client_address[1]))
        with socket.create_connection(self.server.tunnel_to) as there:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_pump, args=(there, self.connection))
            back.start()
            _pump(self.connection, there)
            back.join(PATIENCE_SECONDS)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002  the base class names it so

    def plain(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def start_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end_chunks(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.answer: Answer = lambda handler: handler.plain(200, b"{}")
        self.seen: list[tuple[str, str, bytes, dict[str, str], int]] = []
        self.closed = 0
        """Connections, so far."""
        self.tunnel_to: tuple[str, int] = ("127.0.0.1", 1)
        self.let_go = threading.Event()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_address[1]}"

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed += 1


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.let_go.set()
        server.shutdown()
        server.server_close()


def write_kubeconfig(path: Path, url: str, token: str, **cluster: object) -> None:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "b",
                "clusters": [
                    {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}},
                    {"name": "b", "cluster": {"server": url, **cluster}},
                ],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [
                    {"name": "a", "context": {"cluster": "a", "user": "u"}},
                    {"name": "b", "context": {"cluster": "b", "user": "u"}},
                ],
            }
        )
    )


def hang(server: Server) -> None:
    server.let_go.wait(2 * PATIENCE_SECONDS)


def one_event_then_silence(server: Server) -> None:
    """Its next answer is a watch."""

    def answer(handler: Handler) -> None:
        handler.start_chunks()
        handler.chunk(b'{"first":1}\n')
        hang(server)

    server.answer = answer


def assert_close_ends_the_read(stream: Stream) -> None:
    """Of another thread, that has read the event and waits for the next."""
    first, ended = threading.Event(), threading.Event()

    def read() -> None:
        for _ in stream.lines():
            first.set()
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert first.wait(PATIENCE_SECONDS)
    stream.close()
    assert ended.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)
