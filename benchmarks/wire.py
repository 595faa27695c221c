"""A bare HTTP client of the API server: one open connection, raw JSON, nothing repeated, nothing cached.

For measuring, so it is as cheap as Python allows: what a client costs must not hide what an operator costs. Not
thread-safe: one connection a thread.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPSConnection
from typing import Any

import orjson

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Server:
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"


class Connection:
    """`token` identifies the client in the audit log."""

    def __init__(self, server: Server, token: str, *, timeout_seconds: float = 60) -> None:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the API server of the benchmark makes its own certificate
        self._http = HTTPSConnection(server.host, server.port, context=context, timeout=timeout_seconds)
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}

    def send(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> tuple[int, Json]:
        data = None if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        headers = self._headers if data is None else {**self._headers, "Content-Type": kind}
        self._http.request(method, path, body=data, headers=headers)
        answer = self._http.getresponse()
        text = answer.read()
        # "404 page not found", before a new kind is served, is no JSON.
        return answer.status, orjson.loads(text) if text.startswith(b"{") else {}

    def post(self, path: str, body: Any) -> None:
        """A create whose answer is not looked at, only whether it was taken."""
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        self._http.request("POST", path, body=data, headers={**self._headers, "Content-Type": "application/json"})
        answer = self._http.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"POST {path}: {answer.status} {text[:300]!r}")

    def get(self, path: str) -> Json:
        status, body = self.send("GET", path)
        if status >= 300:
            raise RuntimeError(f"GET {path}: {status} {body.get('message')}")
        return body

    def merge_patch(self, path: str, body: Mapping[str, Any]) -> int:
        return self.send("PATCH", path, body, kind="application/merge-patch+json")[0]

    def watch(self, path: str, resource_version: str) -> Iterator[Json]:
        """Events until the connection is closed or the server ends the watch."""
        self._http.request("GET", f"{path}?watch=1&resourceVersion={resource_version}", headers=self._headers)
        answer = self._http.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"watch {path}: {answer.status} {answer.read()[:300]!r}")
        while line := answer.readline():
            yield orjson.loads(line)

    def close(self) -> None:
        # A thread may still be reading a watch: shutting the socket ends its read, closing alone would wait for it.
        if self._http.sock is not None:
            with suppress(OSError):
                self._http.sock.shutdown(socket.SHUT_RDWR)
        self._http.close()
