"""Logs of a job's pods, line by line, through the API server. Reads only; threads end with their follower."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from tjworker.api import labels, naming
from tjworker.api.kinds.base import seen_status
from tjworker.api.resources import PODS
from tjworker.base import JsonDict, OperatorError, Transient
from tjworker.cli.errors import report_outage
from tjworker.cli.informer import Informer
from tjworker.cli.jobs import FoundJob, main_container, pods_selector, role_names

if TYPE_CHECKING:
    from tjworker.cli.cluster import Cluster
    from tjworker.kube.port import Transport

Emit = Callable[[str, str], None]
"""(label, line). May be called from several threads, one at a time."""
# A program may write nothing for hours. The read time-out of other requests would end its log.
_DAY_SECONDS = 86_400.0
STILL_SECONDS = 5.0
"""After the job's end, a log without a line in this time is over: its container runs on, or its node is away."""


@dataclass(frozen=True, slots=True)
class Wanted:
    role: str | None = None
    index: int | None = None
    pod: str | None = None
    """Its name."""

    def takes(self, role: str, index: str, pod: str) -> bool:
        return (
            self.role in (None, role) and (self.index is None or str(self.index) == index) and self.pod in (None, pod)
        )


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Which lines of each log."""

    tail: int | None = None
    since_seconds: int | None = None
    timestamps: bool = False
    previous: bool = False
    """True for the log of the container's previous run."""

    def query(self) -> dict[str, str]:
        """The query of the API server's pods/log."""
        asked = {
            "tailLines": self.tail,
            "sinceSeconds": self.since_seconds,
            "timestamps": "true" if self.timestamps else None,
            "previous": "true" if self.previous else None,
        }
        return {name: str(value) for name, value in asked.items() if value is not None}


WHOLE = Excerpt()


@dataclass(frozen=True, slots=True)
class Target:
    """One container's present run."""

    label: str
    pod: str
    uid: str
    container: str
    started: bool
    """There is something to read: the container runs or has ended."""
    run: int
    """The container's restart count: each run has its own log."""

    @property
    def key(self) -> tuple[str, str, int]:
        return self.uid, self.container, self.run


def targets(pod: JsonDict, wanted: Wanted, main: str | None = None) -> list[Target]:
    """The counted containers of a pod, [] when the pod is not wanted. `main`: as in `naming.counted_names`."""
    metadata = pod["metadata"]
    marks = metadata.get("labels") or {}
    role, index = str(marks.get(labels.REPLICA_NAME, "")), str(marks.get(labels.REPLICA_INDEX, ""))
    if not wanted.takes(role, index, str(metadata["name"])):
        return []
    names = naming.counted_names([str(c.get("name")) for c in (pod.get("spec") or {}).get("containers") or []], main)
    states = {c.get("name"): c for c in (pod.get("status") or {}).get("containerStatuses") or []}
    label = f"{role}-{index}" if role and index else metadata["name"]
    found = []
    for name in names:
        status = states.get(name) or {}
        started = bool((status.get("state") or {}).keys() & {"running", "terminated"})
        shown = f"{label}/{name}" if len(names) > 1 else label
        found.append(
            Target(shown, metadata["name"], str(metadata["uid"]), name, started, int(status.get("restartCount") or 0))
        )
    return found


def _by_index(pod: JsonDict) -> tuple[int, str]:
    """Puts pods without an index last."""
    index = str((pod["metadata"].get("labels") or {}).get(labels.REPLICA_INDEX, ""))
    return int(index) if index.isascii() and index.isdigit() and len(index) < 10 else 1 << 31, str(
        pod["metadata"]["name"]
    )


def last_words(job: FoundJob, wanted: Wanted) -> Iterator[tuple[str, str]]:
    """(label, line) of the ends of failed pods' logs in the job's status, the oldest first."""
    for failure in reversed(job.status.get("failures") or []):
        pod = str(failure.get("pod"))
        role, index = next(
            (
                (role, int(index))
                for role in role_names(job)
                for index in [pod.rpartition("-")[2]]
                if index.isdecimal() and naming.pod_name(job.raw["metadata"]["name"], role, int(index)) == pod
            ),
            ("", -1),
        )
        if not wanted.takes(role, str(index), pod):
            continue
        for line in str(failure.get("logTail") or "").splitlines():
            yield f"{role}-{index}" if role else pod, line


