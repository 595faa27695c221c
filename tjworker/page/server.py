"""The page's HTTP, by tornado. No request changes anything. Blocking calls run in threads.

The server renders whole views. The page's script reads a view again when an event of `/events` reports a change. The
page loads nothing from other servers, and the policy in each answer forbids it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
import structlog
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler

from tjworker.api.kinds import KINDS, KNOWN_KINDS, parse
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.resources import EVENTS, NODES
from tjworker.base import GroupResource, Invalid, JobKey, OperatorError, Transient, parse_key, printable
from tjworker.cli import happenings, narrative, rows
from tjworker.cli.chart import chart
from tjworker.cli.chartsvg import svg
from tjworker.cli.jobs import FoundJob, job_pods, list_all, role_names
from tjworker.cli.logstream import Excerpt, Follower, Wanted
from tjworker.cli.past import past
from tjworker.history.records import Summary
from tjworker.history.store import HistoryStore
from tjworker.page import views
from tjworker.page.access import NotAllowed, Viewer, Viewers, readable_error
from tjworker.page.board import Board, Reader
from tjworker.telemetry import metrics
from tjworker.telemetry.metrics import Sample

log = structlog.get_logger(__name__)
HERE = Path(__file__).parent
THREADS = 16
SIDE_THREADS = 8
"""For concurrent requests of one of the other threads: in the same pool, such threads could all wait for each other."""
MOST_WATCHERS, MOST_LOGS = 500, 24
WATCH_SECONDS, BEAT_SECONDS = 1.0, 15.0
LOG_TAIL_LINES, LOG_LINE_CHARS, LOG_WAITING_LINES = 200, 4_096, 2_000
LOG_SECONDS = 0.25
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
SEGMENT = r"([a-z0-9][-a-z0-9.]{0,252})"
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """The objects that the handlers use."""

    reader: Reader
    history: HistoryStore | None
    viewers: Viewers
    gpu_resources: Sequence[str] = ()
    flower: str = ""
    history_seconds: float = 0.0
    now: Callable[[], datetime] = rows.utc_now
    threads: ThreadPoolExecutor = dataclasses.field(default_factory=lambda: ThreadPoolExecutor(THREADS, "page"))
    side: ThreadPoolExecutor = dataclasses.field(default_factory=lambda: ThreadPoolExecutor(SIDE_THREADS, "ask"))
    watchers: set[object] = dataclasses.field(default_factory=set)
    logs: set[object] = dataclasses.field(default_factory=set)

    def samples(self) -> Iterator[Sample]:
        """The values for a scrape. Runs in the scrape's thread."""
        yield metrics.PAGE_STREAMS, {"view": "events"}, len(self.watchers)
        yield metrics.PAGE_STREAMS, {"view": "logs"}, len(self.logs)
        with suppress(OperatorError):
            self.reader.refresh()
        if read_at := self.reader.board.read_at:
            yield metrics.PAGE_AGE, {}, max(0.0, self.now().timestamp() - read_at)

    def allowed(
        self, viewer: Viewer, places: set[tuple[GroupResource, str]], chosen: str = ""
    ) -> tuple[frozenset[tuple[str, str]], list[str]]:
        """The places whose jobs the viewer may list, and a note for the viewer if some were not checked."""
        listable, unchecked = viewer.listable(places, self.side, chosen)
        note = f"Jobs of {unchecked} more kinds and namespaces are not shown: choose a namespace."
        notes = [note] if unchecked else []
        return frozenset((str(kind), namespace) for kind, namespace in listable), notes


