"""An API server that is not there: each request takes `TJ_BENCH_REQUEST_SECONDS` and no CPU. Every write is accepted;
nothing is remembered."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping
from typing import Any

import orjson

from tjworker.kube.port import HttpResponse, Stream

REQUEST_SECONDS = float(os.environ.get("TJ_BENCH_REQUEST_SECONDS", "0.005"))


class SlowTransport:
    def __init__(self) -> None:
        self._versions = itertools.count(1_000_000)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        time.sleep(REQUEST_SECONDS)
        answer: dict[str, Any] = orjson.loads(body) if body else {"metadata": {}}
        answer["metadata"]["resourceVersion"] = str(next(self._versions))
        return HttpResponse(201 if method == "POST" else 200, orjson.dumps(answer))

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        raise NotImplementedError("workers watch nothing")

    def close(self) -> None: ...
