"""An operator that asks the API server for something else than it should: mistakes by what they look like from outside,
whatever code they would be in. Each is put in by a MonkeyPatch and goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tests.simulation.transport import SimTransport
from tjworker.kube.port import HttpResponse

Json = dict[str, Any]
Mistake = Callable[[pytest.MonkeyPatch], None]
Really = Callable[[str, str, Json], HttpResponse]
"""How a request is really made: method, path, body."""
Meddle = Callable[[Really, str, str, Json], HttpResponse | None]
"""What a write of the operator is answered; None: it goes out, with what is the body by now."""


def writes(meddle: Meddle) -> Mistake:
    """The operator asks the API server for something else than it should."""

    def put_in(patch: pytest.MonkeyPatch) -> None:
        request = SimTransport.request

        def spoilt(self: SimTransport, method: str, path: str, **told: Any) -> HttpResponse:
            if method == "GET" or "/events" in path or self.actor.startswith("watcher"):
                return request(self, method, path, **told)
            body = orjson.loads(told.pop("body", None) or b"{}")

            def really(method: str, path: str, body: Json) -> HttpResponse:
                return request(self, method, path, **{**told, "body": orjson.dumps(body)})

            return meddle(really, method, path, body) or really(method, path, body)

        patch.setattr(SimTransport, "request", spoilt)

    return put_in


def status_written(change: Callable[[Json], object]) -> Mistake:
    """Each status that is written is changed before."""

    def meddle(really: Really, method: str, path: str, body: Json) -> None:
        if path.endswith("/status"):
            change(body["status"])

    return writes(meddle)


def calls(phase: str, another: str) -> Mistake:
    return status_written(lambda status: status.update(phase=another) if status["phase"] == phase else None)


def drops(field: str) -> Mistake:
    return status_written(lambda status: status.pop(field, None))


def never_sent(method: str, part: str) -> Mistake:
    """Requests to such paths are taken for carried out, and are not."""

    def meddle(really: Really, asked: str, path: str, body: Json) -> HttpResponse | None:
        return HttpResponse(200, orjson.dumps(body), {}) if asked == method and part in path else None

    return writes(meddle)


def and_also(method: str, part: str, also: Callable[[Really], object]) -> Mistake:
    """After each request of that kind comes another."""

    def meddle(really: Really, asked: str, path: str, body: Json) -> HttpResponse | None:
        if asked != method or part not in path:
            return None
        answer = really(method, path, body)
        also(really)
        return answer

    return writes(meddle)