def read_log(
    transport: Transport,
    namespace: str,
    target: Target,
    excerpt: Excerpt,
    *,
    follow: bool = False,
    on_open: Callable[[Any], None] | None = None,
) -> Iterator[str]:
    """The lines; with `follow` until the container's end. A log that is not there (yet, any more) has no lines.
    `on_open` gets the stream, which another thread may close."""
    query = {"container": target.container} | excerpt.query()
    if follow:
        query["follow"] = "true"
    path = f"/api/v1/namespaces/{namespace}/pods/{target.pod}/log"
    try:
        stream = transport.stream(path, query=query, read_timeout_seconds=_DAY_SECONDS)
        if on_open:
            on_open(stream)
        try:
            # 400: the container has not started, or its image cannot be pulled. 404: the pod is gone. The informer
            # reports the next run.
            if stream.status != 200:
                return
            for batch in stream.lines():
                for line in batch:
                    # A program can write any bytes.
                    yield line.decode("utf-8", "replace")
        finally:
            stream.close()
    # A log that breaks off is not begun again: the API server can resume it only at a whole second, and lines would be
    # lost or come twice.
    except Transient:
        return


@dataclass(slots=True)
class _LogReader:
    """A reader of one log, on its own thread."""

    thread: threading.Thread
    moved_at: float
    emitting: bool = False
    """It has a line that is not printed yet: others print, or the reader of stdout (a pager) is slow."""


