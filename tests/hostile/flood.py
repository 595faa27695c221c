"""Hostile objects put into a cluster, the local one or the real one, and what it said to each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson

from tests.hostile.make import HUGE, Json, huge, make
from tests.hostile.schema import TREES
from tjworker.api.resources import PODS
from tjworker.kube.decode import loads
from tjworker.kube.port import HttpResponse, Transport
from tjworker.kube.resources import RESOURCES

DELETED = 3
"""Of so many pods one is deleted again, with the grace that it asks for."""
SHOWN = 12
"""Reasons of refusals, the most frequent."""
STATUS_PATCH = "application/merge-patch+json"


class Flood:
    """`answers` counts, for each kind: objects accepted and refused, statuses accepted and refused."""

    def __init__(self, transport: Transport, namespace: str, owner_uid: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._owner_uid = owner_uid
        self.answers: dict[str, Counter[str]] = {resource: Counter() for resource in TREES}
        self.reasons: Counter[str] = Counter()
        """Why something was refused, in short."""
        self.broken: list[str] = []
        """Answers 5xx of the cluster itself: it is the one that broke."""
        self.huge: list[str] = []
        """What was said to each of the biggest."""
        self._made: list[str] = []

    def pour(self, seed: int, each: int, then: Callable[[], object] = lambda: None) -> None:
        """`then` is called after every tenth object of a kind."""
        for n in range(each):
            for resource in TREES:
                obj = make(resource, seed + n, namespace=self._namespace, owner_uid=self._owner_uid)
                self._put(resource, obj, delete=resource == PODS and n % DELETED == 0)
            if n % 10 == 9:
                then()
        for resource in TREES:
            for how in HUGE:
                self._put(
                    resource, huge(resource, how, namespace=self._namespace, owner_uid=self._owner_uid), delete=False
                )
            then()

    def drain(self) -> None:
        """Delete what was made, at once."""
        for path in self._made:
            self._send("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def told(self) -> str:
        rows = [f"{'kind':40} accepted refused  status accepted refused"]
        for resource, n in self.answers.items():
            counts = [n["object accepted"], n["object refused"], n["status accepted"], n["status refused"]]
            rows.append(f"{resource:40} {counts[0]:8} {counts[1]:7}  {counts[2]:15} {counts[3]:7}")
        reasons = [f"    {n:4} {why}" for why, n in self.reasons.most_common(SHOWN)]
        return "\n".join([*rows, *reasons, *(f"    {one}" for one in self.huge)])

    def _put(self, resource: str, obj: Json, *, delete: bool) -> None:
        row = RESOURCES[resource]  # type: ignore[index]
        status = obj.pop("status", None)
        if not self._count(resource, "object", "POST", row.path(self._namespace), obj):
            return
        path = row.path(self._namespace, obj["metadata"]["name"])
        self._made.append(path)
        if status is not None:
            self._count(resource, "status", "PATCH", f"{path}/status", {"status": status})
        if delete:
            self._send("DELETE", path)

    def _count(self, resource: str, what: str, method: str, path: str, body: Json) -> bool:
        answer = self._send(method, path, body)
        accepted = answer.status < 300
        self.answers[resource][f"{what} {'accepted' if accepted else 'refused'}"] += 1
        if what == "object" and body["metadata"]["name"].endswith(HUGE):
            self.huge.append(f"{resource} {body['metadata']['name']}: {answer.status}")
        if not accepted:
            why = str(loads(answer.body).get("message")).partition("is invalid: ")
            self.reasons[f"{resource} {what}: {(why[2] or why[0])[:150]}"] += 1
        return accepted

    def _send(self, method: str, path: str, body: Json | None = None) -> HttpResponse:
        kind = STATUS_PATCH if method == "PATCH" else "application/json"
        raw = None if body is None else to_bytes(body)
        answer = self._transport.request(method, path, body=raw, content_type=kind, timeout_seconds=60)
        if answer.status >= 500:
            self.broken.append(f"{method} {path}: {answer.status} {answer.body[:300]!r}")
        return answer


def to_bytes(obj: Json) -> bytes:
    """JSON of any depth; the text of `json` would be cut short by its own recursion."""
    try:
        return orjson.dumps(obj)
    except orjson.JSONEncodeError:
        return _deep(obj).encode()


def _deep(value: Any) -> str:
    """Without recursion: each container is opened, its items follow, then it is closed."""
    out: list[str] = []
    todo: list[Any] = [("value", value)]
    while todo:
        what, one = todo.pop()
        if what == "text":
            out.append(one)
        elif isinstance(one, dict):
            parts: list[Any] = [("text", "{")]
            for n, (key, inner) in enumerate(one.items()):
                parts += [("text", f"{',' if n else ''}{orjson.dumps(key).decode()}:"), ("value", inner)]
            todo += reversed([*parts, ("text", "}")])
        elif isinstance(one, list):
            parts = [("text", "[")]
            for n, inner in enumerate(one):
                parts += [("text", "," if n else ""), ("value", inner)]
            todo += reversed([*parts, ("text", "]")])
        else:
            out.append(orjson.dumps(one).decode())
    return "".join(out)
