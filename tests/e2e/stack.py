"""A whole local stack as a test sees it: `tj up --plain` as a process, kubectl and tj beside it, and its processes to
kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from localcluster.client import ApiError
from localcluster.http_client import HttpClient, from_kubeconfig
from tests.support import waiting
from tests.support.scraping import Scraped, scrape
from tests.support.waiting import PATIENCE_SECONDS
from tjstack import processes
from tjstack.paths import StatePaths
from tjstack.services import kubectl_path

ROOT = Path(__file__).resolve().parents[2]
Json = dict[str, Any]


START_SECONDS = 300.0
CALL_SECONDS = 240.0
"""Of kubectl and tj: longer than any wait of their own."""


def until(what: str, condition: Callable[[], object], *, context: Callable[[], str] = str) -> None:
    """As all tests wait, with a pause that leaves the machine to the processes that are waited for."""
    waiting.until(what, condition, context=context, look_seconds=0.1)


def kubectl_environment(kubeconfig: Path) -> dict[str, str]:
    """Of a kubectl with a cache of its own: it remembers the kinds of a server by its address, and servers of tests
    come and go at the same address."""
    return {**os.environ, "KUBECACHEDIR": str(kubeconfig.parent / "kubectl-cache")}


class LocalStack:
    """`start` it, use it, `stop` it; it may be started again in the same state folder."""

    def __init__(self, state: Path, *options: str, **settings: str) -> None:
        """`options` of `tj up`, and `TJ_*` settings of the operator."""
        self.paths = StatePaths(state)
        self._options, self._settings = options, settings
        self._output = state.parent / f"{state.name}.out"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tjworker.cli",
                    "up",
                    "--plain",
                    "--state-dir",
                    str(self.paths.root),
                    *self._options,
                ],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.environment(),
            )
        waiting.until(
            "the stack is up",
            lambda: "Ctrl-C stops everything" in self.output or self.process.poll() is not None,
            START_SECONDS,
            context=lambda: self.output,
        )
        assert self.process.poll() is None, self.output

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def output(self) -> str:
        return self._output.read_text()

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TJ_", "KUBE", "PYTEST_"))}
        # Sooner than a user needs it: the tests kill what holds keys.
        return {**kept, "TJ_RESYNC_SECONDS": "3", "TJ_LOCK_TTL_SECONDS": "5", **self._settings}

    def wait_stopped(self) -> int:
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def left(self) -> list[psutil.Process]:
        """Every live process of this stack, pods included."""
        return processes.of_stack(self.paths)

    def clear(self) -> None:
        """Whatever the tests did: leave nothing."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        processes.end_all(self.paths, grace_seconds=0)

    # -- its processes -----------------------------------------------------------------------------
    def service(self, name: str) -> psutil.Process:
        return psutil.Process(json.loads(self.paths.pids.read_text())[name])

    def kill_service(self, name: str) -> None:
        """kill -9, and wait until the supervisor says that a new one is ready."""
        back = f"{name} is ready again"
        victim, said = self.service(name), self.output.count(back)
        processes.send(victim, signal.SIGKILL)
        until(back, lambda: self.output.count(back) > said, context=lambda: self.output[-3000:])

    def metrics(self, name: str) -> list[Scraped]:
        """What a service shows, found as Prometheus finds it."""
        rows = json.loads(self.paths.scrape_targets.read_text())
        (target,) = [target for row in rows if row["labels"]["component"] == name for target in row["targets"]]
        return scrape(int(target.rpartition(":")[2]))

    def pod_process(self, job: str, role: str, index: int) -> psutil.Process | None:
        return processes.replica(self.paths, job, role, index)

    # -- its cluster -------------------------------------------------------------------------------
    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        done = subprocess.run(
            [str(kubectl_path()), "--kubeconfig", str(self.paths.kubeconfig), *args],
            env=kubectl_environment(self.paths.kubeconfig),
            input=stdin,
            text=True,
            capture_output=True,
            check=False,
            timeout=CALL_SECONDS,
        )
        assert done.returncode == 0 or not check, f"kubectl {' '.join(args)}: {done.stderr}"
        return done.stdout if done.returncode == 0 else done.stderr

    def tj(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tjworker.cli", *args],
            text=True,
            capture_output=True,
            check=False,
            timeout=CALL_SECONDS,
            cwd=ROOT,
            env={**os.environ, "KUBECONFIG": str(self.paths.kubeconfig)},
        )

    def look(self, path: str, **query: str) -> Json | None:
        """What the API server says to a GET; None when there is no such thing, and while it is away. Over HTTP: tests
        look again and again while they wait, and a kubectl costs a tenth of a second of CPU each time."""
        client = HttpClient(from_kubeconfig(self.paths.kubeconfig), "e2e-test")
        try:
            return client.get(path, **query)
        except ApiError:
            return None
        finally:
            client.close()

    def job(self, name: str) -> Json | None:
        return self.look(f"/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs/{name}")

    def status(self, job: str) -> Json:
        return dict((self.job(job) or {}).get("status") or {})

    def all_pods(self, **query: str) -> list[Json]:
        """[] while the API server is away."""
        return list((self.look("/api/v1/namespaces/default/pods", **query) or {}).get("items") or ())

    def pods(self, job: str) -> dict[str, Json]:
        """By name."""
        return {pod["metadata"]["name"]: pod for pod in self.all_pods(labelSelector=f"job-name={job}")}

    def running_uids(self, job: str) -> dict[str, str]:
        return {
            name: pod["metadata"]["uid"]
            for name, pod in self.pods(job).items()
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        }
