"""A page over a real Redis and an API server in this process: what a test of it, and a browser, look at.

Tokens name viewers: `all` may list everything, any other token the namespace of its name alone.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

import orjson
from kubernetes.client import Configuration

from benchmarks.support.inprocess import InProcessTransport
from localcluster.apiserver import ApiServer
from localcluster.wire import Request, Response
from tests.conftest import RealRedis
from tests.support.builders import JobBuilder, make_job
from tests.support.crds import crd_of
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_history import MemoryHistory
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.base import Transient
from tjworker.history.store import Bounds
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse
from tjworker.kube.resources import RESOURCES
from tjworker.page.access import REVIEWS, Viewers
from tjworker.page.board import BoardReader
from tjworker.page.server import PageServer
from tjworker.page.shared import Shared
from tjworker.page.site import Site
from tjworker.store import users
from tjworker.store.connect import client, open_store
from tjworker.store.projection import Change
from tjworker.store.redis_commands import RedisCommands
from tjworker.store.seal import Seal
from tjworker.store.sealed_store import sealed
from watcher.projection import project

Json = Mapping[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class TokenTransport(InProcessTransport):
    """What a viewer's token may do: the local API server lets everybody do everything."""

    def __init__(self, world: PageWorld, token: str) -> None:
        super().__init__(world.api_server.handle)
        self._world, self._token = world, token

    def request(self, method: str, path: str, **options: Any) -> HttpResponse:
        self._world.asked.append((self._token, method, path))
        if self._world.api_away:
            raise Transient("the connection was refused")
        if path == REVIEWS:
            return self._review(orjson.loads(options["body"])["spec"]["resourceAttributes"])
        namespace = path.partition("/namespaces/")[2].partition("/")[0]
        if not self._may(namespace):
            said = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "forbidden"}
            return HttpResponse(403, orjson.dumps(said))
        return super().request(method, path, **options)

    def _review(self, attributes: Json) -> HttpResponse:
        if self._token == "unknown":
            return HttpResponse(401, b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}')
        return HttpResponse(201, orjson.dumps({"status": {"allowed": self._may(attributes["namespace"])}}))

    def _may(self, namespace: str) -> bool:
        return self._token in ("all", namespace)


@dataclass
class Answer:
    code: int
    body: str
    headers: Message


@dataclass
class PageWorld:
    redis: RealRedis
    own: bool = False
    password: str = ""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """(token, method, path) of each request to the API server."""
    api_away: bool = False
    port: int = 0
    _version: int = 10_000
    _namespaces: set[str] = field(default_factory=lambda: {"default"})

    def __post_init__(self) -> None:
        self.api_server = ApiServer(clock=lambda: 1e9, rng=random.Random(1), track_fields=False)
        self.api = KubeClient(InProcessTransport(self.api_server.handle))
        self._post(CRDS, crd_of(AITRAININGJOBS))
        store = open_store(self.redis.url, self.redis.prefix)
        self.store = sealed(store, Seal(["c" * 32], self.redis.prefix))
        self.store.projection.lead(1)
        self.store.projection.mark_synced(1)
        self.history = MemoryHistory(Bounds(7 * 86_400.0, 1_000))
        commands = RedisCommands(client(self._url_of_page_user()), self.redis.prefix, where="redis://here")
        self.reader = BoardReader(commands, self.history)
        configuration = Configuration()
        viewers = Viewers(configuration, own=self.own, password=self.password, connect=self._connect)
        self.site = Site(self.reader, self.history, viewers, history_seconds=7 * 86_400.0, flower="http://127.0.0.1:1")

    def _url_of_page_user(self) -> str:
        """The page reads as the user that an installation gives it, which may do little."""
        _, _, *rules = users.PAGE.rule(">password", self.redis.prefix).split()
        with self.redis.client() as admin:
            admin.execute_command("ACL", "SETUSER", self.redis.prefix, *rules)
        return self.redis.url.replace("redis://", f"redis://{self.redis.prefix}:password@")

    def _connect(self, configuration: Configuration) -> TokenTransport:
        given = (configuration.api_key or {}).get("authorization", "Bearer all")
        return TokenTransport(self, given.removeprefix("Bearer "))

    def _post(self, path: str, body: Json) -> Json:
        answer = self.api_server.handle(
            Request("POST", path, {}, orjson.dumps(body), {"content-type": "application/json"})
        )
        assert isinstance(answer, Response)
        assert answer.status == 201, answer.body
        made: Json = orjson.loads(answer.body)
        return made

    # -- what there is -----------------------------------------------------------------------------
    def add(self, job: JobBuilder, namespace: str = "default") -> Json:
        """To the API server and, as the watcher would, to the projection."""
        manifest = job.manifest()
        manifest["metadata"]["namespace"] = namespace
        if namespace not in self._namespaces:
            self._namespaces.add(namespace)
            meta = {"name": namespace}
            self._post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        made = dict(self._post(RESOURCES[job.resource].path(namespace), manifest))
        status = job.build().status.to_json()
        if status:
            name = str(made["metadata"]["name"])
            self.api.update_status(job.resource, namespace, name, made | {"status": status})
            made = dict(self.api.get(job.resource, namespace, name) or {})
        self.project(made)
        return made

    def project(self, *objects: Json) -> None:
        changes: list[Change] = []
        for obj in objects:
            found = project(AITRAININGJOBS, obj)
            assert found is not None
            changes.append(found.change)
        self.store.projection.apply(1, changes)

    def change(self, made: Json, **status: Any) -> None:
        """The watch shows the job with another status."""
        self._version += 1
        self.project(
            {**made, "metadata": {**made["metadata"], "resourceVersion": str(self._version)}, "status": status}
        )

    def lose_redis(self) -> None:
        """It answers no more; an hour passes."""
        commands = RedisCommands(client("redis://127.0.0.1:1/0"), self.redis.prefix, where="redis://127.0.0.1:1/0")
        self.reader._redis, self.reader._client = commands, commands.client
        self.reader._now = lambda: time.time() + 3600

    @contextmanager
    def silent_redis(self) -> Iterator[None]:
        """It takes connections and answers nothing; an hour passes."""
        reader, before = self.reader, (self.reader._redis, self.reader._client, self.reader._shared)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
            commands = RedisCommands(client(url), self.redis.prefix, where=url)
            reader._redis, reader._client = commands, commands.client
            reader._shared = Shared(reader._refresh, "Redis", first_seconds=0.01)
            reader._now = lambda: time.time() + 3600
            yield
        reader._redis, reader._client, reader._shared = before

    def crowd(self, count: int) -> None:
        """Add jobs that only the projection has."""
        one = make_job("job").workers(2).status(phase="Running", message="all 2 replicas are running").object()
        self.project(
            *({**one, "metadata": {**one["metadata"], "name": f"job-{n:05d}", "uid": f"uid-{n}"}} for n in range(count))
        )

    # -- looks -------------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, who: str = "all", *, method: str = "GET", **headers: str) -> Answer:
        given = {"Authorization": f"Bearer {who}"} if who else {}
        request = urllib.request.Request(self.url + path, headers=given | headers, method=method)  # noqa: S310
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PATIENCE_SECONDS) as answer:
                return Answer(answer.status, answer.read().decode(), answer.headers)
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode(), error.headers)

    @contextmanager
    def served(self) -> Iterator[PageWorld]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()

        async def start() -> PageServer:
            server = PageServer(self.site, "127.0.0.1", 0)
            server.listen()
            return server

        server = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE_SECONDS)
        self.port = server.port
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(server.close(), loop).result(PATIENCE_SECONDS)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(PATIENCE_SECONDS)
            loop.close()
