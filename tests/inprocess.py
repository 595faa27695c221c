"""The operator's own Kubernetes client and watcher on an API server in the same process: no sockets, no threads, no sleeps.

`InProcessTransport` puts `localcluster.apiserver.ApiServer.handle` under the real `KubeClient`. `InProcessWatcher` runs the
real informers and the real writer, one step at a time, until they have passed on everything there is: for simulations in
virtual time. Single-threaded, unless a test gives a lock and asks for streams that wait.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from localcluster.wire import Request, Response, Watch
from tjworker.base import JobKey, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.lines import LineSplitter
from tjworker.kube.port import HttpResponse, Stream
from tjworker.kube.resources import WATCHED
from tjworker.store.port import Store
from watcher.forerunner import Forerunner, forerunners
from watcher.history import ClusterId
from watcher.inbox import Closed, Inbox
from watcher.informer import Informer
from watcher.writer import Writer

Handle = Callable[[Request], Response | Watch]
NO_LOCK: AbstractContextManager[object] = nullcontext()


class InProcessTransport:
    """A Transport. With `waits` a stream blocks for news as a socket would (the API server then runs on another thread, and
    `lock` guards it); without, it ends as soon as it has given what there is. `fault` may raise Transient before a request
    arrives, or after it has been carried out (`after`): the two ways to lose an answer."""

    def __init__(
        self,
        handle: Handle,
        *,
        user: str = "trainingjob-operator",
        waits: bool = False,
        lock: AbstractContextManager[object] | None = None,
        fault: Callable[[str, str, bool], None] | None = None,
    ) -> None:
        self._handle = handle
        self._user = user
        self._waits = waits
        self._lock = lock or NO_LOCK
        self._fault = fault or (lambda method, path, after: None)
        self.requests: list[tuple[str, str]] = []
        """(method, path) of every request so far; a watch is WATCH."""

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        self.requests.append((method, path))
        self._fault(method, path, False)
        headers = {"content-type": content_type} if body is not None else {}
        with self._lock:
            answer = self._handle(Request(method, path, dict(query or {}), body or b"", headers, self._user))
        self._fault(method, path, True)
        assert isinstance(answer, Response), f"{method} {path} answered with a watch"
        return HttpResponse(answer.status, answer.body, {name.lower(): value for name, value in answer.headers.items()})

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        self.requests.append(("WATCH", path))
        self._fault("WATCH", path, False)
        with self._lock:
            answer = self._handle(Request("GET", path, dict(query), user=self._user))
        return InProcessStream(answer, self._lock, read_timeout_seconds if self._waits else None)

    def close(self) -> None: ...


class InProcessStream:
    def __init__(
        self,
        answer: Response | Watch,
        lock: AbstractContextManager[object] = NO_LOCK,
        wait_seconds: float | None = None,
    ) -> None:
        self.status = answer.status if isinstance(answer, Response) else 200
        self.headers: Mapping[str, str] = dict(answer.headers) if isinstance(answer, Response) else {}
        self._answer = answer
        self._lock = lock
        self._wait_seconds = wait_seconds
        self._news = threading.Event()
        if isinstance(answer, Watch):
            answer.wake = self._news.set

    def lines(self) -> Iterator[list[bytes]]:
        watch = self._answer
        assert isinstance(watch, Watch)
        splitter = LineSplitter()
        while True:
            self._news.clear()
            with self._lock:
                chunk, ended = b"".join(watch.poll()), watch.closed
            if lines := splitter.feed(chunk):
                yield lines
                continue
            if ended or self._wait_seconds is None:
                return
            if not self._news.wait(self._wait_seconds):
                raise Transient("watch broke off: read timed out")

    def body(self) -> bytes:
        return self._answer.body if isinstance(self._answer, Response) else b""

    def close(self) -> None:
        if isinstance(self._answer, Watch):
            with self._lock:
                self._answer.close()
        self._news.set()


class InProcessWatcher:
    """The watcher of `python -m watcher`, without its threads: `pump` passes on everything that there is, now."""

    def __init__(
        self,
        handle: Handle,
        store: Store,
        publish: Callable[[Sequence[JobKey]], object],
        *,
        now: Callable[[], float],
        token: int = 1,
        namespaces: Sequence[str] = (),
        page_size: int = 500,
        seed: int = 0,
        transport: InProcessTransport | None = None,
        stopped: threading.Event | None = None,
    ) -> None:
        self.transport = transport or InProcessTransport(handle)
        client = KubeClient(self.transport)
        cluster = ClusterId(client, now)
        inbox = Inbox(1 << 30)  # nobody empties it while an informer's step runs
        self.informers = [
            Informer(
                row.plural, client, inbox, now=now, namespace=namespace, page_size=page_size, rng=random.Random(seed)
            )
            for row in WATCHED
            for namespace in ((namespaces or ("",)) if row.namespaced else ("",))
        ]
        for informer in self.informers:
            informer.cluster = cluster
        self.writer = Writer(
            store,
            publish,
            inbox,
            token=token,
            sources=[i.source for i in self.informers],
            relist=self._relist,
            now=now,
            wall_clock=now,
            stopped=stopped or threading.Event(),
            rng=random.Random(seed),
        )
        self._inbox = inbox
        self._led = False
        self.forerunners: list[Forerunner] = []
        self.lists = True
        """False: informers whose forerunners go on have not come to their lists yet."""

    def pump(self) -> None:
        """One list or watch of everything, then the writer until nothing is left. Waits that an informer would take after a
        failure are skipped: the next call is its next try."""
        self._lead()
        self._run_ahead()
        for informer in self.informers:
            if self.lists or informer.forerunner is None or informer.forerunner.stopped:
                informer.step()
        self._drain()

    def _lead(self) -> None:
        if not self._led:
            start = self.writer.lead()
            self._led = True
            self.forerunners = forerunners(self.informers, start)

    def _run_ahead(self) -> None:
        """What comes after the last watcher, before the lists."""
        for one in list(self.forerunners):
            try:
                if one.stopped:
                    raise Closed
                one.step()
            except Closed:
                self.forerunners.remove(one)
        if self.forerunners:
            self._drain()

    def _drain(self) -> None:
        self.writer.step(0)
        while len(self._inbox) or self.writer.sweeping:
            self.writer.step(0)

    def _relist(self, epoch: int) -> None:
        for one in self.forerunners:
            one.stop()
        for informer in self.informers:
            informer.relist(epoch)
