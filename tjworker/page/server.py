"""The page's views over HTTP, by tornado. No request changes anything. Blocking calls run in threads.

The server renders whole views. The page's script reads a view again when an event of `/events` reports a change. The
page loads nothing from other servers, and the policy in each answer forbids it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler, StaticFileHandler

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.model import TrainingJob
from tjworker.api.resources import EVENTS, NODES
from tjworker.base import GroupResource, OperatorError, Transient
from tjworker.cli import happenings, narrative, rows
from tjworker.cli.chart import chart
from tjworker.cli.chartsvg import svg
from tjworker.cli.jobs import FoundJob, job_pods, readable, role_names, with_named
from tjworker.cli.past import past
from tjworker.history.records import Summary
from tjworker.history.store import HistoryStore
from tjworker.page import views
from tjworker.page.access import FIRST_KIND, NotAllowed, Viewer, find_job
from tjworker.page.board import Board, EndedJobs
from tjworker.page.site import HEADERS, Site, check_host
from tjworker.page.streams import Logs, Watch
from tjworker.telemetry import metrics

HERE = Path(__file__).parent
ANSWER_SECONDS = 15.0
"""A view that is not ready by then is refused, as when the API server or the history is silent and all threads wait."""
SEGMENT = r"([a-z0-9][-a-z0-9.]{0,252})"
T = TypeVar("T")


class PageView(RequestHandler):
    """A view of the page. `answer` runs in a thread."""

    here = ""
    watch = ""
    counted = "other"
    """The view's name in `metrics.PAGE_REQUESTS`."""
    slow = "the API server"
    """What a view waits for that takes too long."""

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
            self.refuse(*self.site.viewers.readable(error))
        else:
            self.finish(html)

    async def in_thread(self, ask: Callable[[], T]) -> T:
        asked = asyncio.get_running_loop().run_in_executor(self.threads, ask)
        try:
            # Only the viewer stops waiting: Python cannot stop the thread, which ends with the time-out of its own
            # request.
            return await asyncio.wait_for(asked, ANSWER_SECONDS)
        except TimeoutError:
            raise Transient(f"{self.slow} has not answered for {ANSWER_SECONDS:.0f} s") from None

    @property
    def threads(self) -> ThreadPoolExecutor:
        return self.site.threads

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
        # RFC 9110 requires the header in each 401.
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
            return board, [self.age_note(board.read_at, error)]
        notes = [] if board.synced else ["The operator is reading the cluster; jobs may be missing until it has."]
        return board, notes

    def age_note(self, read_at: float, error: OperatorError) -> str:
        return f"This is {rows.duration(self.site.now().timestamp() - read_at)} old: {error.message}"


_HEADINGS = {401: "Not signed in", 403: "Not allowed", 404: "Not found", 503: "Not available now"}


class JobsPage(PageView):
    here, watch, counted = "Jobs", "jobs", "jobs"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        board, notes = self.board()
        filters = self.filters()
        places = {(row.resource, row.namespace) for row in board.jobs.values()}
        allowed, unchecked = self.site.allowed(viewer, places, filters.namespace)
        listing = views.job_list(board, allowed, filters, self.site.now())
        return self.html("jobs.html", found=listing, notes=[*notes, *unchecked], read_at=board.read_at)


class JobPage(PageView):
    here, counted = "Jobs", "job"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        found = find_job(viewer, *path)
        raw, now = found.raw, self.site.now()
        pods = job_pods(viewer.api, found)
        seen = _events(viewer, found)
        job, errors = readable(with_named(viewer.api, found))
        sections = narrative.describe(raw, job, pods, seen, now, errors=errors)
        trainer_status = found.status.get("trainerStatus") or {}
        resource, namespace, name = path
        return self.html(
            "job.html",
            name=views.shown(name),
            namespace=namespace,
            phase=views.shown(rows.job_phase(found.status) or views.NEW, 40),
            progress=trainer_status.get("progressPercentage"),
            blocks=views.section_blocks(sections),
            log_link=f"/logs/{resource}/{namespace}/{name}",
            roles=role_names(found),
            events=views.event_rows(seen, now),
            watch=f"{resource}/{namespace}/{name}",
            lives=True,
            # A lane for each of thousands of pods would take seconds to draw, at each change of the job.
            **_parts(job, pods, now, svg(chart(job, pods[: views.SHOWN_PODS], seen, now))),
        )


def _parts(job: TrainingJob | None, pods: Sequence[Any], now: datetime, drawn: str | None) -> dict[str, Any]:
    return {
        "svg": drawn,
        "scales": [] if job is None else views.scale_rows(job, now),
        "pods": views.pod_rows(pods, now),
        "more_pods": len(pods) - views.SHOWN_PODS,
    }


def _events(viewer: Viewer, found: FoundJob) -> list[happenings.Happening]:
    """The job's events; [] if the viewer may not list events."""
    meta = found.raw["metadata"]
    try:
        listed = list(viewer.api.list_all(EVENTS, str(meta["namespace"])))
    except OperatorError:
        return []
    return happenings.of_job(listed, found.raw, role_names(found))