class View(RequestHandler):
    """A view of the page. `answer` runs in a thread."""

    here = ""
    watch = ""
    counted = "other"
    """The view's name in `metrics.PAGE_REQUESTS`."""

    def initialize(self, site: Site) -> None:
        self.site = site

    def prepare(self) -> None:
        check_host(self.site, self.request)

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)

    async def get(self, *path: str) -> None:
        given = self.request.headers.get("Authorization", "")
        try:
            html = await self.in_thread(lambda: self.answer(self.site.viewers.viewer(given), *path))
        except NotAllowed as error:
            self.refuse(error.code, error.message)
        except OperatorError as error:
            self.refuse(*readable_error(error))
        else:
            self.finish(html)

    async def in_thread(self, ask: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.site.threads, ask)

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        raise NotImplementedError

    def html(self, template: str, *, read_at: float = 0.0, **data: Any) -> bytes:
        at = datetime.fromtimestamp(read_at, UTC) if read_at else self.site.now()
        return self.render_string(
            template,
            here=self.here,
            flower=self.site.flower,
            read_at=f"{at:%Y-%m-%dT%H:%M:%SZ}",
            tone=views.tone,
            shown=views.shown,
            **{"watch": self.watch, **data},
        )

    def refuse(self, code: int, message: str) -> None:
        self.set_status(code)
        if code == 401:
            self.set_header("WWW-Authenticate", self.site.viewers.challenge)
        self.finish(self.html("error.html", code=code, heading=_HEADINGS.get(code, "Error"), message=message, watch=""))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code >= 500:
            self.refuse(status_code, "the page has met an error of its own; its log has it. Other views work on")
        else:
            self.refuse(status_code, "there is no such view; a job that is gone may be in the history")

    def filters(self) -> views.Filters:
        def asked(name: str) -> str:
            return self.get_argument(name, "")[:253]

        page = asked("page")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
        return views.Filters(asked("namespace"), asked("kind"), asked("phase"), asked("q"), number)

    def board(self) -> tuple[Board, list[str]]:
        """The board, and notes for the viewer. If Redis does not answer: the last board, and a note of its age."""
        try:
            board = self.site.reader.refresh()
        except OperatorError as error:
            board = self.site.reader.board
            if not board.read_at:
                raise
            age = rows.duration(self.site.now().timestamp() - board.read_at)
            return board, [f"This is {age} old: {error.message}"]
        notes = [] if board.synced else ["The operator is reading the cluster; jobs may be missing until it has."]
        return board, notes


_HEADINGS = {401: "Not signed in", 403: "Not allowed", 404: "Not found", 503: "Not available now"}


def check_host(site: Site, request: HTTPServerRequest) -> None:
    """Raises HTTPError for a request under a foreign name to a page without login."""
    # A foreign page whose name points to 127.0.0.1 (DNS rebinding) could read everything. Its requests carry its own
    # name in `Host`.
    if site.viewers.names_no_one and request.host_name not in OWN_NAMES:
        raise HTTPError(403)


class Jobs(View):
    here, watch, counted = "Jobs", "jobs", "jobs"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        board, notes = self.board()
        filters = self.filters()
        places = {(row.resource, row.namespace) for row in board.jobs.values()}
        allowed, unchecked = self.site.allowed(viewer, places, filters.namespace)
        listing = views.job_list(board, allowed, filters, self.site.now())
        return self.html("jobs.html", found=listing, notes=[*notes, *unchecked], read_at=board.read_at)


class Job(View):
    here, counted = "Jobs", "job"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        found = find_job(viewer, *path)
        raw, now = found.raw, self.site.now()
        pods = job_pods(viewer.api, found)
        seen = _events(viewer, found)
        model = parse(found.resource, raw)
        job = model.rest if isinstance(model, InvalidJob) else model
        sections = [] if job is None else narrative.describe(raw, job, pods, seen, now)
        if isinstance(model, InvalidJob):
            wrong = "; ".join(map(str, model.errors))
            sections.insert(0, narrative.Section("", (f"! Its spec cannot be used: {wrong}",)))
        trainer_status = found.status.get("trainerStatus") or {}
        resource, namespace, name = path
        return self.html(
            "job.html",
            name=views.shown(name),
            namespace=namespace,
            phase=views.shown(found.status.get("phase") or views.NEW, 40),
            progress=trainer_status.get("progressPercentage"),
            blocks=views.section_blocks(sections),
            log_link=f"/logs/{resource}/{namespace}/{name}",
            roles=role_names(found),
            events=views.event_rows(seen, now),
            watch=f"{resource}/{namespace}/{name}",
            **_parts(job, pods, now, None if job is None else svg(chart(job, pods, seen, now))),
        )


