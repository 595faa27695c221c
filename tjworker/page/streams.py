"""The page's streams of server-sent events: changes of a view, and the logs of a job.

A stream takes one of a bounded number of places, after the viewer's token was checked.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import orjson
from tornado.iostream import StreamClosedError

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.base import Invalid, JobKey, OperatorError, Transient, parse_key, printable
from tjworker.cli.jobs import FoundJob
from tjworker.cli.logstream import Excerpt, Follower, Wanted
from tjworker.page import views
from tjworker.page.access import FIRST_KIND, NotAllowed, Viewer, find_job
from tjworker.page.places import NoPlace, StreamPlaces
from tjworker.page.site import Site, SiteHandler

# Proxies end a silent connection: nginx after 60 s, by default (`proxy_read_timeout`).
WATCH_SECONDS, BEAT_SECONDS = 1.0, 15.0
LOG_TAIL_LINES, LOG_LINE_CHARS, LOG_WAITING_LINES = 200, 4_096, 2_000
LOG_SECONDS = 0.25
MOST_FOLLOWED = 16
"""Logs of containers in one stream. Each holds a connection to the API server."""
T = TypeVar("T")


class EventStream(SiteHandler):
    """Server-sent events."""

    def initialize(self, site: Site) -> None:
        super().initialize(site)
        self.gone = threading.Event()
        self.outcome = 200
        """The status code that the metrics count. The response has another where the stream itself says what failed: a
        browser shows no body of a stream that was refused."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        # nginx would otherwise buffer the stream.
        self.set_header("X-Accel-Buffering", "no")

    def on_connection_close(self) -> None:
        self.gone.set()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.finish()

    async def say(self, event: str, data: Any) -> None:
        # JSON has no raw line break, which would end the field.
        self.write(f"event: {event}\ndata: {orjson.dumps(data).decode()}\n\n")
        await self.flush()

    async def in_thread(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.site.threads, ask)


class Watch(EventStream):
    """Sends `change` whenever the content of the view `watch` may have changed. The data is only a number."""

    counted = "events"

    async def get(self) -> None:
        watch = self.get_argument("watch", "")[:700]
        try:
            viewer = await self.in_thread(lambda: self._check_viewer(watch))
            with self.site.watchers.take(viewer.name), suppress(StreamClosedError):
                await self._follow(watch)
        except NotAllowed as error:
            self.set_status(error.code)
        except OperatorError as error:
            self.set_status(self.site.viewers.readable(error)[0])
        except NoPlace as full:
            # The page's script then reads the view from time to time.
            self.set_status(_no_place_code(full))

    def _check_viewer(self, watch: str) -> Viewer:
        """Raises NotAllowed if the cluster does not know the token, or the viewer may not read the job."""
        viewer, resource, namespace = self.viewer(), FIRST_KIND, ""
        with suppress(Invalid):
            job = parse_key(watch)
            resource, namespace = (job.resource, job.namespace) if job.resource in KNOWN_KINDS else (resource, "")
        # An open page continues while the API server is away: it only learns that something has changed.
        with suppress(Transient):
            if not viewer.may("get", resource, namespace) and namespace:
                raise NotAllowed(403, f"your token may not read jobs of namespace {namespace}")
        return viewer

    async def _follow(self, watch: str) -> None:
        loop, last, beat = asyncio.get_running_loop(), None, 0.0
        while not self.gone.is_set():
            try:
                # All streams share a reading: 500 open pages cost Redis no more than a single page.
                board = await self.site.reader.arrive()
                row = board.jobs.get(JobKey(watch))
                now: object = board.revision if "/" not in watch else (row.mark if row is not None else 0)
                state: tuple[str, object] = ("change", now)
            except OperatorError as error:
                state = ("away", printable(error.message))
            # The browser has just loaded the view, so the first state is no change.
            if state != last and (last is not None or state[0] == "away"):
                await self.say(*state)
                beat = loop.time()
            elif loop.time() - beat > BEAT_SECONDS:
                await self.say("beat", int(self.site.now().timestamp()))
                beat = loop.time()
            last = state
            await asyncio.sleep(WATCH_SECONDS)


