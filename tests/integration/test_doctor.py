"""Faults, each really made: in a real Redis, at an API server behind HTTP, of a real worker. `tj doctor` finds
each, says where and what to do, and finds nothing wrong without it.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pytest
import redis
from celery.utils.nodenames import default_nodename
from kombu.exceptions import OperationalError

from benchmarks.support.valkey import Valkey
from localcluster.apiserver import ApiServer
from localcluster.wire import Request, Response, Watch
from tests.integration.test_worker_and_beat_probes import CELERY_AS_IT_COMES
from tests.support.builders import make_job
from tests.support.crds import crd_of
from tests.support.kinds import AITRAININGJOBS
from tests.support.local_api import local_api
from tests.support.paths import ROOT
from tests.support.waiting import until
from tjworker.api.kinds import KINDS
from tjworker.api.resources import PODS
from tjworker.app import make_app
from tjworker.base import JobKey
from tjworker.cli import top
from tjworker.cli.checks.check import Check
from tjworker.cli.doctor import look
from tjworker.kube.resources import RESOURCES
from tjworker.settings import Settings
from tjworker.store.connect import open_store
from tjworker.store.keys import BY_NAME

pytestmark = pytest.mark.xdist_group("doctor")  # they share what its fixture starts or renders

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PREFIX = "doctor"


class Cluster(ApiServer):
    """An API server that may refuse a right."""

    def __init__(self) -> None:
        super().__init__(time.time, random.Random(7))
        self.refused = ""

    def handle(self, request: Request) -> Response | Watch:
        if self.refused and request.path.endswith("/selfsubjectaccessreviews"):
            asked = orjson.loads(request.body)["spec"]["resourceAttributes"]
            allowed = f"{asked['verb']} {asked['resource']}" != self.refused
            return Response(201, orjson.dumps({"status": {"allowed": allowed}}))
        return super().handle(request)

    def send(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        data = b"" if body is None else orjson.dumps(body)
        answer = self.handle(Request(method, path, {}, data, {"content-type": "application/json"}))
        assert isinstance(answer, Response)
        assert answer.status < 300, answer.body
        answered: dict[str, Any] = orjson.loads(answer.body)
        return answered


@dataclass
class World:
    """An operator that works. A fault changes it before `doctor` looks."""

    cluster: Cluster
    settings: Settings
    worker: subprocess.Popen[bytes]
    folder: Path
    clock_seconds: Callable[[], float] = field(default=time.time)

    def doctor(self) -> dict[str, Check]:
        with local_api(self.folder, self.cluster) as kubeconfig:
            found = look(self.settings, kubeconfig, self.clock_seconds)
        return {f"{check.subject}: {check.name}": check for check in found}


def lease(renewed: datetime) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{PREFIX}-watcher"},
        "spec": {
            "holderIdentity": "vm_1",
            "leaseDurationSeconds": 3600,
            "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}",
        },
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with Valkey(tmp_path_factory.mktemp("valkey"), append_only=True) as valkey:
        yield valkey


@pytest.fixture(scope="module")
def settings(server: Valkey) -> Settings:
    """Of an operator with everything in Redis that its processes leave there."""
    found = Settings(redis_url=server.url, key_prefix=PREFIX)
    store = open_store(found.redis_url, PREFIX)
    store.projection.lead(1)
    store.projection.mark_synced(1)
    assert store.maintenance.once("resync", 3600)
    return found


@pytest.fixture(scope="module")
def worker(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "TJ_REDIS_URL": settings.redis_url, "TJ_KEY_PREFIX": PREFIX}
    log = tmp_path_factory.mktemp("worker") / "log"
    options = ["-A", "tjworker.app", "worker", "--pool", "solo", "--loglevel", "WARNING"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", CELERY_AS_IT_COMES, *options], env=env, cwd=ROOT, stdout=output, stderr=output
        )
    app = make_app(settings)
    try:
        until("the worker answers", app.control.inspect(timeout=1.0).ping, context=log.read_text)
        yield process
    finally:
        process.kill()
        process.wait()
        app.close()


@pytest.fixture
def world(settings: Settings, worker: subprocess.Popen[bytes], tmp_path: Path) -> World:
    cluster = Cluster()
    for kind in KINDS.values():
        cluster.send("POST", CRDS, crd_of(kind.resource))
    cluster.send("POST", LEASES, lease(datetime.now(UTC)))
    return World(cluster, settings, worker, tmp_path)


def test_an_operator_that_works_has_no_fault(world: World) -> None:
    found = world.doctor()
    subjects = [check.subject for check in found.values()]
    assert subjects == sorted(subjects, key=subjects.index), "checks of one subject stand together"
    assert {name: check.detail for name, check in found.items() if check.state != "ok"} == {}


# -- the faults ------------------------------------------------------------------------------------
def redis_away(world: World) -> AbstractContextManager[object]:
    with Valkey(world.folder) as other:
        world.settings = replace_url(world.settings, other.url)
    return nullcontext()


@contextmanager
def read_only(world: World) -> Iterator[None]:
    primary = world.settings.redis_url.partition("127.0.0.1:")[2].partition("/")[0]
    with Valkey(world.folder, options=("--replicaof", f"127.0.0.1 {primary}")) as other:
        world.settings = replace_url(world.settings, other.url)
        yield


def full_memory(world: World) -> AbstractContextManager[object]:
    return _told(world, "CONFIG", "SET", "maxmemory", "1")


def a_reader(world: World) -> AbstractContextManager[object]:
    return _told(world, "ACL", "SETUSER", "default", "-@write")


def wrong_password(world: World) -> AbstractContextManager[object]:
    return _told(world, "CONFIG", "SET", "requirepass", "right", user=":wrong@")


@contextmanager
def _told(world: World, *command: str, user: str = "") -> Iterator[None]:
    """Another Redis, after this command, and `user` in the operator's URL."""
    with Valkey(world.folder) as other:
        with redis.Redis(port=other.port) as client:
            client.execute_command(*command)
        world.settings = replace_url(world.settings, other.url.replace("//", f"//{user}"))
        yield


