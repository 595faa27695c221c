"""A local cluster, a Redis, and one watcher, one worker and one beat that are each of a version of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import redis

from benchmarks.support.valkey import Valkey, free_port
from controlplane.process import Process
from localcluster.client import ApiError, ignoring
from localcluster.http_client import HttpClient, from_kubeconfig
from tests.support import fast_yaml as yaml
from tests.support import waiting
from tests.support.paths import ROOT
from tests.upgrade.jobs import NAMESPACE, PODS

OLD_COMMIT = "b7c2e59"
"""Before records were sealed and jobs' keys held the API group. Take the newest release instead once there is one."""
LOOK_SECONDS = 0.3
START_SECONDS = 180.0
STOP_SECONDS = 60.0
SETTINGS = {
    # Sooner than in production: the test waits for them.
    "TJ_RESYNC_SECONDS": "3",
    "TJ_LOCK_TTL_SECONDS": "5",
    "TJ_AUTOSCALE_SECONDS": "2",
    "TJ_LEASE_DURATION_SECONDS": "6",
    "TJ_LEASE_RENEW_SECONDS": "2",
    "TJ_LEADER_NAMESPACE": "default",
    "TJ_HEALTH_HOST": "127.0.0.1",
    "TJ_LOG_FORMAT": "json",
    "TJ_RECORD_KEYS": "a-key-of-the-tests-that-is-long-enough",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
BROKE = "a thread of the watcher broke"
DROPPED = "it is dropped, and everything is listed again"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Version:
    name: str
    tree: Path

    @property
    def crds(self) -> list[Path]:
        return sorted((self.tree / "k8s/crds").glob("*.yaml"))


def old_version(folder: Path) -> Version | None:
    """The tree of OLD_COMMIT, unpacked in `folder`; None where this checkout does not have it."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run([git, "archive", OLD_COMMIT], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        return None
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return Version("old", folder)


def this_version() -> Version:
    return Version("this", ROOT)


def later_version(folder: Path) -> Version:
    """This tree with another form of records, which this version cannot open."""
    for package in ("watcher", "tjworker"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "beat_schedule.py", folder)
    (folder / "k8s").symlink_to(ROOT / "k8s")
    seal, words = folder / "tjworker/store/seal.py", folder / "tjworker/store/record_words.txt"
    changed = seal.read_text().replace('_MARK = b"s2."', '_MARK = b"s3."')
    assert changed != seal.read_text(), "the mark of the seal stands elsewhere"
    seal.write_text(changed)
    words.write_text("another form\n" + words.read_text())
    return Version("later", folder)


class Lab:
    """`processes` are `watcher`, `worker` and `beat`; each runs the version that it was last started with."""

    def __init__(self, folder: Path, server: Valkey, kubeconfig: Path) -> None:
        self.folder = folder
        self.redis = server
        self.kubeconfig = kubeconfig
        self.api = HttpClient(from_kubeconfig(kubeconfig), "upgrade-test")
        self._processes: dict[str, Process] = {}
        self._health: dict[str, int] = {}
        self._started = 0

    # -- the cluster -------------------------------------------------------------------------------
    def apply_crds(self, version: Version) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for file in version.crds:
            crd = yaml.safe_load(file.read_text())
            name = crd["metadata"]["name"]
            try:
                found = self.api.get(f"{path}/{name}")
            except ApiError as error:
                if error.code != 404:
                    raise
                self.api.create(path, crd)
            else:
                crd["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
                self.api.update(f"{path}/{name}", crd)

    def statuses(self, *paths: str) -> dict[str, Json]:
        """name -> status, of all jobs."""
        return {
            item["metadata"]["name"]: item.get("status") or {} for path in paths for item in self.api.get(path)["items"]
        }

    def pods(self) -> list[Json]:
        return list(self.api.get(PODS)["items"])

    # -- the operator ------------------------------------------------------------------------------
    def start(self, role: str, version: Version) -> None:
        self._started += 1
        name = f"{self._started:02}-{role}-{version.name}"
        self._health[role] = free_port()
        command = {
            "watcher": ["-m", "watcher"],
            "worker": ["-m", "celery", "-A", "tjworker.app", "worker", "-n", f"{name}@%h", "--concurrency", "2"],
            "beat": ["-m", "celery", "-A", "tjworker.app", "beat"],
        }[role]
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TJ_", "KUBE", "PYTEST_", "PYTHON"))}
        health = {} if role == "beat" else {"TJ_HEALTH_PORT": str(self._health[role])}
        env = {
            **kept,
            **SETTINGS,
            **health,
            "TJ_REDIS_URL": self.redis.url,
            "KUBECONFIG": str(self.kubeconfig),
            "PYTHONPATH": str(version.tree),
        }
        # A folder of its own: `python -m` would take the packages of the folder that it stands in.
        process = Process(
            name, ["/usr/bin/env", "-C", str(version.tree), sys.executable, *command], self.folder / f"{name}.log", env
        )
        process.start()
        self._processes[role] = process

    def stop(self, *roles: str) -> None:
        for role in roles:
            self._processes.pop(role).stop(STOP_SECONDS)

    def replace(self, version: Version, *roles: str) -> None:
        """These processes end, and start anew with that version; returns when they are ready."""
        self.stop(*roles)
        for role in roles:
            self.start(role, version)
        self.wait_ready(*roles)

    def run(self, version: Version) -> None:
        for role in ("watcher", "worker", "beat"):
            self.start(role, version)
        self.wait_ready("watcher", "worker")

    def wait_ready(self, *roles: str) -> None:
        self.until("processes are ready", lambda: all(self._ready(role) for role in roles), START_SECONDS)

    def _ready(self, role: str) -> bool:
        process = self._processes[role]
        assert not process.ended(), f"{process.name} ended: {process.ended()}\n{process.last_words()}"
        if role == "worker":
            return "ready." in process.log.read_text()
        if role == "beat":
            return "is starting." in process.log.read_text()
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self._health[role]}/readyz", timeout=5) as answer,
        ):
            return bool(answer.status == 200)
        return False

    def until(
        self, what: str, condition: Callable[[], object], within_seconds: float = waiting.PATIENCE_SECONDS
    ) -> None:
        waiting.until(what, condition, within_seconds, context=self.last_words, look_seconds=LOOK_SECONDS)

    def last_words(self) -> str:
        return "\n".join(f"{process.name}: {process.last_words()}" for process in self._processes.values())

    def watcher_logs(self, version: Version) -> dict[str, str]:
        """name -> all that the watchers of that version have logged, in order."""
        return {file.stem: file.read_text() for file in sorted(self.folder.glob(f"*-watcher-{version.name}.log"))}

    def empty_redis(self) -> None:
        with redis.Redis.from_url(self.redis.url) as client:
            client.flushall()

    def close(self) -> None:
        for process in self._processes.values():
            process.stop(0)
        self.api.close()


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    port, kubeconfig = free_port(), folder / "kubeconfig"
    command = [
        *(sys.executable, "-m", "localcluster", "--port", str(port), "--data-dir", str(folder / "cluster")),
        *("--kubeconfig", str(kubeconfig), "--agent", "fake", "--nodes", "2", "--memory-only", "--insecure"),
    ]
    cluster = Process("cluster", command, folder / "cluster.log")
    with Valkey(folder) as server:
        cluster.start()
        try:
            waiting.until("the cluster has begun", kubeconfig.exists, START_SECONDS, context=cluster.last_words)
            lab = Lab(folder, server, kubeconfig)
            try:
                with ignoring(409):
                    lab.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
                yield lab
            finally:
                lab.close()
        finally:
            cluster.stop(10)