def _parts(job: TrainingJob | None, pods: Sequence[Any], now: datetime, drawn: str | None) -> dict[str, Any]:
    return {
        "svg": drawn,
        "scales": [] if job is None else views.scale_rows(job, now),
        "pods": views.pod_rows(pods, now),
        "more_pods": len(pods) - views.SHOWN_PODS,
    }


def find_job(viewer: Viewer, resource: str, namespace: str, name: str) -> FoundJob:
    """The job, read with the viewer's token. Raises NotAllowed if it does not exist, OperatorError if it cannot be
    read."""
    try:
        parse_key(f"{resource}/{namespace}/{name}")
    except Invalid:
        raise NotAllowed(404, "that is no name of a job") from None
    if resource not in KNOWN_KINDS:
        raise NotAllowed(404, f"{resource} is no job kind that this operator knows")
    known = GroupResource(resource)
    raw = viewer.api.get(known, namespace, name)
    if raw is None:
        raise NotAllowed(404, f"there is no {KNOWN_KINDS[known].kind} {name} in namespace {namespace}; see History")
    return FoundJob(known, raw)


def _events(viewer: Viewer, found: FoundJob) -> list[happenings.Happening]:
    """The job's events; [] if the viewer may not list events."""
    meta = found.raw["metadata"]
    try:
        listed = list(list_all(viewer.api, EVENTS, str(meta["namespace"])))
    except OperatorError:
        return []
    return happenings.of_job(listed, found.raw, role_names(found))


class Cluster(View):
    here, watch, counted = "Cluster", "cluster", "cluster"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        board, notes = self.board()
        allowed, _ = self.site.allowed(viewer, {(row.resource, row.namespace) for row in board.jobs.values()})
        sees_nodes = viewer.may("list", NODES)
        nodes = views.node_rows(board, allowed, self.site.gpu_resources) if sees_nodes else []
        workers = views.worker_rows(board, allowed)
        return self.html(
            "cluster.html",
            read_at=board.read_at,
            notes=notes,
            figures=views.figures(board) if sees_nodes else views.queue_figures(board),
            nodes=nodes,
            has_gpu=any(row["gpu"] for row in nodes),
            no_nodes="The operator sees no nodes." if sees_nodes else "Your token may not list nodes.",
            workers=workers,
            no_workers=views.idle_words(board),
        )


class History(View):
    here, watch, counted = "History", "history", "history"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        filters = self.filters()
        visible, notes = _visible_ends(self.site, viewer, filters.namespace)
        listing = views.history_list(visible, filters, self.site.now())
        return self.html("history.html", found=listing, notes=notes, kept=rows.duration(self.site.history_seconds))


class Past(View):
    here, counted = "History", "history"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        namespace, uid = path
        story = _store(self.site).story(namespace, uid)
        resource = GroupResource(story.summary.resource) if story is not None else KINDS_FIRST
        # The right is checked even if the job is unknown: a viewer without it must not learn which jobs existed.
        if resource not in KNOWN_KINDS or not viewer.may("list", resource, namespace):
            raise NotAllowed(403, f"your token may not list jobs of namespace {namespace}, nor those of the past")
        if story is None:
            raise NotAllowed(404, "the history has no such job; it keeps jobs for a time and up to a number")
        gone, now = past(story), self.site.now()
        drawn = gone.chart()
        return self.html(
            "past.html",
            name=views.shown(story.summary.name),
            namespace=namespace,
            phase=views.shown(story.summary.phase or views.NEW, 40),
            state=views.past_tone(story.summary),
            deleted=bool(story.summary.deleted_at),
            blocks=views.section_blocks(gone.sections()),
            **_parts(gone.job, gone.pods_then(), now, None if drawn is None else svg(drawn)),
        )