def full_disk(world: World) -> AbstractContextManager[object]:
    """As Celery tells of it when its broadcast is the first write. `make test-compose` fills a real disk."""
    refused = OperationalError("MISCONF Errors writing to the AOF file: No space left on device")
    return patch("celery.app.control.Inspect.active_queues", side_effect=refused)


def replace_url(settings: Settings, url: str) -> Settings:
    return settings.model_copy(update={"redis_url": url})


def no_crd(world: World) -> AbstractContextManager[object]:
    world.cluster.send("DELETE", f"{CRDS}/{AITRAININGJOBS}")
    return nullcontext()


def old_crd(world: World) -> AbstractContextManager[object]:
    definition = world.cluster.send("GET", f"{CRDS}/{AITRAININGJOBS}")
    for version in definition["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["runPolicy"]
        version["schema"]["openAPIV3Schema"]["properties"]["spec"].pop("x-kubernetes-validations", None)
    world.cluster.send("PUT", f"{CRDS}/{AITRAININGJOBS}", definition)
    return nullcontext()


def rbac_hole(world: World) -> AbstractContextManager[object]:
    world.cluster.refused = "create pods"
    return nullcontext()


def clock_skew(world: World) -> AbstractContextManager[object]:
    world.clock_seconds = lambda: time.time() + 3600
    return nullcontext()


def no_leader(world: World) -> AbstractContextManager[object]:
    held = world.cluster.send("GET", f"{LEASES}/{PREFIX}-watcher")
    held["spec"] = lease(datetime.now(UTC) - timedelta(hours=2))["spec"]
    world.cluster.send("PUT", f"{LEASES}/{PREFIX}-watcher", held)
    return nullcontext()


@contextmanager
def no_worker(world: World) -> Iterator[None]:
    world.worker.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        world.worker.send_signal(signal.SIGCONT)


@contextmanager
def idle_worker(world: World) -> Iterator[None]:
    app, to = make_app(world.settings), [default_nodename(None)]
    queue = app.conf.task_default_queue
    cancelled = app.control.cancel_consumer(queue, destination=to, reply=True, timeout=60.0)
    assert cancelled, "it obeys"
    try:
        yield
    finally:
        app.control.add_consumer(queue, destination=to, reply=True, timeout=60.0)
        app.close()


@contextmanager
def stuck_queue(world: World) -> Iterator[None]:
    key = JobKey(f"{AITRAININGJOBS}/default/digits")
    open_store(world.settings.redis_url, PREFIX).queue.add([key])
    waiting = BY_NAME["dirty"].of(PREFIX)
    with redis.Redis.from_url(world.settings.redis_url) as client:
        client.zincrby(waiting, -300_000, key)  # as if that had been five minutes ago
        try:
            yield
        finally:
            for name in client.scan_iter(f"{PREFIX}:queue:*"):
                client.delete(name)


def foreign_owner(world: World) -> AbstractContextManager[object]:
    world.cluster.send("POST", RESOURCES[AITRAININGJOBS].path("default"), make_job("digits").workers(2).manifest())
    theirs = {
        "metadata": {
            "name": "digits-trainer-1",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-1", "controller": True}
            ],
        },
        "spec": {"containers": [{"name": "main", "image": "python"}]},
    }
    world.cluster.send("POST", RESOURCES[PODS].path("default"), theirs)
    return nullcontext()


