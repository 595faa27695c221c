"""An API server on a clock that only the test moves, and requests in one line."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
import yaml

from localcluster.apiserver import ApiServer
from localcluster.wire import Json, Request, Response, Watch
from localcluster_tests.contract.kubectl import manifests

PODS = "/api/v1/namespaces/default/pods"
CONFIGS = "/api/v1/namespaces/default/configmaps"
DEFINITION: Json = yaml.safe_load(manifests.CRD)


def rocket(name: str, **spec: Any) -> Json:
    body: Json = orjson.loads(manifests.rocket(name, **spec))
    return body


class World:
    def __init__(self, data_dir: Path | None = None) -> None:
        self.now = 1_800_000_000.0
        self.api = ApiServer(lambda: self.now, random.Random(3), data_dir)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        **query: str,
    ) -> Response:
        headers = {"content-type": content_type, "accept": accept, "user-agent": "test/1"}
        answer = self.api.handle(Request(method, path, query, b"" if body is None else orjson.dumps(body), headers))
        assert isinstance(answer, Response)
        return answer

    def json(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: str
    ) -> Json:
        found: Json = orjson.loads(self.ask(method, path, body, content_type, **query).body)
        return found

    def watch(self, path: str, accept: str = "application/json", **query: str) -> Watch:
        answer = self.api.handle(Request("GET", path, {"watch": "true", **query}, b"", {"accept": accept}))
        assert isinstance(answer, Watch), answer
        return answer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.api.tick()

    @property
    def revision(self) -> str:
        return str(self.api.store.revision)


def config(name: str, value: str = "1", **meta: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"a": value}}


def pod(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "x"}], **spec},
    }


def events(watch: Watch) -> list[tuple[str, Json]]:
    return [(event["type"], event["object"]) for event in map(orjson.loads, watch.poll())]


def seen(watch: Watch) -> list[str]:
    """`ADDED a` for each event."""
    return [f"{kind} {obj.get('metadata', {}).get('name', obj.get('code', ''))}".strip() for kind, obj in events(watch)]
