"""Containers as local processes: start one under its container runner, look at its state, signal it, find it again.

Everything is in the container's folder (see `container_runner.py`), so a kubelet that restarts goes on where the last
one died. Never waits: `look` reads files and process tables only. A process is known by pid and start time, so a pid
that was used again is never signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from localcluster.kubelet import container_runner
from localcluster.kubelet.namespaces import isolate

PACKAGES = str(Path(container_runner.__file__).resolve().parents[2])
START = (
    f"import sys; sys.path.append({PACKAGES!r}); "
    "from localcluster.kubelet import container_runner; sys.exit(container_runner.main(sys.argv[1:]))"
)
RUNNER = [sys.executable, "-I", "-S", "-c", START]
"""A container runner's command line, before its arguments."""
START_ERROR_CODE = 128
OF_RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: {}: unknown"
)
"""What containerd says when a command cannot be started."""


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a container at one look."""

    kind: str
    """starting | running | exited | failed (could not be started) | lost (its container runner is gone without a
    word)"""
    started: float = 0.0
    finished: float = 0.0
    exit_code: int = 0
    message: str = ""


class Container:
    """One run (attempt) of one container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        """The runner, when this kubelet started it."""
        self._final: Look | None = None

    def start(self, spec: dict[str, Any]) -> int:
        """Starts the container runner; the file descriptor that ends when the command runs or has failed to."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / "spec.json").write_bytes(orjson.dumps(spec))
        (self.folder / "spec.json").chmod(0o600)
        with (self.folder / "container_runner.err").open("wb") as errors:
            self.process = subprocess.Popen(
                [*RUNNER, str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Ctrl-C in the terminal of the kubelet must not reach the containers, which outlive it.
                start_new_session=True,
                # The container's own environment is in spec.json; nothing of the kubelet's may leak into it.
                env={"PATH": os.environ.get("PATH", "")},
            )
        (self.folder / "container_runner.json").write_bytes(
            orjson.dumps({"runner": self.process.pid, "runner_ticks": container_runner.start_ticks(self.process.pid)})
        )
        assert self.process.stdout is not None  # noqa: S101 - stdout=PIPE above
        return self.process.stdout.fileno()

    def look(self) -> Look:
        if self._final is not None:
            if self.process is not None:
                self.process.poll()  # reaps a runner that ended after its last word
            return self._final
        ended = self._read_end()
        if ended is None and not self._runner_alive():
            # It may have written its last word between the two looks.
            ended = self._read_end() or Look(
                "lost", started=float(self._read_json("state.json").get("started", 0.0)), exit_code=137
            )
        if ended is not None:
            if self.process is not None:
                if self.process.stdout is not None:
                    self.process.stdout.close()
                if ended.kind != "lost":
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self.process.wait(timeout=1.0)
                self.process.poll()
            # A killed runner leaves the command's processes behind.
            if ended.kind == "lost":
                self.kill_all()
            self._final = ended
            return ended
        state = self._read_json("state.json")
        return Look("running", started=state["started"]) if state else Look("starting")

    def _read_end(self) -> Look | None:
        record = self._read_json("exit.json")
        if not record:
            return None
        if "error" in record:
            message = record["error"]
            if message.startswith(("exec:", "chdir")):
                message = OF_RUNC.format(message)
            return Look("failed", 0.0, record["finished"], START_ERROR_CODE, message)
        return Look("exited", record["started"], record["finished"], record["code"])

    def _runner_alive(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        record = self._read_json("container_runner.json")
        return bool(record) and _is_same_process(record["runner"], record["runner_ticks"])

    @property
    def runner_pid(self) -> int:
        return (
            self.process.pid
            if self.process is not None
            else int(self._read_json("container_runner.json").get("runner", 0))
        )

    def signal(self, number: int) -> None:
        """To the whole process group of the command, if it still is the same one."""
        state = self._read_json("state.json")
        if state and _is_same_process(state["pid"], state["pid_ticks"]):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(state["pid"], number)

    def kill_all(self) -> None:
        """Without a container runner to do it: every process that carries this container's mark."""
        self.signal(signal.SIGKILL)
        for pid in container_runner.marked(str(self.folder)):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            record: dict[str, Any] = orjson.loads((self.folder / name).read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}
        return record


def _is_same_process(pid: int, ticks: int) -> bool:
    fields = container_runner.stat_fields(pid)
    if not fields:
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return True
    # The kernel reuses pids; the start time distinguishes two processes.
    return fields[0] != "Z" and int(fields[19]) == ticks


def list_attempts(folder: Path) -> list[int]:
    """The runs of one container that have a folder."""
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit()) if folder.is_dir() else []


def exec_command(folder: Path, command: list[str]) -> list[str]:
    """The command line that runs `command` in a container."""
    return [*RUNNER, "exec", str(folder), "--", *command]


def detect_isolation(folder: Path) -> str:
    """How a container can get mount points of its own: `root`, `userns`, or `none`. Tried, not guessed."""
    if sys.platform != "linux":
        return "none"
    folder.mkdir(parents=True, exist_ok=True)
    hosts = folder / "isolation-test"
    hosts.write_text("127.0.0.1 localhost\n", encoding="utf-8")
    for mode in ("root", "userns") if os.geteuid() == 0 else ("userns",):
        if _in_child(lambda mode=mode: isolate(mode, "isolation-test", [[str(hosts), "/etc/hosts", False]])):  # type: ignore[misc]
            return mode
    return "none"


def _in_child(action: Callable[[], None]) -> bool:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - any failure means "not available"
            code = 1
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