@dataclass(frozen=True)
class Fault:
    make: Callable[[World], AbstractContextManager[object]]
    where: str
    """`subject: name` of the check that finds it."""
    want_detail: str
    want_advice: str
    want_state: str = "failed"


FAULTS: dict[str, Fault] = {
    "Redis is away": Fault(redis_away, "Redis: reachable", "cannot be reached", "start it, or correct TJ_REDIS_URL"),
    "the password of Redis is wrong": Fault(
        wrong_password, "Redis: reachable", "refuses the user of TJ_REDIS_URL", "correct TJ_REDIS_URL"
    ),
    "Redis is read-only": Fault(
        read_only, "Redis: takes writes", "is a read-only replica", "name the primary in TJ_REDIS_URL"
    ),
    "Redis' memory is full": Fault(full_memory, "Redis: takes writes", "no memory left", "free its memory"),
    "the user of Redis may only read": Fault(a_reader, "Redis: takes writes", "refuses the user", "docs/redis.md"),
    "Redis' disk is full": Fault(full_disk, "operator: Redis", "No space left", "most often the disk is full"),
    "there is no CRD": Fault(no_crd, f"cluster: CRD {AITRAININGJOBS}", "is not installed", "kubectl apply"),
    "the CRD is old": Fault(old_crd, f"cluster: CRD {AITRAININGJOBS}", "runPolicy differs", "kubectl apply"),
    "RBAC has a hole": Fault(rbac_hole, "cluster: may use pods", "may not create", "apply k8s/base/rbac.yaml"),
    "clocks differ, of the cluster": Fault(clock_skew, "cluster: clock", "s behind this machine's", "NTP", "warning"),
    "clocks differ, of Redis": Fault(clock_skew, "Redis: clock", "s behind this machine's", "NTP", "warning"),
    "no watcher leads": Fault(no_leader, "operator: watcher leads", "has not renewed it for", "python -m watcher"),
    "no worker answers": Fault(no_worker, "operator: workers", "none answers", "start `celery"),
    "workers take nothing": Fault(idle_worker, "operator: workers", "takes no task", "restart them"),
    "the queue is stuck": Fault(
        stuck_queue, "operator: work queue", "the oldest has waited for 30", "start more workers"
    ),
    "somebody else owns a pod's name": Fault(
        foreign_owner,
        "jobs: default/digits",
        "pod digits-trainer-1 has a name that the job needs, and is controlled by ReplicaSet web",
        "delete it, or apply the AITrainingJob digits under another name",
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_each_fault_is_found_named_and_has_its_cure(fault: Fault, world: World) -> None:
    with fault.make(world):
        found = world.doctor()
    assert fault.where in found, sorted(found)
    check = found[fault.where]
    assert (check.state, fault.want_detail in check.detail) == (fault.want_state, True), check
    assert fault.want_advice in check.advice
    assert "wrong" not in check.detail.replace("WRONGPASS", ""), "no password"


def test_top_sees_queue_and_worker_of_an_operator_that_works(world: World) -> None:
    def seen() -> bool:
        stats, workers, why = top.operator(world.settings)
        assert (why, stats and stats.queued) == ("", 1)
        return [(worker.name, worker.runs) for worker in workers] == [(default_nodename(None), ())]

    with stuck_queue(world):
        until("the worker answers within the second that `tj top` waits", seen)


def test_a_pod_that_the_job_controls_takes_no_name(world: World) -> None:
    with foreign_owner(world):
        path = f"{RESOURCES[PODS].path('default')}/digits-trainer-1"
        job = world.cluster.send("GET", f"{RESOURCES[AITRAININGJOBS].path('default')}/digits")
        pod = world.cluster.send("GET", path)
        pod["metadata"]["ownerReferences"][0] |= {"uid": job["metadata"]["uid"], "kind": "AITrainingJob"}
        world.cluster.send("PUT", path, pod)
        found = world.doctor()
    assert found["jobs: waiting"].state == "ok"
