"""The watcher as it runs: threads, sockets, a real API server over HTTP, a real Redis, real processes where it matters.

Everything waits for a condition with a deadline; nothing sleeps for luck.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import Configuration

from localcluster.apiserver import ApiServer
from localcluster.http import serve
from tests.conftest import RealRedis
from tests.paths import ROOT
from tests.valkey import Valkey, free_port
from tests.waiting import PATIENCE_SECONDS, until
from tjworker.api.records_json import decode_view
from tjworker.base import JobKey, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.port import Json
from tjworker.kube.transport import KubeTransport
from tjworker.settings import Settings
from tjworker.store.connect import open_store
from tjworker.store.memory import MemoryStore
from tjworker.store.port import Store
from watcher.app import Identity, Watcher
from watcher.writer import Writer

pytestmark = pytest.mark.e2e

KEY = JobKey("aitrainingjobs/default/digits")
JOB: dict[str, Any] = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {"name": "digits", "namespace": "default"},
    "spec": {
        "replicaSpecs": {
            "trainer": {
                "replicas": 1,
                "template": {"spec": {"containers": [{"name": "aitj-main", "image": "x", "command": ["true"]}]}},
            }
        }
    },
}
CRD = yaml.safe_load((ROOT / "k8s/crds/aitrainingjobs.yaml").read_text())


class Api:
    """A local cluster's API server behind HTTP, on its own thread; may be stopped and started again on its port and data."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.port = free_port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: Any = None
        self.start()
        self.kube = self.client()
        self.kube._json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=CRD, what="crd")

    def start(self) -> None:
        async def go() -> None:
            self._apiserver = ApiServer(time.time, random.Random(1), self._data_dir)
            self._server = await serve(self._apiserver, port=self.port)

        asyncio.run_coroutine_threadsafe(go(), self._loop).result(PATIENCE_SECONDS)

    def stop(self) -> None:
        async def go() -> None:
            await self._server.close()
            self._apiserver.close()

        asyncio.run_coroutine_threadsafe(go(), self._loop).result(PATIENCE_SECONDS)

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)

    def client(self) -> KubeClient:
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{self.port}"
        return KubeClient(KubeTransport(configuration, pool_size=32), request_timeout_seconds=PATIENCE_SECONDS)

    def write_kubeconfig(self, path: Path) -> Path:
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "c",
                    "users": [{"name": "u", "user": {}}],
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
        return path

    def job(self) -> Json:
        return self.kube.create("aitrainingjobs", "default", JOB)

    def pod(self, job: Json, name: str) -> Json:
        owner = {
            "apiVersion": job["apiVersion"],
            "kind": job["kind"],
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        return self.kube.create(
            "pods",
            "default",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "aitj-main", "image": "x"}]},
            },
        )


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path / "data")
    yield made
    made.close()


class Running:
    """A watcher on its threads."""

    def __init__(self, api: Api, store: Store, name: str = "a", **settings: Any) -> None:
        self.published: list[JobKey] = []
        self.store = store
        self.watcher = Watcher(
            Settings(**settings), api.client(), api.client(), store, self.published.extend, Identity(name, "default")
        )
        self._thread = threading.Thread(target=self.watcher.run, daemon=True)
        self._thread.start()

    def pods(self) -> list[str]:
        view = self.store.view(KEY)
        return [pod.name for pod in decode_view(view.job, view.children)[1].pods]

    @property
    def synced(self) -> bool:
        return self.watcher.report().leading and self.watcher.report().synced

    def stop(self) -> None:
        self.watcher.stop()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()


@pytest.fixture
def start(api: Api) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def go(store: Store, name: str = "a", **settings: Any) -> Running:
        made.append(Running(api, store, name, **settings))
        return made[-1]

    yield go
    for running in made:
        running.stop()


def test_an_event_is_in_the_store_at_once_not_when_the_writer_looks_next(
    api: Api, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writer.step, "__defaults__", (3600.0,))  # by itself it looks every hour
    running = start(MemoryStore())
    until("synced", lambda: running.synced)
    job = api.job()
    names = [f"p{number}" for number in range(5)]
    for number, name in enumerate(names):
        api.pod(job, name)
        until(f"{name} is in the store", lambda number=number: running.pods() == names[: number + 1])  # type: ignore[misc]


def test_a_server_that_restarts_costs_no_event(api: Api, start: Callable[..., Running]) -> None:
    running = start(MemoryStore())
    job = api.job()
    api.pod(job, "p0")
    until("first pod", lambda: running.pods() == ["p0"])
    api.stop()
    api.start()
    api.kube = api.client()
    api.pod(job, "p1")
    until("pod after the restart", lambda: running.pods() == ["p0", "p1"])


def test_a_standby_takes_over_at_once_when_the_leader_leaves_and_the_old_one_cannot_write(
    api: Api, start: Callable[..., Running]
) -> None:
    store = MemoryStore()
    leader = start(store, "a")
    until("leader synced", lambda: leader.synced)
    standby = start(store, "b")
    job = api.job()
    until("published by the leader", lambda: KEY in leader.published)
    leader.stop()
    until("standby leads", lambda: standby.synced)
    api.pod(job, "p0")
    until("the standby watches", lambda: standby.pods() == ["p0"])


def test_a_leader_whose_lease_is_taken_away_stops_and_the_other_goes_on(
    api: Api, start: Callable[..., Running]
) -> None:
    store = MemoryStore()
    leader = start(store, "a", lease_renew_seconds=0.2)
    until("leader synced", lambda: leader.synced)
    # Without a resourceVersion: the leader writes it five times a second itself.
    api.kube.merge_patch("leases", "default", "tj-watcher", {"spec": {"holderIdentity": "somebody"}})
    until("the leader stops", lambda: not leader.watcher.report().leading)


