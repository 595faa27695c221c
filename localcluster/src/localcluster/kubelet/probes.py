"""Probes and lifecycle hooks: run in a small thread pool, judged by thresholds in the kubelet's own thread.

`Prober` counts; `run_action` does one exec, httpGet, tcpSocket or grpc-less check and never raises. A result that comes
for a container that is gone is dropped by its key.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.kubelet.containers import exec_command
from localcluster.wire import Json

KINDS = ("startup", "readiness", "liveness")


@dataclass(slots=True)
class ProbeState:
    """One probe of one run of a container."""

    due: float
    passed: bool = False
    """The verdict so far: ready, started; for liveness it starts as true."""
    streak: int = 0
    """Equal results in a row: positive for successes, negative for failures."""
    running: bool = False
    failed_for_good: bool = False


@dataclass(slots=True)
class Prober:
    """All probes of one run of a container."""

    key: str
    """Identifies the run, so that the late result of an earlier one is dropped."""
    probes: dict[str, Json]
    states: dict[str, ProbeState] = field(default_factory=dict)

    @staticmethod
    def of(key: str, container: Json, started: float) -> Prober:
        probes = {kind: container[f"{kind}Probe"] for kind in KINDS if container.get(f"{kind}Probe")}
        states = {
            kind: ProbeState(due=started + probe.get("initialDelaySeconds", 0), passed=kind == "liveness")
            for kind, probe in probes.items()
        }
        return Prober(key, probes, states)

    @property
    def started(self) -> bool:
        return "startup" not in self.states or self.states["startup"].passed

    @property
    def ready(self) -> bool:
        return self.started and ("readiness" not in self.states or self.states["readiness"].passed)

    @property
    def must_restart(self) -> str:
        """The kind of probe that has given the container up, empty for none."""
        return next(
            (kind for kind in ("startup", "liveness") if kind in self.states and self.states[kind].failed_for_good), ""
        )

    def due(self, now: float) -> list[str]:
        return [kind for kind in self._active_kinds() if not self.states[kind].running and now >= self.states[kind].due]

    def next_due(self) -> float | None:
        return min(
            (self.states[kind].due for kind in self._active_kinds() if not self.states[kind].running), default=None
        )

    def _active_kinds(self) -> list[str]:
        if not self.started:
            # The other probes wait for the startup probe, so that liveness does not kill a program that starts slowly.
            return ["startup"]
        return [kind for kind in self.states if kind != "startup"]

    def take(self, kind: str, success: bool, now: float) -> None:
        state, probe = self.states[kind], self.probes[kind]
        state.running = False
        state.due = now + probe.get("periodSeconds", 10)
        # Thresholds count consecutive results: one of the other kind resets the count.
        state.streak = max(state.streak, 0) + 1 if success else min(state.streak, 0) - 1
        if success and state.streak >= probe.get("successThreshold", 1):
            state.passed = True
        # `doProbe`: a readiness probe goes on, the other two stop until the container has been restarted.
        if not success and -state.streak >= probe.get("failureThreshold", 3):
            state.passed = False
            state.failed_for_good = kind in ("startup", "liveness")


@dataclass(frozen=True, slots=True)
class Result:
    pod: str
    container: str
    key: str
    kind: str
    """A probe's kind, or postStart or preStop."""
    success: bool
    output: str


class Actions:
    """Runs probes and hooks in threads; `take` returns the results that have arrived."""

    def __init__(self, notify: Callable[[str], None], workers: int = 8) -> None:
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="probe")
        self._results: deque[Result] = deque()
        self._notify = notify

    def submit(
        self,
        pod: str,
        container: Json,
        key: str,
        kind: str,
        action: Json,
        *,
        address: str,
        folder: Path,
        timeout_seconds: float,
    ) -> None:
        def work() -> None:
            success, output = run_action(action, container, address, folder, timeout_seconds)
            self._results.append(Result(pod, container["name"], key, kind, success, output))
            self._notify(pod)

        self._pool.submit(work)

    def take(self) -> list[Result]:
        taken = []
        while self._results:
            taken.append(self._results.popleft())
        return taken

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def run_action(  # noqa: PLR0911 - one return an action
    action: Json, container: Json, address: str, folder: Path, timeout_seconds: float
) -> tuple[bool, str]:
    try:
        if "exec" in action:
            return _probe_exec(folder, action["exec"].get("command") or [], timeout_seconds)
        if "httpGet" in action:
            return _probe_http(action["httpGet"], container, address, timeout_seconds)
        if "tcpSocket" in action:
            target = action["tcpSocket"]
            with socket.create_connection(
                (target.get("host") or address, port_of(target["port"], container)), timeout_seconds
            ):
                return True, ""
        if "sleep" in action:
            # Only for hooks: the grace period bounds it.
            subprocess.run(["sleep", str(action["sleep"]["seconds"])], check=False, timeout=timeout_seconds)
            return True, ""
    except (OSError, ValueError, http.client.HTTPException) as error:
        return False, str(error)
    except subprocess.TimeoutExpired:
        return False, f"command timed out after {timeout_seconds:g}s"
    return False, f"no such action here: {', '.join(sorted(action))}"


def port_of(port: int | str, container: Json) -> int:
    if isinstance(port, int) or str(port).isdigit():
        return int(port)
    for each in container.get("ports") or ():
        if each.get("name") == port:
            return int(each["containerPort"])
    raise ValueError(f"container {container['name']} has no port named {port!r}")


def _probe_exec(folder: Path, command: list[str], timeout_seconds: float) -> tuple[bool, str]:
    done = subprocess.run(
        exec_command(folder, command),
        capture_output=True,
        timeout=timeout_seconds,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace").strip()[:1024]


def _probe_http(action: Json, container: Json, address: str, timeout_seconds: float) -> tuple[bool, str]:
    host, port = action.get("host") or address, port_of(action["port"], container)
    connection: http.client.HTTPConnection
    if action.get("scheme", "HTTP").upper() == "HTTPS":
        # A kubelet does not verify the certificate of a probed server.
        connection = http.client.HTTPSConnection(
            host,
            port,
            timeout=timeout_seconds,
            context=ssl._create_unverified_context(),  # noqa: S323
        )  # noqa: RUF100, S323
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    try:
        headers = {h["name"]: h["value"] for h in action.get("httpHeaders") or ()}
        connection.request("GET", action.get("path") or "/", headers={"User-Agent": "kube-probe/1.36", **headers})
        status = connection.getresponse().status
    finally:
        connection.close()
    return 200 <= status < 400, "" if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"
