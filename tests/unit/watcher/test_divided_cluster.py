"""What the watcher asks the API server for where it does not serve all namespaces: each list and watch carries the
namespaces, so that what lies in others is not even sent.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.support.inprocess import InProcessTransport, InProcessWatcher
from localcluster.apiserver import ApiServer
from tests.support.memory_store import MemoryStore
from tjworker.kube.port import HttpResponse, Stream
from tjworker.settings import Settings
from watcher.progress import is_counting

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
NOT_AB = "metadata.namespace!=a,metadata.namespace!=b"
Asked = set[tuple[str, str]]
"""(path, field selector)"""


class Recorded(InProcessTransport):
    def __init__(self) -> None:
        super().__init__(ApiServer(clock=lambda: 1e9, rng=random.Random(1)).handle)
        self.lists: Asked = set()
        self.watches: Asked = set()

    def request(self, method: str, path: str, *, query: Mapping[str, str] | None = None, **more: Any) -> HttpResponse:
        if method == "GET" and "limit" in (query or {}):
            self.lists.add((path, (query or {}).get("fieldSelector", "")))
        return super().request(method, path, query=query, **more)

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        self.watches.add((path, query.get("fieldSelector", "")))
        return super().stream(path, query=query, read_timeout_seconds=read_timeout_seconds)


PODS_ASKED: dict[str, tuple[dict[str, str], Asked]] = {
    "An operator that serves everything asks for everything.": ({}, {("/api/v1/pods", "")}),
    "An operator that excludes namespaces counts their unfinished pods.": (
        {"namespaces_excluded": "a,b"},
        {
            ("/api/v1/pods", NOT_AB),
            ("/api/v1/namespaces/a/pods", UNFINISHED),
            ("/api/v1/namespaces/b/pods", UNFINISHED),
        },
    ),
    "Without an autoscaler an excluded namespace costs nothing.": (
        {"namespaces_excluded": "a,b", "autoscale_policy": "off"},
        {("/api/v1/pods", NOT_AB)},
    ),
    "An operator of some namespaces counts the unfinished pods of all others.": (
        {"namespaces": "a,b"},
        {
            ("/api/v1/namespaces/a/pods", ""),
            ("/api/v1/namespaces/b/pods", ""),
            ("/api/v1/pods", f"{NOT_AB},{UNFINISHED}"),
        },
    ),
}


@pytest.mark.parametrize(("settings", "want"), PODS_ASKED.values(), ids=PODS_ASKED)
def test_what_the_api_server_is_asked_for(settings: dict[str, Any], want: Asked) -> None:
    transport = Recorded()
    watcher = InProcessWatcher(
        lambda request: None,  # type: ignore[arg-type, return-value]
        MemoryStore(clock=lambda: 1e9),
        lambda keys: None,
        now=lambda: 1e9,
        settings=Settings(**settings),
        transport=transport,
    )
    for _ in range(3):
        watcher.pump()
    for asked in (transport.lists, transport.watches):
        assert {one for one in asked if one[0].endswith("/pods")} == want
        # What lies in a namespace is asked for in the same way, whichever kind it is; services stand for all.
        own = {(path.replace("/pods", "/services"), fields) for path, fields in want if UNFINISHED not in fields}
        assert {one for one in asked if one[0].endswith("/services")} == own
        assert {one for one in asked if one[0].endswith("/nodes")} == {("/api/v1/nodes", "")}
    assert sum(is_counting(one.source) for one in watcher.reflectors) == sum(UNFINISHED in one[1] for one in want)
