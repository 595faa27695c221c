"""The operator as it is deployed: two watchers, two workers, three beats, a Redis with an append-only file, and before
the API server a proxy. A supervisor starts again what has ended, as Kubernetes does; who ended by itself is told, with
its last words.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson
import redis

from benchmarks.support.valkey import Valkey
from controlplane import ControlPlane
from controlplane.process import Process
from tests.chaos.projection import differences
from tests.chaos.proxy import Proxy
from tests.chaos.served import GUESTS
from tests.chaos.served import SETTINGS as SERVED
from tests.e2e.control_plane.api import open_transport
from tests.e2e.control_plane.install import (
    CELERY,
    SETTINGS,
    WATCHER,
    agent,
    environment,
    install,
    nodes_ready,
    worker,
    worker_ready,
)
from tests.e2e.control_plane.operator import NODES
from tests.support.black_hole import BlackHole
from tjworker.kube import rbac
from tjworker.kube.client import KubeClient
from tjworker.publisher import Publisher
from tjworker.settings import Settings
from tjworker.store.connect import client, open_sealed_store

WATCHERS, WORKERS, BEATS = ("watcher1", "watcher2"), ("worker1", "worker2"), ("beat1", "beat2", "beat3")
LOCK_TTL_SECONDS = int(SETTINGS["TJ_LOCK_TTL_SECONDS"])
PLANE_SUPERVISED = ("kube-controller-manager", "kube-scheduler")
"""A kubelet would start them again. A scheduler ends itself when an API server that died had taken a binding and not
answered: it finds the pod on another node than the one that it chose next ("Scheduler cache is corrupted")."""
NODE_PODS = 1_000
"""No job waits for room: that is not what is tried here."""
RESTART_SECONDS = 1.0
"""A supervisor's wait before it starts a process again."""