class Follower:
    """Follows every wanted container of a job, present and future."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        job: FoundJob,
        wanted: Wanted,
        excerpt: Excerpt,
        emit: Emit,
        *,
        tells_outage: bool = True,
        most: int | None = None,
    ) -> None:
        """`tells_outage`: says on stderr when the API server is away; of several followers one is enough. `most`: how
        many logs are followed at once, each over a connection to the API server. At the start those of the lowest
        indices are; a pod that is deleted makes room."""
        self._most = most
        self._followed: set[str] = set()
        self._left_out: set[str] = set()
        """Labels. The second set is empty without `most`."""
        self._tells_outage = tells_outage
        self._cluster, self._namespace, self._job, self._wanted = cluster, namespace, job, wanted
        self._main = main_container(job)
        self._excerpt, self._emit = excerpt, emit
        self._lock = threading.Lock()
        self._readers_lock = threading.Lock()
        """Guards the three below: the informer's thread adds pods and, at the end, the caller's does."""
        self._readers: dict[tuple[str, str, int], _LogReader] = {}
        self._newest: dict[str, str] = {}
        """Label -> UID of the pod that was read last under it."""
        self._all_found = False
        self._streams: list[Any] = []
        self._stopped = False
        self._reader_gone = False

    def run(self, stop: threading.Event | None = None) -> None:
        """Returns when the job has ended (or is gone, or `stop` is set) and every log has been read to its end. Raises
        BrokenPipeError when the reader of stdout has gone (`tj logs -f | head`)."""
        stop = stop or threading.Event()
        name, uid = self._job.raw["metadata"]["name"], self._job.raw["metadata"]["uid"]
        with Informer(
            self._cluster.api,
            PODS,
            self._namespace,
            # The API server cannot select by owner, and the owner of a TrainingJob's pods is a ReplicaSet or a batch
            # Job.
            label_selector=pods_selector(name),
            on_change=self._on_pod,
            order=_by_index,
            on_outage=report_outage if self._tells_outage else None,
        ):
            # Asked twice a second: a watch of the job would be another connection for a single answer.
            while not stop.is_set() and not self._reader_gone and not self._ended(name, uid):
                stop.wait(0.5)
        if self._reader_gone:
            raise BrokenPipeError
        runs_on = self._look_again(name)
        with self._readers_lock:
            self._all_found = True
        if not stop.is_set():
            self._read_to_the_ends(runs_on)
        self._close()
        if self._reader_gone:
            raise BrokenPipeError

    def _read_to_the_ends(self, runs_on: set[tuple[str, str, int]]) -> None:
        """However long that takes, of those that have an end; of the others what they had said by now."""
        began = monotonic()
        for key, reader in self._readers.items():
            while reader.thread.is_alive() and not self._reader_gone:
                # What runs on after the end of its job, such as a sidecar, may never end its log.
                moved_at = began if key in runs_on else monotonic() if reader.emitting else max(began, reader.moved_at)
                if monotonic() - moved_at > STILL_SECONDS:
                    break
                reader.thread.join(timeout=0.1)

    def _close(self) -> None:
        """Nothing is printed after this. A process that ends while a thread prints is aborted by the interpreter."""
        with self._lock:
            self._stopped = True
            # Wakes the readers, which may wait for their next line for a day.
            for stream in self._streams:
                stream.close()
        for reader in self._readers.values():
            reader.thread.join(timeout=1)

    def _ended(self, name: str, uid: str) -> bool:
        try:
            now = self._cluster.api.get(self._job.resource, self._namespace, name)
        except OperatorError:
            return False
        # Our own status, wherever its kind has it.
        return now is None or now["metadata"]["uid"] != uid or bool(seen_status(now).get("completionTime"))

    def _look_again(self, name: str) -> set[tuple[str, str, int]]:
        """The job may have ended before the informer had seen its last pods, or any. Returns the containers that go on
        running: their logs may have no end."""
        runs_on = set()
        with contextlib.suppress(OperatorError):
            pods = self._cluster.api.list_all(PODS, self._namespace, label_selector=pods_selector(name))
            for pod in sorted(pods, key=_by_index):
                self._on_pod("ADDED", pod)
                # A pod that is being deleted has an end, that of its grace period.
                if (pod.get("status") or {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
                    runs_on |= {target.key for target in targets(pod, self._wanted, self._main)}
        return runs_on

    def _on_pod(self, kind: str, pod: JsonDict) -> None:
        with self._readers_lock:
            # The threads are being joined: a log that is begun now would be printed after the end.
            if self._all_found:
                return
            for target in targets(pod, self._wanted, self._main):
                if kind == "DELETED":
                    self._make_room(target)
                elif target.started and target.key not in self._readers and self._has_room(target.label):
                    replaced = self._newest.get(target.label, target.uid) != target.uid
                    self._newest[target.label] = target.uid
                    thread = threading.Thread(
                        target=self._follow, args=(target, replaced), name=f"log-{target.label}", daemon=True
                    )
                    self._readers[target.key] = _LogReader(thread, monotonic())
                    thread.start()

    @property
    def left_out(self) -> int:
        """How many logs there are that are not followed, because `most` are."""
        return len(self._left_out)

    def _has_room(self, label: str) -> bool:
        if label not in self._followed and self._most is not None and len(self._followed) >= self._most:
            self._left_out.add(label)
            return False
        self._left_out.discard(label)
        self._followed.add(label)
        return True

    def _make_room(self, target: Target) -> None:
        # A pod that took its place meanwhile has the same label.
        if self._newest.get(target.label, target.uid) == target.uid:
            self._followed.discard(target.label)
            self._left_out.discard(target.label)

    def _follow(self, target: Target, replaced: bool) -> None:
        reader = self._readers[target.key]
        if replaced and not self._print(target.label, f"--- replaced: what follows is of a new pod {target.pod} ---"):
            return
        for line in read_log(
            self._cluster.transport, self._namespace, target, self._excerpt, follow=True, on_open=self._opened
        ):
            reader.emitting = True
            if not self._print(target.label, line):
                return
            reader.moved_at, reader.emitting = monotonic(), False

    def _print(self, label: str, line: str) -> bool:
        """False when nothing more is to be printed."""
        with self._lock:
            if self._stopped:
                return False
            try:
                self._emit(label, line)
            except BrokenPipeError:
                # An exception in this thread would only print a traceback. `run` raises it for the caller.
                self._stopped = self._reader_gone = True
                return False
        return True

    def _opened(self, stream: Any) -> None:
        with self._lock:
            self._streams.append(stream)
            if self._stopped:  # it was being opened while the others were closed
                stream.close()
