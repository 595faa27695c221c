"""The demo's run: applies the job, sees the autoscaler let it grow, kills a trainer, waits for the end. Writes to the
cluster what a user would, and sends one SIGKILL; everything else it only watches.

Each wait names what it waits for and how long; one that fails, or a job that ends too early, raises StoryFailed with
all that is known.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tjstack import processes
from tjstack.local import Stack
from tjstack.reporter import Reporter
from tjstack.services import kubectl_path
from tjstack.summary import Seen
from tjworker.api import labels
from tjworker.api.kinds import aitrainingjob
from tjworker.api.resources import PODS
from tjworker.api.status import END_PHASES
from tjworker.base import JsonDict, OperatorError
from tjworker.cli.cluster import Cluster
from tjworker.cli.informer import Informer
from tjworker.cli.jobs import FoundJob, pods_selector
from tjworker.cli.logstream import WHOLE, Follower, Wanted

JOBS = aitrainingjob.RESOURCE
NAMESPACE, JOB, ROLE = "default", "digits", "trainer"
START_REPLICAS, MOST_REPLICAS = 2, 5
"""minReplicas and maxReplicas of the manifest."""
KILL_AT = 1 / 3
"""Part of the training after which that happens."""
_EPOCH = re.compile(r"\bepoch (\d+)/(\d+)")
_ACCURACY = re.compile(r"\baccuracy (\d+\.\d+)")


class StoryFailed(Exception):
    """Why the run did not go as it should."""


class DemoStory:
    def __init__(self, stack: Stack, cluster: Cluster, reporter: Reporter, manifest: Path) -> None:
        self._stack, self._cluster, self._reporter, self._manifest = stack, cluster, reporter, manifest
        self._began = 0.0
        self._progress = 0.0
        self._stop = threading.Event()
        self.seen = Seen()

    def run(self) -> None:
        """Raises StoryFailed. Returns early, with nothing said, when the stack is being stopped."""
        self._remove_earlier()
        self._began = time.monotonic()
        with Informer(self._cluster.api, JOBS, NAMESPACE, on_change=self._on_job):
            self._apply()
            self._until("the job exists", lambda: bool(self.seen.job), 60)
            follower = threading.Thread(target=self._follow_master, name="master-log", daemon=True)
            follower.start()
            try:
                self._train()
            finally:
                self.seen.job_seconds = time.monotonic() - self._began
                if self._phase() not in END_PHASES:
                    self._stop.set()
                follower.join(timeout=10)

    def _train(self) -> None:
        self._until(f"{START_REPLICAS} trainers run", lambda: self._active() >= START_REPLICAS, 180)
        self._watch_it_grow()
        self._until(f"{KILL_AT:.0%} of the training", lambda: self._progress >= KILL_AT, 300)
        self._kill_one()
        self._until("the job's end", lambda: self._phase() in END_PHASES, 600)

    def tidy(self) -> None:
        """Take the job that is over away: the state folder is that of `tj up` too, and applying the manifest to a job
        that has ended trains nothing. Best effort."""
        with contextlib.suppress(OperatorError, StoryFailed):
            self._remove()

    # -- steps -------------------------------------------------------------------------------------
    def _remove_earlier(self) -> None:
        earlier = self._cluster.api.get(JOBS, NAMESPACE, JOB)
        if earlier is not None:
            self._reporter.say(f"an earlier job {JOB} is there: deleted")
            self._remove()

    def _remove(self) -> None:
        job = self._cluster.api.get(JOBS, NAMESPACE, JOB)
        if job is not None:
            self._cluster.api.delete(JOBS, NAMESPACE, JOB, uid=job["metadata"]["uid"], propagation="Foreground")
            gone = lambda: self._cluster.api.get(JOBS, NAMESPACE, JOB) is None  # noqa: E731
            self._until(f"the job {JOB} is gone", gone, 120, may_end=True)

    def _apply(self) -> None:
        self._heading(f"kubectl apply -f {self._manifest.relative_to(self._stack.plan.root)}")
        kubeconfig = str(self._stack.plan.paths.kubeconfig)
        command = [str(kubectl_path()), "--kubeconfig", kubeconfig, "apply", "-f", str(self._manifest)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode:
            raise StoryFailed(f"kubectl apply was refused: {done.stderr.strip()}")

    def _kill_one(self) -> None:
        index = START_REPLICAS - 1
        self.seen.killed = pod_name = f"{JOB}-{ROLE}-{index}"
        process = processes.replica(self._stack.plan.paths, JOB, ROLE, index)
        before = self._pod(pod_name)
        if process is None or before is None:
            raise StoryFailed(f"the process of {pod_name} was not found, so it could not be killed")
        self._heading(f"kill -9 {process.pid}   (the process of {pod_name})")
        began = time.monotonic()
        processes.send(process, signal.SIGKILL)

        def replaced() -> bool:
            now = self._pod(pod_name)
            # The name stays the same: only the UID shows that the pod is a new one.
            if now is None or now["metadata"]["uid"] == before["metadata"]["uid"]:
                return False
            return bool((now.get("status") or {}).get("phase") == "Running")

        self._until(f"{pod_name} is replaced", replaced, 180)
        self.seen.replaced_after_seconds = time.monotonic() - began
        self._reporter.say(f"{pod_name} runs again, as a new pod, after {self.seen.replaced_after_seconds:.1f} s")

    def _watch_it_grow(self) -> None:
        """No command asks for it: edlPolicy Auto, and there is room."""
        before, began = self._trainers(), time.monotonic()
        self._heading(f"(no command: edlPolicy Auto, so the autoscaler lets {JOB} grow where there is room)")
        self._until(
            f"the autoscaler has let the job grow to {MOST_REPLICAS} trainers",
            lambda: self._active() == MOST_REPLICAS and self._phase() == "Running",
            300,
        )
        self.seen.grown_after_seconds = time.monotonic() - began
        after = self._trainers()
        self.seen.restarted_by_growth = sorted(name for name, uid in before.items() if after.get(name) != uid)
        for record in reversed((self.seen.job.get("status") or {}).get("scaleRecords") or []):
            self._reporter.say(f"{record['role']} {record['from']} -> {record['to']}   {record['reason']}")
        restarted = ", ".join(self.seen.restarted_by_growth) or "no trainer"
        took = f"{self.seen.grown_after_seconds:.1f} s"
        self._reporter.say(
            f"{MOST_REPLICAS} trainers run, {took} after the first two; {restarted} was restarted for it"
        )

    # -- what is seen ------------------------------------------------------------------------------
    def _on_job(self, kind: str, job: JsonDict) -> None:
        if job["metadata"]["name"] != JOB or kind == "DELETED":
            return
        phase = str((job.get("status") or {}).get("phase") or "")
        if phase and (not self.seen.phases or self.seen.phases[-1][1] != phase):
            self.seen.phases.append((time.monotonic() - self._began, phase))
        self.seen.job = job

    def _follow_master(self) -> None:
        def emit(_label: str, line: str) -> None:
            if match := _EPOCH.search(line):
                self._progress = int(match[1]) / max(1, int(match[2]))
            if match := _ACCURACY.search(line):
                self.seen.accuracy = float(match[1])
            self._reporter.say(f"  master | {line}", style="cyan")

        found = FoundJob(JOBS, self.seen.job)
        Follower(self._cluster, NAMESPACE, found, Wanted("master"), WHOLE, emit).run(self._stop)

    def _phase(self) -> str:
        return str((self.seen.job.get("status") or {}).get("phase") or "")

    def _active(self) -> int:
        statuses = (self.seen.job.get("status") or {}).get("replicaStatuses") or {}
        return int((statuses.get(ROLE) or {}).get("active") or 0)

    def _pod(self, name: str) -> JsonDict | None:
        return self._cluster.api.get(PODS, NAMESPACE, name)

    def _trainers(self) -> dict[str, str]:
        """Pod name -> UID."""
        selector = f"{pods_selector(JOB)},{labels.REPLICA_NAME}={ROLE}"
        pods = self._cluster.api.list_all(PODS, NAMESPACE, label_selector=selector)
        return {str(p["metadata"]["name"]): str(p["metadata"]["uid"]) for p in pods}

    def _heading(self, text: str) -> None:
        self._reporter.line()
        self._reporter.say(f"$ {text}", style="bold")

    def _until(self, what: str, condition: Callable[[], bool], within_seconds: float, *, may_end: bool = False) -> None:
        deadline = time.monotonic() + within_seconds
        while True:
            try:
                if condition():
                    return
            except OperatorError as error:  # the local cluster is being restarted: the deadline decides
                last = error.message
            else:
                last = ""
            if self._stack.handle.stopping.is_set():
                raise StoryFailed("stopped")
            if not may_end and self._phase() in END_PHASES:
                raise StoryFailed(f"the job ended as {self._phase()} before this: {what}")
            if time.monotonic() > deadline:
                raise StoryFailed(f"not within {within_seconds:.0f} s: {what}" + (f" ({last})" if last else ""))
            self._stack.handle.stopping.wait(0.1)
