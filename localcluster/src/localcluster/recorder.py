"""Events as Kubernetes' own components write them: one object for a run of equal events, counted, oldest ones
forgotten.

Best effort by design: an event that cannot be written is dropped, never retried and never raised. Running an action
twice counts the same event twice, as client-go does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from localcluster.client import ApiError, Client
from localcluster.objects import micro_timestamp, timestamp
from localcluster.wire import Json

REMEMBERED = 4096
SIMILAR_WINDOW_SECONDS = 600.0
BURST = 25
REFILL_SECONDS = 300.0
"""client-go's spam filter: 25 events an object and source at once, then one in five minutes."""


class Recorder:
    """Writes to the core/v1 Events of the object's namespace; without a client nowhere."""

    def __init__(self, client: Client | None, clock: Callable[[], float], component: str, host: str = "") -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._host = host
        self._known: OrderedDict[tuple[str, ...], tuple[str, int, float]] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._serial = 0

    def normal(self, obj: Json, reason: str, message: str, **more: Any) -> None:
        self._write_event(obj, "Normal", reason, message, more)

    def warning(self, obj: Json, reason: str, message: str, **more: Any) -> None:
        self._write_event(obj, "Warning", reason, message, more)

    def _write_event(self, obj: Json, kind: str, reason: str, message: str, more: dict[str, Any]) -> None:
        if self._client is None:
            return
        meta = obj["metadata"]
        namespace = meta.get("namespace") or "default"
        field_path = more.get("field_path", "")
        now = self._clock()
        if not self._take_token(str(meta.get("uid", "")), now):
            return
        key = (str(meta.get("uid", "")), kind, reason, message, field_path)
        known = self._known.get(key)
        path = f"/api/v1/namespaces/{namespace}/events"
        try:
            if known is not None and now - known[2] < SIMILAR_WINDOW_SECONDS:
                name, count, _ = known
                self._remember(key, (name, count + 1, now))
                self._client.patch(f"{path}/{name}", {"count": count + 1, "lastTimestamp": timestamp(now)})
                return
            self._serial += 1
            name = f"{meta['name'][:200]}.{int(now * 1_000_000) * 1000 + self._serial % 1000:x}"
            self._remember(key, (name, 1, now))
            self._client.create(path, self._build_event(obj, namespace, name, kind, reason, message, now, more))
        except ApiError:
            self._known.pop(key, None)

    def _build_event(
        self,
        obj: Json,
        namespace: str,
        name: str,
        kind: str,
        reason: str,
        message: str,
        now: float,
        more: dict[str, Any],
    ) -> Json:
        meta = obj["metadata"]
        involved: Json = {
            "kind": obj.get("kind", ""),
            "namespace": meta.get("namespace", ""),
            "name": meta["name"],
            "uid": meta.get("uid", ""),
            "apiVersion": obj.get("apiVersion", ""),
            "resourceVersion": meta.get("resourceVersion", ""),
        }
        if more.get("field_path"):
            involved["fieldPath"] = more["field_path"]
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {k: v for k, v in involved.items() if v},
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "reportingComponent": self._component,
            "reportingInstance": self._host,
        }
        if "action" in more:
            # The scheduler writes through events.k8s.io: no count, an action and a micro-second time instead.
            return {
                **body,
                "action": more["action"],
                "eventTime": micro_timestamp(now),
                "reportingInstance": self._host or self._component,
                "firstTimestamp": None,
                "lastTimestamp": None,
                "source": {},
            }
        source = {"component": self._component, **({"host": self._host} if self._host else {})}
        return {**body, "source": source, "count": 1, "firstTimestamp": timestamp(now), "lastTimestamp": timestamp(now)}

    def _remember(self, key: tuple[str, ...], value: tuple[str, int, float]) -> None:
        self._known[key] = value
        self._known.move_to_end(key)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _take_token(self, uid: str, now: float) -> bool:
        tokens, since = self._tokens.pop(uid, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - since) / REFILL_SECONDS)
        allowed = tokens >= 1.0
        self._tokens[uid] = (tokens - 1.0 if allowed else tokens, now)
        while len(self._tokens) > REMEMBERED:
            self._tokens.popitem(last=False)
        return allowed
