"""Records Kubernetes Events on jobs, for their owners. Best effort: a pass never waits for an event.

`event` puts the event into a bounded queue and returns; a thread sends it. The thread starts with the first event, and
so after any fork. A full queue or a failed request loses the event. The name of an Event is made from the job's UID and
the message, so each worker that repeats the message raises `count` of the same object. As in client-go's correlator,
more than 10 different messages of one reason in 10 minutes become one "(combined from similar events)", and an object
that has used up its burst of 25 gets one event in 5 minutes.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.resources import EVENTS
from tjworker.base import Conflict, GroupResource, OperatorError
from tjworker.reconcile.plan import EventType

log = structlog.get_logger(__name__)

COMPONENT = "trainingjob-operator"
QUEUE_LENGTH = 1_000
# The figures of client-go's correlator (`maxLruCacheEntries`, `defaultSpamBurst`, `defaultSpamQPS`,
# `defaultAggregateMaxEvents` and `defaultAggregateIntervalInSeconds` in tools/record/events_cache.go): users and
# dashboards know its limits.
OBJECTS_REMEMBERED = 4_096
BURST = 25
REFILL_SECONDS = 300.0
SIMILAR_MESSAGES = 10
SIMILAR_SECONDS = 600.0
MESSAGE_CHARS = 1_000
"""The API server refuses an Event with a message of more than 1,024 characters."""
COMBINED = "(combined from similar events): "


class EventApi(Protocol):
    """The part of KubeClient that is used here: `telemetry` and `kube` do not import each other."""

    def get(self, resource: GroupResource, namespace: str, name: str) -> dict[str, Any] | None: ...
    def create(self, resource: GroupResource, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]: ...
    def merge_patch(
        self, resource: GroupResource, namespace: str, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]: ...


@dataclass(slots=True)
class _Spam:
    """The recent events of one job."""

    tokens: float = BURST
    refilled_at: float = 0.0
    messages: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)


class Correlator:
    """Decides which events of an object are sent, and with which message. Pure: `now` is an argument."""

    def __init__(self) -> None:
        self._objects: OrderedDict[str, _Spam] = OrderedDict()

    def message(self, uid: str, kind: str, reason: str, message: str, now: float) -> str | None:
        """The message to send; None if the object has used up its limit. `now`: Unix seconds."""
        # The least recently used object is forgotten. It only gets its burst again.
        spam = self._objects.setdefault(uid, _Spam(refilled_at=now))
        self._objects.move_to_end(uid)
        if len(self._objects) > OBJECTS_REMEMBERED:
            self._objects.popitem(last=False)
        recent = spam.messages.setdefault((kind, reason), {})
        for old in [text for text, at in recent.items() if now - at > SIMILAR_SECONDS]:
            del recent[old]
        if message in recent or len(recent) < SIMILAR_MESSAGES:
            recent[message] = now
        else:
            # Each further message would make another Event object in etcd.
            message = COMBINED + message
        # In client-go's order: messages are combined first, and the result counts for the limit.
        spam.tokens = min(BURST, spam.tokens + (now - spam.refilled_at) / REFILL_SECONDS)
        spam.refilled_at = now
        if spam.tokens < 1:
            return None
        spam.tokens -= 1
        return message


class EventRecorder:
    """Records events. Thread-safe."""

    def __init__(self, api: EventApi, *, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._correlator = Correlator()
        self._lock = threading.Lock()
        self._queue: queue.Queue[tuple[str, Mapping[str, Any]]] = queue.Queue(QUEUE_LENGTH)
        self._thread: threading.Thread | None = None

    def event(self, job: TrainingJob | InvalidJob, event_type: EventType, reason: str, message: str) -> None:
        """Record an event on the job. Never raises, and never waits for the API server."""
        now = self._clock()
        with self._lock:
            text = self._correlator.message(job.uid, event_type, reason, message, now)
        if text is not None:
            # All combined events of one reason share one Event object.
            about = message if text == message else ""
            body = self._build_event(job, event_type, reason, text, now, about=about)
            self._hand_over(job.name.namespace, body)

    def _hand_over(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Hand the event over to the thread."""
        self._start_thread()
        # A full queue loses the event: the API server has not answered for long.
        with suppress(queue.Full):
            self._queue.put_nowait((namespace, body))

    def flush(self, timeout_seconds: float = 2.0) -> bool:
        """Wait until all events are sent; for the end of a process. False if the time was too short."""
        deadline = time.monotonic() + timeout_seconds
        with self._queue.all_tasks_done:
            while self._queue.unfinished_tasks:
                remaining_seconds = deadline - time.monotonic()
                if remaining_seconds <= 0:
                    return False
                self._queue.all_tasks_done.wait(remaining_seconds)
        return True

    def _start_thread(self) -> None:
        with self._lock:
            # A forked child inherits the object, but not the thread, and finds it not alive.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._send_all, name="events", daemon=True)
                self._thread.start()

    def _send_all(self) -> None:
        while True:
            namespace, body = self._queue.get()
            try:
                self._send_event(namespace, body)
            finally:
                # `flush` counts on it, also for an event that was lost.
                self._queue.task_done()

    def _send_event(self, namespace: str, body: Mapping[str, Any]) -> None:
        try:
            try:
                self._api.create(EVENTS, namespace, body)
            except Conflict:
                # The name is made from job and message: another worker, or an earlier process, has reported the same.
                self._count_again(namespace, body)
        except OperatorError as error:
            # Not tried again: while the API server is away, retries would hold up the queue until it is full.
            log.debug("cannot record an event", reason=body["reason"], error=error.message)

    def _count_again(self, namespace: str, body: Mapping[str, Any]) -> None:
        """Count an existing Event once more. Two workers at the same time may count only once, which does no harm."""
        name = body["metadata"]["name"]
        known = self._api.get(EVENTS, namespace, name)
        if known is None:
            # It has just expired: events live for an hour.
            self._api.create(EVENTS, namespace, body)
            return
        patch = {
            "count": int(known.get("count") or 1) + 1,
            "lastTimestamp": body["lastTimestamp"],
            "message": body["message"],
        }
        # Without a resourceVersion: a lost count does no harm, and a conflict would cost two more requests.
        self._api.merge_patch(EVENTS, namespace, name, patch)

    def _build_event(
        self, job: TrainingJob | InvalidJob, event_type: str, reason: str, message: str, now: float, *, about: str
    ) -> dict[str, Any]:
        """`about`: the part of the Event's name by which it differs from others of its reason."""
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        # By job and message, where client-go puts the time into the name: workers that repeat a message raise the count
        # of the same object, and no process has to remember the names of its Events.
        digest = hashlib.sha256("\0".join((job.uid, event_type, reason, about)).encode()).hexdigest()[:16]
        # A name has at most 253 characters.
        name = f"{job.name.name[:230]}.{digest}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": job.name.namespace},
            "involvedObject": {
                "apiVersion": job.api_version,
                "kind": job.kind,
                "namespace": job.name.namespace,
                "name": job.name.name,
                # `kubectl describe` selects Events by this field, so that Events of an earlier job of the name are not
                # shown.
                "uid": job.uid,
                "resourceVersion": str(job.resource_version),
            },
            "type": event_type,
            "reason": reason,
            "message": message[:MESSAGE_CHARS],
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            # `source` is the field of core/v1, which `kubectl describe` shows as FROM; the other two are those of
            # events.k8s.io.
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
        }
