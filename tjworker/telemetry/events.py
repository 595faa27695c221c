"""Kubernetes Events on the job, for its owner: best effort, never in the way of a pass.

`event` puts the event into a bounded queue and returns; a thread, started with the first event and so after any fork,
sends it. A full queue or a failed request costs the event and nothing else. One cause is one Event object: its name is
made from the job's UID and the message, so a repeat by any worker raises `count` on the same object. As client-go's
correlator does, more than 10 different messages of one reason in 10 minutes become one "(combined from similar
events)", and an object that has used up its burst of 25 gets one event in 5 minutes.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
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
OBJECTS_REMEMBERED = 4_096
BURST = 25
REFILL_SECONDS = 300.0
SIMILAR_MESSAGES = 10
SIMILAR_SECONDS = 600.0
MESSAGE_CHARS = 1_000
"""The API server refuses an Event with a message over 1,024."""
COMBINED = "(combined from similar events): "


class EventApi(Protocol):
    """The part of KubeClient used here: telemetry and kube know nothing of each other."""

    def get(self, resource: GroupResource, namespace: str, name: str) -> dict[str, Any] | None: ...
    def create(self, resource: GroupResource, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]: ...
    def merge_patch(
        self, resource: GroupResource, namespace: str, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]: ...


@dataclass(slots=True)
class _Spam:
    """Recent events of one job."""

    tokens: float = BURST
    refilled_at: float = 0.0
    messages: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)


class Correlator:
    """Which events of an object go out, and with which message. Pure: `now` is an argument."""

    def __init__(self) -> None:
        self._objects: OrderedDict[str, _Spam] = OrderedDict()

    def message(self, uid: str, kind: str, reason: str, message: str, now: float) -> str | None:
        """The message to send, None when this object is over its limit."""
        spam = self._objects.setdefault(uid, _Spam(refilled_at=now))
        self._objects.move_to_end(uid)
        if len(self._objects) > OBJECTS_REMEMBERED:
            self._objects.popitem(last=False)
        said = spam.messages.setdefault((kind, reason), {})
        for old in [text for text, at in said.items() if now - at > SIMILAR_SECONDS]:
            del said[old]
        if message in said or len(said) < SIMILAR_MESSAGES:
            said[message] = now
        else:
            message = COMBINED + message
        spam.tokens = min(BURST, spam.tokens + (now - spam.refilled_at) / REFILL_SECONDS)
        spam.refilled_at = now
        if spam.tokens < 1:
            return None
        spam.tokens -= 1
        return message


class EventRecorder:
    """Thread-safe. `background=False` sends at once, for tests and simulation, and ignores the same errors."""

    def __init__(
        self,
        api: EventApi,
        *,
        component: str = COMPONENT,
        instance: str = "",
        clock: Callable[[], float] = time.time,
        background: bool = True,
    ) -> None:
        self._api = api
        self._component = component
        self._instance = instance or component
        self._clock = clock
        self._background = background
        self._correlator = Correlator()
        self._lock = threading.Lock()
        self._queue: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue(QUEUE_LENGTH)
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def event(self, job: TrainingJob | InvalidJob, event_type: EventType, reason: str, message: str) -> None:
        """Record an event on the job. Never raises; with `background` never waits for the API server."""
        now = self._clock()
        with self._lock:
            text = self._correlator.message(job.uid, event_type, reason, message, now)
        if text is None:
            self.dropped += 1
            return
        body = self._body(job, event_type, reason, text, now)
        if not self._background:
            self._send(job.name.namespace, body)
            return
        self._start()
        try:
            self._queue.put_nowait((job.name.namespace, body))
        except queue.Full:
            self.dropped += 1

    def flush(self, timeout_seconds: float = 2.0) -> bool:
        """Wait until the queue is sent, before a process ends. False when time ran out."""
        deadline = time.monotonic() + timeout_seconds
        with self._queue.all_tasks_done:
            while self._queue.unfinished_tasks:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._queue.all_tasks_done.wait(left)
        return True

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            namespace, body = self._queue.get()
            try:
                self._send(namespace, body)
            finally:
                self._queue.task_done()

    def _send(self, namespace: str, body: dict[str, Any]) -> None:
        try:
            try:
                self._api.create(EVENTS, namespace, body)
            except Conflict:
                self._repeat(namespace, body)
        except OperatorError as error:
            self.dropped += 1
            log.debug("cannot record an event", reason=body["reason"], error=error.message)

    def _repeat(self, namespace: str, body: dict[str, Any]) -> None:
        """The Event exists: count it once more. Two workers at the same time may count once; that does no harm."""
        name = body["metadata"]["name"]
        known = self._api.get(EVENTS, namespace, name)
        if known is None:
            self._api.create(EVENTS, namespace, body)  # it has just expired (events live for an hour)
            return
        patch = {
            "count": int(known.get("count") or 1) + 1,
            "lastTimestamp": body["lastTimestamp"],
            "message": body["message"],
        }
        self._api.merge_patch(EVENTS, namespace, name, patch)

    def _body(
        self, job: TrainingJob | InvalidJob, event_type: str, reason: str, message: str, now: float
    ) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = "" if message.startswith(COMBINED) else message
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
                "uid": job.uid,
                "resourceVersion": str(job.resource_version),
            },
            "type": event_type,
            "reason": reason,
            "message": message[:MESSAGE_CHARS],
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
