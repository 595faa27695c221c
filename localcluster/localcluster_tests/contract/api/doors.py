"""Two clusters behind one small interface: the local one in process and in virtual time, and a real one over HTTP.

Neither knows what a case expects. `Door.until` is how time passes: virtual time jumps to the next thing that is due.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl

import urllib3
from kubernetes import client, config

from localcluster.cluster import LocalCluster
from localcluster.wire import Request, Response, Watch

PAUSE_SECONDS = 0.03
NODES = 2


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes


class Lines(Protocol):
    """An open watch. `take` gives the next line, b"" once the server has ended it; raises TimeoutError."""

    def take(self, seconds: float) -> bytes: ...
    def close(self) -> None: ...


class Door(Protocol):
    def send(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer: ...
    def open(self, target: str, headers: Mapping[str, str]) -> Lines | Answer: ...
    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Lets time pass until `done`; False when it has not come within `seconds`."""

    def close(self) -> None: ...


# -- local -----------------------------------------------------------------------------------------
class LocalDoor:
    def __init__(self, seed: int = 0) -> None:
        self.cluster = LocalCluster(nodes=NODES, seed=seed, endpoints=True)

    def _ask(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Response | Watch:
        path, _, query = target.partition("?")
        return self.cluster.apiserver.handle(
            Request(method, path, dict(parse_qsl(query, keep_blank_values=True)), body, headers)
        )

    def send(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        answer = self._ask(method, target, body, headers)
        assert isinstance(answer, Response), f"{method} {target} opened a watch"
        return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.body)

    def open(self, target: str, headers: Mapping[str, str]) -> Lines | Answer:
        answer = self._ask("GET", target, b"", headers)
        if isinstance(answer, Response):
            return Answer(answer.status, {}, answer.body)
        return _LocalLines(self, answer)

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        driver, clock = self.cluster.driver, self.cluster.clock
        deadline = clock() + seconds
        driver.run_until_idle()
        while not done():
            due = driver.next_due()
            if due is None or due > deadline:
                return False
            driver.advance(max(due - clock(), 0.001))
        return True

    def close(self) -> None:
        self.cluster.close()


class _LocalLines:
    def __init__(self, door: LocalDoor, watch: Watch) -> None:
        self._door = door
        self._watch = watch
        self._lines: list[bytes] = []

    def take(self, seconds: float) -> bytes:
        def there() -> bool:
            self._lines += [line for chunk in self._watch.poll() for line in chunk.splitlines() if line]
            return bool(self._lines) or self._watch.closed

        if not there() and not self._door.until(there, seconds):
            raise TimeoutError
        return self._lines.pop(0) if self._lines else b""

    def close(self) -> None:
        self._watch.close()


# -- real ------------------------------------------------------------------------------------------
class RealDoor:
    def __init__(self, kubeconfig: Path) -> None:
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
        self._host = settings.host
        self._headers = {"authorization": token} if (token := settings.get_api_key_with_prefix("BearerToken")) else {}
        if not settings.verify_ssl:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._pool = urllib3.PoolManager(
            maxsize=8,
            retries=False,
            cert_reqs="CERT_REQUIRED" if settings.verify_ssl else "CERT_NONE",
            ca_certs=settings.ssl_ca_cert,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
        )

    def send(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        response = self._pool.request(
            method, self._host + target, body=body or None, headers={**headers, **self._headers}, timeout=120
        )
        # A header that comes several times is one with commas.
        return Answer(
            response.status, {name.lower(): response.headers[name] for name in response.headers}, response.data
        )

    def open(self, target: str, headers: Mapping[str, str]) -> Lines | Answer:
        response = self._pool.request(
            "GET",
            self._host + target,
            headers={**headers, **self._headers},
            preload_content=False,
            timeout=urllib3.Timeout(connect=10, read=120),
        )
        if response.status != 200:
            return Answer(response.status, {}, response.data)
        return _RealLines(response)

    def until(self, done: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not done():
            if time.monotonic() > deadline:
                return False
            pause.wait(PAUSE_SECONDS)
        return True

    def close(self) -> None:
        self._pool.clear()


class _RealLines:
    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True, name="watch").start()

    def _read(self) -> None:
        with contextlib.suppress(urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError):
            for line in self._split():
                self._lines.put(line)
        self._lines.put(b"")

    def _split(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self._response.stream(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line for line in lines if line)

    def take(self, seconds: float) -> bytes:
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None

    def close(self) -> None:
        # From another thread than the one that reads: only the socket's end wakes that one.
        with contextlib.suppress(OSError, AttributeError, RuntimeError):
            self._response.shutdown()