class Logs(EventStream):
    """Sends the log lines of a job's replicas as they come, `note` when further logs are not followed, and `end` when
    there will be no more lines."""

    counted = "logs"

    async def get(self, resource: str, namespace: str, name: str) -> None:
        with suppress(StreamClosedError):
            try:
                viewer, found = await self.in_thread(lambda: self._find(resource, namespace, name))
                with self.site.logs.take(viewer.name):
                    await self._follow(viewer, found)
            except NotAllowed as error:
                await self._end(error.code, error.message)
            except OperatorError as error:
                await self._end(*self.site.viewers.readable(error))
            except NoPlace as full:
                await self._end(_no_place_code(full), _no_place(self.site.logs, full))
            finally:
                self.gone.set()

    async def _end(self, code: int, why: str) -> None:
        self.outcome = code
        await self.say("end", why)

    def _find(self, resource: str, namespace: str, name: str) -> tuple[Viewer, FoundJob]:
        viewer = self.viewer()
        return viewer, find_job(viewer, resource, namespace, name)

    async def _follow(self, viewer: Viewer, found: FoundJob) -> None:
        loop = asyncio.get_running_loop()
        # Bounded: a program writes faster than a browser reads, and 24 streams would fill the memory of the page.
        lines: queue.Queue[tuple[str, str]] = queue.Queue(LOG_WAITING_LINES)

        def emit(label: str, line: str) -> None:
            # A slow browser makes the follower wait, until the connection is closed.
            while not self.gone.is_set():
                with suppress(queue.Full):
                    lines.put((label, views.shown(line, LOG_LINE_CHARS, "\t")), timeout=1)
                    return

        wanted = _wanted(self.get_argument("role", ""), self.get_argument("replica", "").strip())
        excerpt = Excerpt(tail=LOG_TAIL_LINES)
        follower = Follower(viewer.cluster(), found, wanted, excerpt, emit, tells_outage=False, most=MOST_FOLLOWED)
        # A thread of its own: a followed log lasts as long as its job, and would take a thread from the views for
        # hours.
        thread = threading.Thread(target=follower.run, args=(self.gone,), name="page-log", daemon=True)
        thread.start()
        beat, left_out = loop.time(), 0
        while not self.gone.is_set():
            # Checked before the queue is emptied, so that the last lines are not lost.
            over = not thread.is_alive()
            if follower.left_out != left_out:
                left_out = follower.left_out
                await self.say("note", _left_out(left_out))
            batch = _drain(lines)
            if batch:
                await self.say("lines", batch)
                beat = loop.time()
            elif over:
                await self.say("end", "the job has ended, and this is all of its logs that there is")
                return
            elif loop.time() - beat > BEAT_SECONDS:
                await self.say("beat", 0)
                beat = loop.time()
            await asyncio.sleep(LOG_SECONDS)


def _wanted(role: str, replica: str) -> Wanted:
    """`replica`: an index, or the name of a pod; '' for all."""
    if replica.isascii() and replica.isdigit():
        return Wanted(role or None, int(replica[:9]))
    return Wanted(role or None, pod=replica or None)


def _left_out(count: int) -> str:
    if not count:
        return ""
    return (
        f"{MOST_FOLLOWED} logs are followed, {count} more are not: choose a role, or a replica by its index or the name"
        " of its pod"
    )


def _no_place_code(full: NoPlace) -> int:
    return 429 if full.own else 503


def _no_place(logs: StreamPlaces, full: NoPlace) -> str:
    if full.own:
        return f"you follow {logs.each} logs already, which is the most for one viewer: stop one, or use `tj logs -f`"
    return f"{logs.most} logs are being followed already: try again later, or use `tj logs -f`"


def _drain(lines: queue.Queue[tuple[str, str]]) -> list[tuple[str, str]]:
    batch: list[tuple[str, str]] = []
    with suppress(queue.Empty):
        while len(batch) < 500:
            batch.append(lines.get_nowait())
    return batch