def test_two_namespaces_are_watched_and_no_third(api: Api, start: Callable[..., Running]) -> None:
    for name in ("a", "c"):
        api.kube._json(
            "POST",
            "/api/v1/namespaces",
            what="namespace",
            body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        )
    running = start(MemoryStore(), namespaces="default,a")
    until("synced", lambda: running.synced)
    for namespace in ("c", "a", "default"):
        api.kube.create("aitrainingjobs", namespace, {**JOB, "metadata": {"name": "digits"}})
    until("two jobs", lambda: len(running.published) >= 2)
    assert set(running.published) == {"aitrainingjobs/a/digits", "aitrainingjobs/default/digits"}


def test_a_redis_that_is_killed_and_comes_back_empty_is_filled_again(
    api: Api, start: Callable[..., Running], tmp_path: Path
) -> None:
    (tmp_path / "redis").mkdir()
    with Valkey(tmp_path / "redis") as server:
        running = start(open_store(server.url, "t"))
        job = api.job()
        api.pod(job, "p0")
        until("first pod", lambda: running.pods() == ["p0"])
        server.kill()
        api.pod(job, "p1")
        until("the watcher notices", lambda: running.watcher.report().store_away)
        assert running.watcher.report().problems() == []
        server.start()
        until("everything is back", lambda: _pods_or_none(running) == ["p0", "p1"] and running.store.view(KEY).synced)
        assert KEY in running.published
        running.stop()


def _pods_or_none(running: Running) -> list[str] | None:
    try:
        return running.pods()
    except Transient:
        return None


def test_the_process_publishes_tasks_serves_health_and_gives_the_lease_back_on_sigterm(
    api: Api, real_redis: RealRedis, tmp_path: Path
) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "KUBECONFIG": str(api.write_kubeconfig(tmp_path / "kubeconfig")),
        "TJ_REDIS_URL": real_redis.url,
        "TJ_KEY_PREFIX": real_redis.prefix,
        "TJ_HEALTH_PORT": str(port),
        "TJ_LOG_FORMAT": "json",
    }
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen([sys.executable, "-m", "watcher"], cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        until("ready", lambda: _get(port, "/readyz") == 200)
        until("alive", lambda: _get(port, "/healthz") == 200)
        api.job()
        with real_redis.client() as client:
            until("one task in the queue", lambda: client.llen(real_redis.prefix) == 1)
            message = json.loads(client.lindex(real_redis.prefix, 0))
        assert message["headers"]["task"] == "tjworker.reconcile"
        assert KEY in message["headers"]["argsrepr"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
        lease = api.kube.get("leases", "default", f"{real_redis.prefix}-watcher")
        assert lease is not None
        assert not lease["spec"].get("holderIdentity")
    finally:
        process.kill()
        process.wait()
        log.close()
    lines = [json.loads(text) for text in (tmp_path / "log").read_text().splitlines()]
    assert [line for line in lines if line["level"] in ("error", "critical")] == []


def _get(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return int(answer.status)
    except OSError:
        return 0


def test_without_a_cluster_the_process_says_what_to_set(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "watcher"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert "Set KUBECONFIG" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_projection_that_was_led_by_a_clock_far_ahead_is_led_again(api: Api, start: Callable[..., Running]) -> None:
    store = MemoryStore()
    store.lead(int(time.time() * 1000) + 90_000)
    running = start(store)
    until("leads in spite of it", lambda: running.synced)


def test_a_new_job_does_not_wait_for_the_lists_of_a_watcher_that_was_restarted(
    api: Api, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, new = MemoryStore(), JobKey("aitrainingjobs/default/new")
    first = start(store, "a")
    job = api.job()
    pod = api.pod(job, "p0")
    until("the first has everything", lambda: first.synced and first.pods() == ["p0"])
    first.stop()
    api.kube.create("aitrainingjobs", "default", {**JOB, "metadata": {"name": "new"}})
    held, lists, real = threading.Event(), threading.Semaphore(0), KubeClient.list_page

    def slow(kube: KubeClient, resource: str, *args: Any, **more: Any) -> Any:
        lists.release()
        assert held.wait(PATIENCE_SECONDS)
        return real(kube, resource, *args, **more)

    monkeypatch.setattr(KubeClient, "list_page", slow)
    try:
        second = start(store, "b")
        until("the job that was made while no watcher ran", lambda: new in second.published)
        api.kube.delete("pods", "default", "p0", uid=pod["metadata"]["uid"], grace_seconds=0)
        until("what happens to the others is seen too", lambda: second.pods() == [])
        assert lists.acquire(timeout=PATIENCE_SECONDS), "the lists are under way"
        report = second.watcher.report()
        assert (report.ready, report.resumed, report.synced) == (True, True, False)
    finally:
        held.set()
    until("the lists are in", lambda: second.synced)
    term = second.watcher.term
    assert term is not None
    assert [one.source for one in term.forerunners if not one.stopped] == []
    api.pod(job, "p1")
    until("the informers watch", lambda: second.pods() == ["p1"])


def test_a_term_that_ends_while_it_begins_leaves_no_thread_behind(api: Api, start: Callable[..., Running]) -> None:
    store = MemoryStore()
    first = start(store, "a")
    until("synced", lambda: first.synced)
    first.stop()
    for _ in range(5):
        second = start(store, "b")
        until("it leads", lambda: second.watcher.term is not None)  # noqa: B023  called at once
        second.stop()
    names = ("writer", "lists", "informer ", "forerunner ")
    until("every thread has ended", lambda: [t.name for t in threading.enumerate() if t.name.startswith(names)] == [])