class System:
    def __init__(self, plane: ControlPlane, folder: Path, seed: int) -> None:
        self.plane = plane
        self.folder = folder
        self.redis = Valkey(folder, append_only=True)
        self.line = BlackHole(self.redis.port)
        """What lies between the operator's processes and Redis."""
        self.proxy = Proxy(plane.server, seed)
        self.processes: dict[str, Process] = {}
        self.killed: Counter[str] = Counter()
        self.ended_alone: list[str] = []
        self.plane_ended: list[str] = []
        self.ends: dict[tuple[str, int], tuple[str, float]] = {}
        """(name, pid) -> how the process ended, and when (monotonic)."""
        self._expected: set[tuple[str, int]] = set()
        self._log_began: dict[str, int] = {}
        self._stopping = threading.Event()
        self._mutex = threading.Lock()

    # -- start and stop ----------------------------------------------------------------------------
    def start(self) -> None:
        admin = self.plane.kubeconfig
        install(self.plane, kinds=GUESTS)
        self.proxy.start()
        self.redis.start()
        self._transport = open_transport(admin)
        keys = SETTINGS["TJ_RECORD_KEYS"]
        self.settings = Settings(redis_url=self.redis.url, kinds=SERVED["TJ_KINDS"], record_keys=keys)
        self.store = open_sealed_store(self.settings)
        self.publisher = Publisher(self.settings)
        watcher_user, worker_user = (self.plane.kubeconfig_for(rbac.user(process)) for process in ("watcher", "worker"))
        self._add("agent", agent(admin, NODES, "--node-pods", str(NODE_PODS)))
        for name in WATCHERS:
            self._add(name, WATCHER, self.proxy.kubeconfig(watcher_user, name))
        for name in WORKERS:
            self._add(name, worker(name, 2), self.proxy.kubeconfig(worker_user, name))
        for name in BEATS:
            self._add(name, (*CELERY, "beat"), self.folder / "no-kubeconfig")
        self._supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self._supervisor.start()
        self.until("nodes are Ready", lambda: nodes_ready(admin) == NODES, 90)
        self.until("workers are ready", lambda: all(worker_ready(self.processes[name]) for name in WORKERS), 90)

    def stop(self) -> None:
        self._stopping.set()
        self._supervisor.join(10)
        for name in self.processes:
            self._signal(name, signal.SIGKILL)
        self.line.close()
        self.redis.kill()
        self.proxy.stop()
        self._transport.close()

    def _add(self, name: str, command: Sequence[str], kubeconfig: Path | None = None) -> None:
        # The lease of the watchers is the shipped one.
        env = environment(f"redis://127.0.0.1:{self.line.port}/0", kubeconfig, SERVED)
        self.processes[name] = Process(name, command, self.folder / f"{name}.log", env)

    def _supervise(self) -> None:
        """Starts every process, too: the kernel ends a process with the thread that has started it."""
        for name in self.processes:
            self._launch(name)
        while not self._stopping.wait(0.1):
            for name in PLANE_SUPERVISED:
                process = self.plane.processes[name]
                if how := process.ended():
                    self.plane_ended.append(f"{name} ended by itself: {how}: {process.last_words()[-600:]}")
                    process.start()
            for name, process in self.processes.items():
                how = process.ended()
                if not how:
                    continue
                with self._mutex:
                    self.ends[name, process.pid] = how, time.monotonic()
                    if (name, process.pid) not in self._expected:
                        self.ended_alone.append(f"{name} ended by itself: {how}: {process.last_words()[-600:]}")
                # What is left of its group goes with it, as everything in a container does.
                self._signal(name, signal.SIGKILL)
                if not self._stopping.wait(RESTART_SECONDS):
                    self._launch(name)

    def _launch(self, name: str) -> None:
        process = self.processes[name]
        self._log_began[name] = process.log.stat().st_size if process.log.exists() else 0
        process.start()

    # -- what may happen to it ---------------------------------------------------------------------
    def kill(self, name: str) -> None:
        """-9, with all its children, as a container that is killed."""
        with self._mutex:
            self._expected.add((name, self.processes[name].pid))
        self.killed[name.rstrip("0123456789")] += 1
        self._signal(name, signal.SIGKILL)

    def terminate(self, names: Sequence[str], within_seconds: float) -> dict[str, tuple[str, float]]:
        """SIGTERM to the main process of each, as a kubelet sends it. Name -> (how it ended, seconds); a process that
        has not ended by then is left out."""
        began, sent = time.monotonic(), [(name, self.processes[name].pid) for name in names]
        with self._mutex:
            self._expected |= set(sent)
        for _, pid in sent:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        with suppress(NotInTimeError):
            self.until("they have ended", lambda: all(one in self.ends for one in sent), within_seconds)
        return {one[0]: (how, at - began) for one in sent if one in self.ends for how, at in [self.ends[one]]}

    def kill_child(self, name: str, pick: Callable[[list[int]], int]) -> bool:
        """-9 to one of the processes that a worker's tasks run in, alone."""
        children = self.children(name)
        if not children:
            return False
        with suppress(ProcessLookupError):
            os.kill(pick(children), signal.SIGKILL)
        self.killed["worker child"] += 1
        return True

    def pause(self, name: str) -> None:
        self._signal(name, signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self._signal(name, signal.SIGCONT)

    def children(self, name: str) -> list[int]:
        pid, found = self.processes[name].pid, []
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
        return found

    def _signal(self, name: str, number: signal.Signals) -> None:
        pid = self.processes[name].pid
        if pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)

    @contextmanager
    def redis_as_it_is_now(self) -> Iterator[Callable[[], None]]:
        """Gives a function that puts Redis back to this moment: killed, its files replaced by the copy, started."""
        copy = self.folder / "redis-copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder / "appendonlydir", copy)

        def put_back() -> None:
            self.redis.kill()
            shutil.rmtree(self.folder / "appendonlydir")
            shutil.copytree(copy, self.folder / "appendonlydir")
            self.redis.start()

        yield put_back
        shutil.rmtree(copy, ignore_errors=True)

    def redis_command(self, *words: str) -> object:
        with client(self.redis.url) as connection:
            return connection.execute_command(*words)

    def kill_api_server(self) -> None:
        self.plane.processes["kube-apiserver"].stop(0)

    def start_api_server(self) -> None:
        self.plane.processes["kube-apiserver"].start()

    def freeze_api_server(self) -> None:
        os.kill(self.plane.processes["kube-apiserver"].pid, signal.SIGSTOP)

    def thaw_api_server(self) -> None:
        os.kill(self.plane.processes["kube-apiserver"].pid, signal.SIGCONT)

    # -- looking on --------------------------------------------------------------------------------
    def until(self, what: str, true: Callable[[], bool], within_seconds: float) -> float:
        """Seconds it took. Errors of a cluster or a Redis that is away count as not yet."""
        began = time.monotonic()
        while True:
            with suppress(Exception):
                if true():
                    return time.monotonic() - began
            if time.monotonic() - began > within_seconds:
                raise NotInTimeError(f"not within {within_seconds:.0f} s: {what}")
            time.sleep(0.1)

    def said(self, name: str, words: str) -> bool:
        """Since it was started last."""
        return words.encode() in self.processes[name].log.read_bytes()[self._log_began[name] :]

    def projection_differs(self) -> list[str]:
        """In what Redis is not what the API server has, now."""
        return differences(KubeClient(self._transport), self.store.projection)

    def leader(self) -> tuple[str, int]:
        """(name, pid) of the watcher that the Lease names. Raises LookupError when that is none of those that run."""
        leases = self._transport.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{rbac.NAMESPACE}/leases")
        text = " ".join(lease["spec"].get("holderIdentity") or "" for lease in orjson.loads(leases.body)["items"])
        for name in WATCHERS:
            if f"_{self.processes[name].pid}_" in text:
                return name, self.processes[name].pid
        raise LookupError(f"the Lease names {text!r}, which is no watcher that runs")


def listen(port: int, seconds: float, silence_seconds: float = 1.0) -> Iterator[tuple[float, str]]:
    """Every command that the Redis of this port gets for so long, as MONITOR tells: (Unix time by its clock, the
    command). After a silence, or when Redis goes, it is asked anew; what comes in between is not heard."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(redis.RedisError), redis.Redis(port=port, socket_timeout=silence_seconds).monitor() as monitor:  # type: ignore[no-untyped-call]
            while time.monotonic() < end:
                heard = monitor.next_command()  # after a time-out redis-py hears nothing more on this connection
                yield float(heard["time"]), str(heard["command"])


class NotInTimeError(AssertionError):
    """Something that was promised did not come."""