class ClusterPage(PageView):
    here, watch, counted = "Cluster", "cluster", "cluster"

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        board, notes = self.board()
        allowed, _ = self.site.allowed(viewer, {(row.resource, row.namespace) for row in board.jobs.values()})
        # Nodes belong to no namespace: Redis must not show them to a viewer that the API server would refuse.
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
            workers_note=views.workers_note(board),
        )


class History(PageView):
    here, watch, counted, slow = "History", "history", "history", "the history"

    @property
    def threads(self) -> ThreadPoolExecutor:
        return _list_threads(self.site)

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        filters, ended_jobs, notes = self.filters(), _ended_jobs(self.site), []
        try:
            read = ended_jobs.read()
        except OperatorError as error:
            if (last := ended_jobs.last) is None:
                raise
            read, notes = last, [self.age_note(last.read_at, error)]
        visible, unchecked = _visible(self.site, viewer, read.jobs, filters.namespace)
        listing = views.history_list(visible, filters, self.site.now())
        return self.html(
            "history.html",
            found=listing,
            notes=[*notes, *unchecked],
            read_at=read.read_at,
            kept=rows.duration(self.site.history_seconds),
        )


class PastPage(PageView):
    here, counted, slow = "History", "history", "the history"

    @property
    def threads(self) -> ThreadPoolExecutor:
        return self.site.past

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        namespace, uid = path
        story = _store(self.site).story(namespace, uid)
        resource = GroupResource(story.summary.resource) if story is not None else FIRST_KIND
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
            lives=False,
            **_parts(gone.job, gone.pods_then(), now, None if drawn is None else svg(drawn)),
        )


_OFF = "the history is off here (TJ_HISTORY_JOBS=0)"


def _store(site: Site) -> HistoryStore:
    if site.history is None:
        raise NotAllowed(404, _OFF)
    return site.history


def _ended_jobs(site: Site) -> EndedJobs:
    if site.reader.ended_jobs is None:
        raise NotAllowed(404, _OFF)
    return site.reader.ended_jobs


def _list_threads(site: Site) -> ThreadPoolExecutor:
    """For the views of the history's list."""
    # A first list is waited for as long as a job of the past, and any later one for a moment.
    jobs = site.reader.ended_jobs
    return site.past if jobs is not None and jobs.last is None else site.threads


def _visible(site: Site, viewer: Viewer, ended: Sequence[Summary], namespace: str) -> tuple[list[Summary], list[str]]:
    """(ended jobs that the viewer may list, notes about what is left out)."""
    known = {(GroupResource(one.resource), one.namespace) for one in ended if one.resource in KNOWN_KINDS}
    allowed, notes = site.allowed(viewer, known, namespace)
    return [one for one in ended if (one.resource, one.namespace) in allowed], notes


class HistoryRows(PageView):
    """`/api/history`: the rows that the viewer may list, as JSON, for `tj history` without the operator's Redis."""

    counted, slow = "history", "the history"

    @property
    def threads(self) -> ThreadPoolExecutor:
        return _list_threads(self.site)

    def answer(self, viewer: Viewer, *path: str) -> bytes:
        # A program must not take old rows for new ones, so there is an error instead of a note.
        visible, _ = _visible(self.site, viewer, _ended_jobs(self.site).read().jobs, self.filters().namespace)
        self.set_header("Content-Type", "application/json")
        return orjson.dumps({"jobs": visible})


class Static(StaticFileHandler):
    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def set_extra_headers(self, path: str) -> None:
        # Replaces `no-store`: the browser keeps the file, and asks by its ETag whether it has changed.
        self.set_header("Cache-Control", "no-cache")


class NotThere(PageView):
    async def get(self, *path: str) -> None:
        self.write_error(404)


def _count(handler: RequestHandler) -> None:
    """Count a request that is over. Tornado calls this for each."""
    code = max(handler.get_status(), getattr(handler, "outcome", 0))
    result = "ok" if code < 400 else "refused" if code < 500 else "failed"
    metrics.PAGE_REQUESTS.inc(view=getattr(handler, "counted", "other"), result=result)


def application(site: Site) -> Application:
    given = {"site": site}
    return Application(
        [
            (r"/", JobsPage, given),
            (rf"/jobs/{SEGMENT}/{SEGMENT}/{SEGMENT}", JobPage, given),
            (r"/cluster", ClusterPage, given),
            (r"/history", History, given),
            (rf"/history/{SEGMENT}/{SEGMENT}", PastPage, given),
            (r"/api/history", HistoryRows, given),
            (r"/events", Watch, given),
            (rf"/logs/{SEGMENT}/{SEGMENT}/{SEGMENT}", Logs, given),
            (r"/static/([a-z]+\.(?:css|js|svg))", Static, {"path": str(HERE / "static")}),
        ],
        # Tornado's own 404 would lack the page's headers.
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
            # A token may have 16 KiB (`access.MOST_TOKEN_CHARS`), and a proxy with a login adds headers of its own.
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
        self._site.close()
