"""One operator of real processes in a namespace of its own, as k8s/ runs it: watchers, workers, beat, the report
server, a Redis behind TLS and a local cluster. Each process reaches Redis and the API server over a line of its own,
which can be spoiled.

What ends by itself is started again, as Kubernetes does, in a pod with another name; what a fault has stopped stays
away until the fault is over.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import orjson
import urllib3

from benchmarks.support.valkey import Valkey, free_port
from controlplane.process import Process
from localcluster.client import ApiError
from localcluster.http_client import HttpClient, from_kubeconfig
from tests.chaos.proxy import Faults, Proxy, Special
from tests.e2e.control_plane.install import WATCHER, environment, kubectl, worker
from tests.support import tls
from tests.support.black_hole import BlackHole
from tests.support.kubeconfig import make_kubeconfig
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.api.reporting import audience, status_path
from tjworker.base import GroupResource, JobName
from tjworker.store.connect import client

JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
NODES = "/api/v1/nodes"
BEAT = (sys.executable, "-m", "celery", "-A", "tjworker.app", "beat")
REPORTER = (sys.executable, "-m", "tjworker.reports")
Json = dict[str, Any]


class Operator:
    def __init__(self, namespace: str, folder: Path, *, watchers: int, workers: int) -> None:
        self.namespace = namespace
        self.folder = folder / namespace
        self.folder.mkdir()
        self._targets = folder / f"{namespace}.targets.json"
        self._stack = ExitStack()
        self.commands: dict[str, Sequence[str]] = {
            **{f"watcher{n}": WATCHER for n in range(1, watchers + 1)},
            **{name: worker(name, 1) for name in (f"worker{n}" for n in range(1, workers + 1))},
            "beat": BEAT,
            "reporter": REPORTER,
        }
        self.watchers = [name for name in self.commands if name.startswith("watcher")]
        self.workers = [name for name in self.commands if name.startswith("worker")]
        self._processes: dict[str, Process] = {}
        self._environments: dict[str, dict[str, str]] = {}
        self._ports: dict[str, int] = {}
        self._pods: dict[str, str] = {}
        self._generation = 0
        self.lines: dict[str, BlackHole] = {}
        self.redis = Valkey(self.folder)
        self._tls_port = free_port()
        self._tls = ExitStack()
        self._reports_port = free_port()
        self._reports_tls = self.folder / "reports"

    # -- start and stop ----------------------------------------------------------------------------
    def start(self) -> None:
        self.redis.start()
        self._stack.callback(self.redis.kill)
        self._stack.enter_context(self._tls)
        self.certify(365)
        tls.certify(self._reports_tls, "localhost")
        kubeconfig = self.folder / "kubeconfig"
        port = free_port()
        command = (sys.executable, "-m", "localcluster", "--insecure", "--memory-only", "--agent=fake", "--nodes=4")
        places = (f"--port={port}", f"--data-dir={self.folder / 'cluster'}", f"--kubeconfig={kubeconfig}")
        cluster = Process("localcluster", (*command, *places), self.folder / "localcluster.log")
        cluster.start()
        self._stack.callback(cluster.stop, 5)
        until("the local cluster serves", kubeconfig.exists, context=cluster.last_words)
        kubectl(kubeconfig, "create", "namespace", self.namespace)
        kubectl(kubeconfig, "apply", "--server-side", "-f", str(ROOT / "k8s/crds"))
        self.api = HttpClient(from_kubeconfig(kubeconfig), "alerts-test")
        self._stack.callback(self.api.close)
        self.proxy = Proxy(f"http://127.0.0.1:{port}", seed=1)
        self.proxy.start()
        self._stack.callback(self.proxy.stop)
        for name in list(self.commands):
            self.launch(name)

    def stop(self) -> None:
        for name in list(self._processes):
            self._signal(name, signal.SIGKILL)
        for line in self.lines.values():
            line.close()
        self._stack.close()

    def certify(self, days: int) -> None:
        """Redis has a new certificate, good for so long, and is started anew with it."""
        self._tls.close()
        folder = tls.certify(self.folder / f"tls-{days}", "localhost", days=days)
        authority = self.folder / "ca.crt"
        authority.write_bytes((folder / "ca.crt").read_bytes())
        self._tls.enter_context(tls.proxy(folder, self.redis.port, self._tls_port))

    # -- its processes -----------------------------------------------------------------------------
    def launch(self, name: str, command: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> None:
        """Start it, in place of the one of that name. By default with the command and the settings that it always
        has."""
        self.kill(name)
        if name not in self.lines:
            self.lines[name] = BlackHole(self._tls_port)
            self._ports[name] = free_port()
        url = f"rediss://localhost:{self.lines[name].port}/0?ssl_ca_certs={self.folder / 'ca.crt'}"
        kubeconfig = self.folder / f"{name}.kubeconfig"
        kubeconfig.write_bytes(orjson.dumps(make_kubeconfig(f"{self.proxy.url}/{name}")))
        made = environment(url, None if name == "beat" else kubeconfig, {})
        made |= {
            "PYTHONPATH": str(ROOT),
            "TJ_OWN_NAMESPACE": self.namespace,
            "TJ_METRICS_HOST": "127.0.0.1",
            "TJ_METRICS_PORT": str(self._ports[name]),
            # Sooner, as the windows of the alerts are. The Lease is that of `tj up`.
            "TJ_LEASE_DURATION_SECONDS": "6",
            "TJ_LEASE_RENEW_SECONDS": "2",
            "TJ_COLLECT_ORPHANS_SECONDS": "5",
            "TJ_NODE_FAILURE_GRACE_SECONDS": "1",
            "TJ_REPORTS_HOST": "127.0.0.1",
            "TJ_REPORTS_PORT": str(self._reports_port),
            "TJ_REPORTS_TLS_FOLDER": str(self._reports_tls),
            **(settings or {}),
        }
        self._processes[name] = Process(name, command or self.commands[name], self.folder / f"{name}.log", made)
        self._run(name)

    def kill(self, name: str) -> None:
        """-9, with its children; its pod is gone. Nobody starts it again."""
        if process := self._processes.pop(name, None):
            self._signal_of(process, signal.SIGKILL)
            process.stop(0)
            del self._pods[name]
            self._write_targets()

    def supervise(self) -> None:
        """Start again what has ended by itself."""
        for name, process in self._processes.items():
            if process.ended():
                self._signal_of(process, signal.SIGKILL)
                self._run(name)

    def _run(self, name: str) -> None:
        self._processes[name].start()
        self._generation += 1
        self._pods[name] = f"tj-{name}-{self._generation}"
        self._write_targets()

    def _write_targets(self) -> None:
        """With the labels that a PodMonitor gives to what it scrapes."""
        rows = [
            {"targets": [f"127.0.0.1:{self._ports[name]}"], "labels": {"namespace": self.namespace, "pod": pod}}
            for name, pod in self._pods.items()
        ]
        written = self._targets.with_suffix(".new")
        written.write_bytes(orjson.dumps(rows))
        written.replace(self._targets)

    def _signal(self, name: str, number: signal.Signals) -> None:
        self._signal_of(self._processes[name], number)

    @staticmethod
    def _signal_of(process: Process, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)

    # -- what is around them -----------------------------------------------------------------------
    def tell_redis(self, *words: str) -> None:
        with client(self.redis.url) as connection:
            connection.execute_command(*words)

    def api_answers(self, *specials: Special, dead: bool = False) -> None:
        self.proxy.faults = Faults(specials=specials, dead=dead)
        if dead:
            self.proxy.break_watches()

    # -- jobs --------------------------------------------------------------------------------------
    def create_job(self, name: str, **spec: Any) -> None:
        container = {"name": "aitj-trainer", "image": "busybox:1"}
        role = {"replicas": 1, "template": {"spec": {"containers": [container]}}, **spec}
        body = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "metadata": {"name": name}}
        self.api.create(JOBS, {**body, "spec": {"replicaSpecs": {"trainer": role}}})

    def touch_jobs(self) -> None:
        """A change that each job is reconciled for."""
        for job in self.jobs():
            with suppress(ApiError):
                self.api.patch(f"{JOBS}/{job}", {"metadata": {"annotations": {"touched": str(time.time())}}})

    def jobs(self) -> list[str]:
        return [job["metadata"]["name"] for job in self.api.get(JOBS)["items"]]

    def delete_jobs(self) -> None:
        for job in self.jobs():
            self.api.delete(f"{JOBS}/{job}")

    def runs(self, job: str) -> bool:
        return bool(self.api.get(f"{JOBS}/{job}").get("status", {}).get("phase") == "Running")

    def token(self, job: str) -> str:
        """By which its pod reports, as the pod's kubelet asks for it."""
        pod = self.api.get(f"/api/v1/namespaces/default/pods/{job}-trainer-0")["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
        spec = {"audiences": [audience(_name(job))], "expirationSeconds": 600, "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        made = self.api.create("/api/v1/namespaces/default/serviceaccounts/default/token", body)
        return str(made["status"]["token"])

    def report(self, job: str, token: str, percentage: int) -> int:
        """The status of the answer to such a report of progress."""
        with urllib3.PoolManager(ca_certs=str(self._reports_tls / "ca.crt")) as pool:
            return pool.request(
                "POST",
                f"https://localhost:{self._reports_port}{status_path(_name(job))}",
                body=orjson.dumps({"trainerStatus": {"progressPercentage": percentage}}),
                headers={"Authorization": f"Bearer {token}"},
                timeout=PATIENCE_SECONDS,
            ).status


def _name(job: str) -> JobName:
    return JobName(GroupResource("aitrainingjobs.elasticdeeplearning.ai"), "default", job)
