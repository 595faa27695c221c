"""The Client over HTTP, for kubelets that serve a control plane of another process: urllib3, a kubeconfig or its parts.

Each watch has a reader thread that sleeps in the socket; `poll` takes what it has read. A watch that breaks is
`closed`, and the informer opens it again. Requests that got no answer raise ApiError with code 0; nothing is retried
here.
"""

from __future__ import annotations

import base64
import contextlib
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

from localcluster import jsontext
from localcluster.client import ApiError, EventSource, RequestClient, error_of
from localcluster.wire import Json

READ_TIMEOUT_SECONDS = 30.0
WATCH_SECONDS = 300


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to reach and trust a server. Paths are files in PEM, `ca_data` is PEM itself."""

    server: str
    token: str = ""
    ca_file: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""
    insecure: bool = False
    ca_data: str = ""


def from_kubeconfig(path: Path, context: str = "") -> ServerAccess:
    """The connection of a context (default: the current one). Raises ValueError naming what is missing."""
    config = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    name = context or config.get("current-context", "")
    chosen = _find_named(config, "contexts", "context", name, path)
    cluster = _find_named(config, "clusters", "cluster", chosen["cluster"], path)
    user = _find_named(config, "users", "user", chosen["user"], path) if chosen.get("user") else {}
    return ServerAccess(
        server=cluster["server"].rstrip("/"),
        token=user.get("token") or _read_text(user.get("tokenFile"), path),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        ca_file=_find_file(cluster, "certificate-authority", path) if cluster.get("certificate-authority") else "",
        ca_data=base64.b64decode(cluster.get("certificate-authority-data") or "").decode(),
        client_cert_file=_find_file(user, "client-certificate", path),
        client_key_file=_find_file(user, "client-key", path),
    )


def _find_named(config: Json, part: str, field: str, name: str, path: Path) -> Json:
    for each in config.get(part) or ():
        if each["name"] == name:
            found: Json = each[field]
            return found
    raise ValueError(f"kubeconfig {path}: {part} has no entry named {name!r}; look at its current-context")


def _find_file(part: Json, field: str, path: Path) -> str:
    if part.get(field):
        return str((path.parent / part[field]).resolve())
    data = part.get(f"{field}-data")
    if not data:
        return ""
    with tempfile.NamedTemporaryFile(prefix="localcluster-", suffix=".pem", delete=False) as file:
        file.write(base64.b64decode(data))
    return file.name


def _read_text(file: str | None, path: Path) -> str:
    return (path.parent / file).read_text(encoding="utf-8").strip() if file else ""


class _HttpEvents:
    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.closed = False
        self.wake: Callable[[], None] | None = None
        self._response = response
        self._events: deque[Json] = deque()
        self._thread = threading.Thread(target=self._read, name="watch", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        rest = b""
        try:
            for chunk in self._response.stream(65536, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                self._events.extend(jsontext.loads(line) for line in lines if line.strip())
                self._tell()
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            pass
        finally:
            self.closed = True
            with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
                self._response.close()
            self._tell()

    def _tell(self) -> None:
        wake = self.wake  # once: `close` takes it away, on another thread
        if wake is not None:
            wake()

    def poll(self) -> list[Json]:
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def close(self) -> None:
        self.closed = True
        self.wake = None
        # Not `close`: it would wait for the reader, which sits in recv until the server says something.
        with contextlib.suppress(urllib3.exceptions.HTTPError, OSError, ValueError):
            self._response.shutdown()


class HttpClient(RequestClient):
    """Thread-safe. `close` ends its connections; open watches end by themselves."""

    def __init__(self, connection: ServerAccess, user_agent: str = "localcluster-kubelet") -> None:
        self._server = connection.server
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        if connection.token:
            self._headers["Authorization"] = f"Bearer {connection.token}"
        options: dict[str, Any] = {
            "retries": False,
            "maxsize": 8,
            "timeout": urllib3.Timeout(connect=5.0, read=READ_TIMEOUT_SECONDS),
        }
        if connection.server.startswith("https:"):
            options.update(cert_reqs="CERT_NONE" if connection.insecure else "CERT_REQUIRED")
            options.update(
                {
                    k: v
                    for k, v in (
                        ("ca_certs", connection.ca_file),
                        ("ca_cert_data", connection.ca_data),
                        ("cert_file", connection.client_cert_file),
                        ("key_file", connection.client_key_file),
                    )
                    if v
                }
            )
        self._pool = urllib3.PoolManager(**options)

    def close(self) -> None:
        self._pool.clear()

    def _call(
        self, method: str, path: str, query: dict[str, str], body: Any = None, content_type: str = "application/json"
    ) -> Json:
        url = self._server + path + (f"?{urlencode(query)}" if query else "")
        try:
            answer = self._pool.request(
                method,
                url,
                body=None if body is None else jsontext.dumps(body),
                headers={**self._headers, "Content-Type": content_type},
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, "Unreachable", f"{method} {self._server}{path}: {error}") from error
        if answer.status >= 400:
            raise error_of(answer.status, answer.data)
        parsed: Json = jsontext.loads(answer.data)
        return parsed

    def watch(self, path: str, resource_version: str, **query: str) -> EventSource:
        asked = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(WATCH_SECONDS),
            **query,
        }
        try:
            # The read time-out is above the server's own end of the watch, so that only a half-open connection meets
            # it.
            answer = self._pool.request(
                "GET",
                f"{self._server}{path}?{urlencode(asked)}",
                headers=self._headers,
                preload_content=False,
                timeout=urllib3.Timeout(connect=5.0, read=WATCH_SECONDS + 30.0),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, "Unreachable", f"watch {self._server}{path}: {error}") from error
        if answer.status >= 400:
            raise error_of(answer.status, answer.data)
        return _HttpEvents(answer)
