"""What all handlers of the page share: its stores, viewers and threads, its headers, and which names it answers to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

from tornado.web import HTTPError, RequestHandler

from tjworker.base import GroupResource, OperatorError
from tjworker.cli import rows
from tjworker.history.store import HistoryStore
from tjworker.page.access import Viewer, Viewers
from tjworker.page.board import BoardReader
from tjworker.page.places import StreamPlaces
from tjworker.telemetry import metrics
from tjworker.telemetry.metrics import Sample

THREADS = 16
SIDE_THREADS = 8
"""For concurrent requests of one of the other threads: in the same pool, such threads could all wait for each other."""
PAST_THREADS = 4
"""For jobs of the past: a history that is silent for long must not hold up the other views."""
MOST_WATCHERS, MOST_WATCHERS_EACH = 500, 50
MOST_LOGS, MOST_LOGS_EACH = 24, 4
"""In all, and of one viewer. A followed log holds up to `streams.MOST_FOLLOWED` connections to the API server."""
HEADERS = {
    # Templates escape texts of the cluster. If an escape were missing, a browser would still run no foreign script.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # After a viewer has signed out, the browser's cache must not show the jobs to the next user of the machine.
    "Cache-Control": "no-store",
}
OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """The objects that the handlers use."""

    reader: BoardReader
    history: HistoryStore | None
    viewers: Viewers
    gpu_resources: Sequence[str] = ()
    flower: str = ""
    history_seconds: float = 0.0
    now: Callable[[], datetime] = rows.utc_now
    threads: ThreadPoolExecutor = dataclasses.field(default_factory=lambda: ThreadPoolExecutor(THREADS, "page"))
    side: ThreadPoolExecutor = dataclasses.field(default_factory=lambda: ThreadPoolExecutor(SIDE_THREADS, "ask"))
    past: ThreadPoolExecutor = dataclasses.field(default_factory=lambda: ThreadPoolExecutor(PAST_THREADS, "past"))
    watchers: StreamPlaces = dataclasses.field(default_factory=lambda: StreamPlaces(MOST_WATCHERS, MOST_WATCHERS_EACH))
    logs: StreamPlaces = dataclasses.field(default_factory=lambda: StreamPlaces(MOST_LOGS, MOST_LOGS_EACH))

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

    def close(self) -> None:
        # Without waiting: a silent Redis may hold a thread for long.
        for threads in (self.threads, self.side, self.past):
            threads.shutdown(wait=False, cancel_futures=True)


class SiteHandler(RequestHandler):
    """A request to the page."""

    def initialize(self, site: Site) -> None:
        self.site = site

    def prepare(self) -> None:
        # A foreign page whose name points to 127.0.0.1 (DNS rebinding) could read everything. Its requests carry its
        # own name in `Host`.
        if self.site.viewers.names_no_one and self.request.host_name not in OWN_NAMES:
            raise HTTPError(403)

    def set_default_headers(self) -> None:
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def viewer(self) -> Viewer:
        """Raises NotAllowed."""
        return self.site.viewers.viewer(self.request.headers.get("Authorization", ""))
