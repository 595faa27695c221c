"""The watcher as it runs: threads, sockets, a real API server over HTTP, a real Redis, real processes where it matters.

Everything waits for a condition with a deadline; nothing sleeps for luck.
"""

from __future__ import annotations

import json
import os
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

from benchmarks.support.valkey import Valkey, free_port
from tests.conftest import RealRedis
from tests.e2e.watching import JOB, KEY, Api, Running
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.api.resources import LEASES, PODS
from tjworker.base import GroupResource, JobKey, Transient
from tjworker.kube.client import KubeClient
from tjworker.store.connect import open_store
from tjworker.store.port import Store
from watcher.projection_writer import ProjectionWriter
from watcher.projector import Projector

pytestmark = pytest.mark.e2e


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    made = Api(tmp_path / "data")
    yield made
    made.close()


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
    monkeypatch.setattr(ProjectionWriter.step, "__defaults__", (3600.0,))  # by itself it looks every hour
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
    api.kube.merge_patch(LEASES, "default", "tj-watcher", {"spec": {"holderIdentity": "somebody"}})
    until("the leader stops", lambda: not leader.watcher.report().leading)


def test_two_namespaces_are_watched_and_no_third(api: Api, start: Callable[..., Running]) -> None:
    for name in ("a", "c"):
        api.kube._request_json(
            "POST",
            "/api/v1/namespaces",
            what="namespace",
            body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        )
    running = start(MemoryStore(), namespaces="default,a")
    until("synced", lambda: running.synced)
    for namespace in ("c", "a", "default"):
        api.kube.create(AITRAININGJOBS, namespace, {**JOB, "metadata": {"name": "digits"}})
    until("two jobs", lambda: len(running.published) >= 2)
    assert set(running.published) == {
        "aitrainingjobs.elasticdeeplearning.ai/a/digits",
        "aitrainingjobs.elasticdeeplearning.ai/default/digits",
    }


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
        until(
            "everything is back",
            lambda: _pods_or_none(running) == ["p0", "p1"] and running.store.projection.view(KEY).synced,
        )
        until("its key is queued", lambda: KEY in running.published)
        running.stop()


def _pods_or_none(running: Running) -> list[str] | None:
    try:
        return running.pods()
    except Transient:
        return None


def test_a_watch_that_is_cut_makes_what_is_known_old_and_a_restart_would_cure_nothing(
    api: Api, start: Callable[..., Running]
) -> None:
    running = start(MemoryStore(), watch_timeout_seconds=1, request_timeout_seconds=1)
    until("synced", lambda: running.synced)
    api.stop()
    until("it is not ready", lambda: not running.watcher.report().ready)
    until("it waits for the server, alive", lambda: not running.watcher.report().problems())


def test_a_watch_that_hangs_is_seen_within_its_limit(
    api: Api, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, take = threading.Event(), Projector.events

    def hangs(projector: Projector, events: Any, version: int) -> None:
        if events:
            go_on.wait(PATIENCE_SECONDS)
        take(projector, events, version)

    running = start(MemoryStore(), watch_timeout_seconds=1, request_timeout_seconds=1)
    until("synced", lambda: running.synced)
    monkeypatch.setattr(Projector, "events", hangs)
    api.job()
    wanted = f"the watch of {AITRAININGJOBS} has given no sign for"
    until("it is not alive", lambda: any(one.startswith(wanted) for one in running.watcher.report().problems()))
    go_on.set()


def test_the_process_publishes_tasks_serves_health_and_gives_the_lease_back_on_sigterm(
    api: Api, real_redis: RealRedis, tmp_path: Path
) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "KUBECONFIG": str(api.write_kubeconfig(tmp_path / "kubeconfig")),
        "TJ_REDIS_URL": real_redis.url,
        "TJ_KEY_PREFIX": real_redis.prefix,
        "TJ_RECORD_KEYS": "a-key-of-the-tests-that-is-long-enough",
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
        lease = api.kube.get(LEASES, "default", f"{real_redis.prefix}-watcher")
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
    store.projection.lead(int(time.time() * 1000) + 90_000)
    running = start(store)
    until("leads in spite of it", lambda: running.synced)


def test_a_new_job_does_not_wait_for_the_lists_of_a_watcher_that_was_restarted(
    api: Api, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, new = MemoryStore(), JobKey("aitrainingjobs.elasticdeeplearning.ai/default/new")
    first = start(store, "a")
    job = api.job()
    pod = api.pod(job, "p0")
    until("the first has everything", lambda: first.synced and first.pods() == ["p0"])
    first.stop()
    api.kube.create(AITRAININGJOBS, "default", {**JOB, "metadata": {"name": "new"}})
    held, lists, real = threading.Event(), threading.Semaphore(0), KubeClient.list_page

    def slow(kube: KubeClient, resource: GroupResource, *args: Any, **more: Any) -> Any:
        lists.release()
        assert held.wait(PATIENCE_SECONDS)
        return real(kube, resource, *args, **more)

    monkeypatch.setattr(KubeClient, "list_page", slow)
    try:
        second = start(store, "b")
        until("the job that was made while no watcher ran", lambda: new in second.published)
        api.kube.delete(PODS, "default", "p0", uid=pod["metadata"]["uid"], grace_seconds=0)
        until("what happens to the others is seen too", lambda: second.pods() == [])
        assert lists.acquire(timeout=PATIENCE_SECONDS), "the lists are under way"
        report = second.watcher.report()
        assert (report.ready, report.resumed, report.synced) == (True, True, False)
    finally:
        held.set()
    until("the lists are in", lambda: second.synced)
    term = second.watcher.term
    assert term is not None
    assert [one.source for one in term.feed.resumed.values() if not one.stopped] == []
    api.pod(job, "p1")
    until("the reflectors watch", lambda: second.pods() == ["p1"])


def test_a_term_that_ends_while_it_begins_leaves_no_thread_behind(api: Api, start: Callable[..., Running]) -> None:
    store = MemoryStore()
    first = start(store, "a")
    until("synced", lambda: first.synced)
    first.stop()
    for _ in range(5):
        second = start(store, "b")
        until("it leads", lambda: second.watcher.term is not None)  # noqa: B023  called at once
        second.stop()
    names = ("writer", "lists", "reflector ", "resumed watch ")
    until("every thread has ended", lambda: [t.name for t in threading.enumerate() if t.name.startswith(names)] == [])