KINDS_FIRST = next(iter(KINDS))


_OFF = "the history is off here (TJ_HISTORY_JOBS=0)"


def _store(site: Site) -> HistoryStore:
    if site.history is None:
        raise NotAllowed(404, _OFF)
    return site.history


def _visible_ends(site: Site, viewer: Viewer, namespace: str) -> tuple[list[Summary], list[str]]:
    """(ended jobs that the viewer may list, notes about what is left out)."""
    if site.reader.ended_jobs is None:
        raise NotAllowed(404, _OFF)
    every = site.reader.ended_jobs.read()
    known = {(GroupResource(one.resource), one.namespace) for one in every if one.resource in KNOWN_KINDS}
    allowed, notes = site.allowed(viewer, known, namespace)
    return [one for one in every if (one.resource, one.namespace) in allowed], notes


class Stream(RequestHandler):
    """Server-sent events."""

    def initialize(self, site: Site) -> None:
        self.site = site
        self.gone = threading.Event()

    def prepare(self) -> None:
        check_host(self.site, self.request)

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        # nginx would otherwise buffer the stream.
        self.set_header("X-Accel-Buffering", "no")

    def on_connection_close(self) -> None:
        self.gone.set()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.finish()

    async def say(self, event: str, data: Any) -> None:
        self.write(f"event: {event}\ndata: {orjson.dumps(data).decode()}\n\n")
        await self.flush()

    def viewer(self) -> Viewer:
        return self.site.viewers.viewer(self.request.headers.get("Authorization", ""))


class Watch(Stream):
    """Sends `change` whenever the content of the view `watch` may have changed. The data is only a number."""

    counted = "events"

    async def get(self) -> None:
        watch, me = self.get_argument("watch", "")[:700], object()
        try:
            await asyncio.get_running_loop().run_in_executor(self.site.threads, self._check_viewer, watch)
        except NotAllowed as error:
            self.set_status(error.code)
            return
        except OperatorError as error:
            self.set_status(readable_error(error)[0])
            return
        if len(self.site.watchers) >= MOST_WATCHERS:
            self.set_status(503)
            return
        self.site.watchers.add(me)
        with suppress(StreamClosedError):
            try:
                await self._follow(watch)
            finally:
                self.site.watchers.discard(me)

    def _check_viewer(self, watch: str) -> None:
        """Raises NotAllowed if the cluster does not know the token, or the viewer may not read the job."""
        viewer, resource, namespace = self.viewer(), KINDS_FIRST, ""
        with suppress(Invalid):
            job = parse_key(watch)
            resource, namespace = (job.resource, job.namespace) if job.resource in KNOWN_KINDS else (resource, "")
        # An open page goes on while the API server is away: what it hears of is only that something has changed.
        with suppress(Transient):
            if not viewer.may("get", resource, namespace) and namespace:
                raise NotAllowed(403, f"your token may not read jobs of namespace {namespace}")

    async def _follow(self, watch: str) -> None:
        loop, last, beat = asyncio.get_running_loop(), None, 0.0
        while not self.gone.is_set():
            try:
                board = await loop.run_in_executor(self.site.threads, self.site.reader.refresh)
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


