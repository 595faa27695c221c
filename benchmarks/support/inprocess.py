"""The operator's own Kubernetes client and watcher on an API server in the same process: no sockets, no threads, no
sleeps.

`InProcessTransport` puts `localcluster.apiserver.ApiServer.handle` under the real `KubeClient`. `InProcessWatcher` runs
the real reflectors and the real writer, one step at a time, until they have passed on everything there is: for
simulations in virtual time. Single-threaded, unless a test gives a lock and asks for streams that wait.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from localcluster.wire import Request, Response, Watch
from tjworker.base import GroupResource, JobKey, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse, Stream
from tjworker.kube.reflector import Closed, Reflector
from tjworker.kube.transport import LineSplitter
from tjworker.settings import Settings
from tjworker.store.port import Store
from tjworker.store.projection import Lost
from watcher.historian import Historian
from watcher.progress import BeganAnew
from watcher.term import Term

Handle = Callable[[Request], Response | Watch]
NO_LOCK: AbstractContextManager[object] = nullcontext()


class InProcessTransport:
    """A Transport. With `waits` a stream blocks for news as a socket would (the API server then runs on another thread,
    and `lock` guards it); without, it ends as soon as it has given what there is. `fault` may raise Transient before a
    request arrives, or after it has been carried out (`after`): the two ways to lose an answer."""

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
        if isinstance(answer, Watch):
            raise TypeError(f"{method} {path} was answered with a watch")
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
        if isinstance(watch, Response):
            raise TypeError(f"no watch: answer {watch.status}")
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


class InProcessWatcher(Term):
    """The watcher of `python -m watcher`, without its threads: `pump` passes on everything that there is, now."""

    queue_capacity = 1 << 30  # nothing empties the queue while a reflector's step runs

    def __init__(
        self,
        handle: Handle,
        store: Store,
        publish: Callable[[Sequence[JobKey]], object],
        *,
        now: Callable[[], float],
        token: int = 1,
        settings: Settings | None = None,
        seed: int = 0,
        transport: InProcessTransport | None = None,
        stopped: threading.Event | None = None,
        historian: Historian | None = None,
        newest: Callable[[GroupResource], int] | None = None,
    ) -> None:
        """`newest`: the resourceVersion of a resource's last change, where the caller can look it up. Watches that have
        already shown that change are then not opened again."""
        self.transport = transport or InProcessTransport(handle)
        self._seed = seed
        self._newest = newest
        super().__init__(
            KubeClient(self.transport),
            store,
            publish,
            token=token,
            now=now,
            settings=settings or Settings(),
            stopped=stopped,
            historian=historian,
        )
        self._led = False
        self.lists = True
        """False: reflectors with a resumed watch beside them have not come to their lists yet."""

    def make_rng(self) -> random.Random:
        return random.Random(self._seed)

    def _make_parts(self, since: Mapping[str, int]) -> None:
        super()._make_parts(since)
        self.reflectors = self.feed.reflectors

    def _start_thread(self, name: str, target: Callable[[], None]) -> None:
        """No thread: `pump` steps."""

    @property
    def resumed_watches(self) -> list[Reflector]:
        return [one for one in self.feed.resumed.values() if not one.stopped]

    def pump(self) -> None:
        """One list or watch of everything, then the writer until nothing is left. Waits that a reflector would take
        after a failure are skipped: the next call is its next try."""
        self._lead()
        self._run_ahead()
        for reflector in self.reflectors:
            resumed = self.feed.resumed.get(reflector.source)
            if (self.lists or resumed is None or resumed.stopped) and not self._has_shown_all(reflector):
                reflector.step()
        self._drain()

    def _has_shown_all(self, reflector: Reflector) -> bool:
        if self._newest is None or reflector.needs_list:
            return False
        return reflector.position >= self._newest(reflector.resource)

    def _lead(self) -> None:
        if not self._led:
            start = self.writer.lead()
            self._led = True
            self._start_feed(start)

    def _run_ahead(self) -> None:
        """What comes after the last watcher, before the lists."""
        for one in self.resumed_watches:
            with suppress(Closed):
                one.step()
        if self.resumed_watches:
            self._drain()

    def _drain(self) -> None:
        try:
            self.writer.step(0)
            while len(self.feed.queue) or self.writer._sweeps:
                self.writer.step(0)
            self._repair()
        except (Lost, BeganAnew) as error:
            self._begin_again(error)