class Logs(Stream):
    """Sends the log lines of a job's replicas as they come, and `end` when there will be no more."""

    counted = "logs"

    async def get(self, resource: str, namespace: str, name: str) -> None:
        me = object()
        if len(self.site.logs) >= MOST_LOGS:
            await self.say("end", f"{MOST_LOGS} logs are being followed already; use `tj logs -f`")
            return
        self.site.logs.add(me)
        lines: queue.Queue[tuple[str, str]] = queue.Queue(LOG_WAITING_LINES)
        with suppress(StreamClosedError):
            try:
                await self._follow(lines, resource, namespace, name)
            finally:
                self.gone.set()
                self.site.logs.discard(me)

    async def _follow(self, lines: queue.Queue[tuple[str, str]], resource: str, namespace: str, name: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            viewer = await loop.run_in_executor(self.site.threads, self.viewer)
            found = await loop.run_in_executor(self.site.threads, lambda: find_job(viewer, resource, namespace, name))
        except (NotAllowed, OperatorError) as error:
            await self.say("end", readable_error(error)[1] if isinstance(error, OperatorError) else error.message)
            return

        def emit(label: str, line: str) -> None:
            # A slow browser makes the follower wait, until the connection is closed.
            while not self.gone.is_set():
                with suppress(queue.Full):
                    lines.put((label, views.shown(line, LOG_LINE_CHARS, "\t")), timeout=1)
                    return

        wanted, excerpt = Wanted(self.get_argument("role", "") or None), Excerpt(tail=LOG_TAIL_LINES)
        follower = Follower(viewer.cluster(), namespace, found, wanted, excerpt, emit, tells_outage=False)
        thread = threading.Thread(target=follower.run, args=(self.gone,), name="page-log", daemon=True)
        thread.start()
        beat = loop.time()
        while not self.gone.is_set():
            # Checked before the queue is emptied, so that the last lines are not lost.
            over = not thread.is_alive()
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


def _drain(lines: queue.Queue[tuple[str, str]]) -> list[tuple[str, str]]:
    batch: list[tuple[str, str]] = []
    with suppress(queue.Empty):
        while len(batch) < 500:
            batch.append(lines.get_nowait())
    return batch


class HistoryRows(View):
    """`/api/history`: the rows that the viewer may list, as JSON, for `tj history` without the operator's Redis."""

    counted = "history"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        visible, _ = _visible_ends(self.site, viewer, self.filters().namespace)
        self.set_header("Content-Type", "application/json")
        return orjson.dumps({"jobs": visible})


class Static(StaticFileHandler):
    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-cache")


class NotThere(View):
    async def get(self, *path: str) -> None:
        self.write_error(404)


def _count(handler: RequestHandler) -> None:
    """Count a request that is over. Tornado calls this for each."""
    code = handler.get_status()
    result = "ok" if code < 400 else "refused" if code < 500 else "failed"
    metrics.PAGE_REQUESTS.inc(view=getattr(handler, "counted", "other"), result=result)


def application(site: Site) -> Application:
    given = {"site": site}
    return Application(
        [
            (r"/", Jobs, given),
            (rf"/jobs/{SEGMENT}/{SEGMENT}/{SEGMENT}", Job, given),
            (r"/cluster", Cluster, given),
            (r"/history", History, given),
            (rf"/history/{SEGMENT}/{SEGMENT}", Past, given),
            (r"/api/history", HistoryRows, given),
            (r"/events", Watch, given),
            (rf"/logs/{SEGMENT}/{SEGMENT}/{SEGMENT}", Logs, given),
            (r"/static/([a-z]+\.(?:css|js|svg))", Static, {"path": str(HERE / "static")}),
        ],
        default_handler_class=NotThere,
        default_handler_args=given,
        template_path=str(HERE / "templates"),
        log_function=_count,
    )


class PageServer:
    """`port` 0: any free port, known after `listen`."""

    def __init__(self, site: Site, host: str, port: int) -> None:
        self._site = site
        self._host = host
        self.port = port
        self._server = HTTPServer(
            application(site),
            # Requests to the page have no body.
            max_body_size=0,
            max_header_size=64 << 10,
            body_timeout=10.0,
            idle_connection_timeout=120.0,
        )

    def listen(self) -> None:
        """Listen, in the running loop. Raises OSError if the port cannot be opened."""
        from tornado.netutil import bind_sockets

        sockets = bind_sockets(self.port, self._host)
        self.port = sockets[0].getsockname()[1]
        self._server.add_sockets(sockets)

    async def close(self) -> None:
        self._server.stop()
        await self._server.close_all_connections()
        # Without waiting: a silent Redis may hold a thread for long.
        for threads in (self._site.threads, self._site.side):
            threads.shutdown(wait=False, cancel_futures=True)
