"""Runs the services of a stack in the foreground: starts them in order, restarts what dies, stops them all.

One thread (the main one: the kernel's death signal hangs on the thread that started a process), no threads of its own
except the one that runs `body`. It says each thing it does in one line. It never gives up a service that has once been ready;
one that cannot start at all ends the stack with its last log lines. Nothing survives it: an orderly stop waits for each
service and then ends whatever still carries the run's mark; a second signal does that at once; after kill -9 the
warden does it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tjworker.cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, UserError
from tjworker.cli.stack import logfile, policy, processes, roster
from tjworker.cli.stack.paths import StatePaths, project_root
from tjworker.cli.stack.processes import ProcessId
from tjworker.cli.stack.service import Running, Service

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PROBE_SECONDS = 0.1
_LOG_CHECK_SECONDS = 10.0
_READY_WITHIN_SECONDS = 90.0


@dataclass(slots=True)
class Handle:
    """What `body` sees of the stack. Thread-safe."""

    ready: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    _states: dict[str, str] = field(default_factory=dict)

    def states(self) -> dict[str, str]:
        """Service -> `ready`, `starting`, `down`; in the order of the start."""
        return dict(self._states)

    def set_state(self, name: str, state: str) -> None:
        self._states[name] = state


Body = Callable[[Handle], int]


class Supervisor:
    def __init__(self, services: Sequence[Service], paths: StatePaths, run_id: str, say: Callable[[str], None]) -> None:
        self._all = {s.name: Running(s) for s in services}
        self._paths = paths
        self._run_id = run_id
        self._say = say
        self._signals: list[int] = []
        self._handle = Handle()
        self._cut_short = False
        self._body_result: list[int | BaseException] = []
        self._warden: subprocess.Popen[bytes] | None = None
        self._log_check_due = 0.0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)

    def run(self, body: Body) -> int:
        """Start everything, run `body` (in a thread) once all is ready, stop everything when it returns or raises, or when a
        signal comes. Returns body's result, 130 after SIGINT, 0 after SIGTERM or SIGHUP. Raises UserError when a service
        cannot start."""
        before = {s: signal.signal(s, self._on_signal) for s in _STOP_SIGNALS}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)  # only to wake the loop
        wakeup_before = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            self._start_warden()
            self._loop(body)
        finally:
            try:
                self._stop_all()
            finally:
                signal.set_wakeup_fd(wakeup_before)
                for signum, handler in before.items():
                    signal.signal(signum, handler)
        return self._result()

    # -- the loop ------------------------------------------------------------------------------------------------------
    def _loop(self, body: Body) -> None:
        thread: threading.Thread | None = None
        while not self._signals and not self._body_result:
            now = time.monotonic()
            self._check_warden()
            for running in self._all.values():
                self._reap(running, now)
                self._start_when_due(running, now)
                self._probe_when_due(running, now)
            if now >= self._log_check_due:
                self._log_check_due = now + _LOG_CHECK_SECONDS
                for name in self._all:
                    logfile.bound(self._paths.log(name))
            if thread is None and all(r.is_ready for r in self._all.values()):
                self._handle.ready.set()
                thread = threading.Thread(target=self._run_body, args=(body,), name="body", daemon=True)
                thread.start()
            self._wait(now)
        self._cut_short = not self._body_result
        self._handle.stopping.set()
        if thread is not None and len(self._signals) < 2:
            thread.join(timeout=1.0)

    def _run_body(self, body: Body) -> None:
        try:
            self._body_result.append(body(self._handle))
        except BaseException as error:  # noqa: BLE001  handed to the main thread, which raises it
            self._body_result.append(error)
        os.write(self._wake_write, b"b")

    def _wait(self, now: float) -> None:
        due = [self._log_check_due]
        for running in self._all.values():
            if running.process is not None and not running.is_ready and not running.service.one_shot:
                due.append(running.probe_due)
            elif running.process is None and running.start_due > now:  # earlier: only its predecessors hold it back
                due.append(running.start_due)
        ready, _, _ = select.select([self._wake_read], [], [], max(0.0, min(due) - now))
        if ready:
            os.read(self._wake_read, 4096)

    def _result(self) -> int:
        if not self._cut_short:
            result = self._body_result[0]
            if isinstance(result, BaseException):
                raise result
            return result
        return EXIT_INTERRUPTED if signal.SIGINT in self._signals else 0

    def _on_signal(self, signum: int, _frame: object) -> None:
        self._signals.append(signum)

    # -- one service -----------------------------------------------------------------------------------------------------
    def _start_when_due(self, running: Running, now: float) -> None:
        service = running.service
        if running.process is not None or (service.one_shot and running.is_ready):
            return
        if now < running.start_due:
            return
        if not running.ever_ready and not all(self._all[name].is_ready for name in service.after):
            return
        running.start(self._paths.log(service.name), processes.mark(self._paths.root, self._run_id))
        running.started_at = running.probe_due = now
        self._handle.set_state(service.name, "starting")
        self._write_roster()

    def _reap(self, running: Running, now: float) -> None:
        if running.process is None or running.process.poll() is None:
            return
        service, returncode = running.service, running.process.returncode
        running.kill_group()
        running.process = running.identity = None
        if service.one_shot and returncode == 0:
            self._mark_ready(running, now)
            return
        lived_seconds = now - running.started_at
        running.is_ready = False
        running.deaths = policy.deaths_in_a_row(running.deaths, lived_seconds)
        self._handle.set_state(service.name, "down")
        if not running.ever_ready and running.deaths >= policy.START_ATTEMPTS:
            raise self._cannot_start(service, f"{policy.describe_exit(returncode)}, {running.deaths} times in a row")
        wait_seconds = policy.restart_wait_seconds(running.deaths)
        running.start_due = now + wait_seconds
        died = f"{service.name} {policy.describe_exit(returncode)} after {lived_seconds:.0f} s"
        self._say(f"{died}; starts again in {wait_seconds:g} s")

    def _probe_when_due(self, running: Running, now: float) -> None:
        if running.process is None or running.is_ready or running.service.one_shot or now < running.probe_due:
            return
        if running.service.ready is None or running.service.ready():
            self._mark_ready(running, time.monotonic())
        elif now - running.started_at > _READY_WITHIN_SECONDS and not running.ever_ready:
            raise self._cannot_start(running.service, f"is not ready after {_READY_WITHIN_SECONDS:.0f} s")
        running.probe_due = time.monotonic() + _PROBE_SECONDS

    def _mark_ready(self, running: Running, now: float) -> None:
        running.is_ready = True
        word = ("done" if running.service.one_shot else "ready") + (" again" if running.ever_ready else "")
        self._say(f"{running.service.name} is {word} ({now - running.started_at:.1f} s)")
        running.ever_ready = True
        self._handle.set_state(running.service.name, "ready")

    def _cannot_start(self, service: Service, what: str) -> UserError:
        log = self._paths.log(service.name)
        lines = "".join(f"\n  {service.name} | {line}" for line in logfile.tail(log))
        return UserError(
            f"{service.name} {what}; its log is {log}{':' if lines else ' (empty)'}{lines}", exit_code=EXIT_FAILED
        )

    def _write_roster(self) -> None:
        identities: dict[str, ProcessId] = {n: r.identity for n, r in self._all.items() if r.identity is not None}
        roster.write_roster(self._paths, self._run_id, identities)

    # -- the warden ------------------------------------------------------------------------------------------------------
    def _start_warden(self) -> None:
        self._warden = subprocess.Popen(
            [sys.executable, "-S", "-m", "tjworker.cli.stack.warden", str(self._paths.root), self._run_id],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=project_root(),
            start_new_session=True,
        )

    def _check_warden(self) -> None:
        if self._warden is not None and self._warden.poll() is not None:
            self._start_warden()

    # -- the stop --------------------------------------------------------------------------------------------------------
    def _stop_all(self) -> None:
        for stage in sorted({r.service.stop_stage for r in self._all.values()}):
            members = [r for r in self._all.values() if r.service.stop_stage == stage and r.process is not None]
            if members and not self._at_once():
                self._say("stopping " + ", ".join(r.service.name for r in members))
                self._stop_stage(members)
            for running in members:
                running.kill_group()
                if running.process is not None:
                    running.process.wait()
                self._handle.set_state(running.service.name, "down")
        left = roster.sweep(self._paths, self._run_id, grace_seconds=0.0 if self._at_once() else 2.0)
        if left:
            self._say(f"ended {left} more process{'es' if left > 1 else ''} of this stack")
        self._paths.roster.unlink(missing_ok=True)
        if self._warden is not None and self._warden.stdin is not None:
            self._warden.stdin.close()
            self._warden.wait()
        self._say("stopped; nothing of this stack runs any more")

    def _at_once(self) -> bool:
        return len(self._signals) >= 2

    def _stop_stage(self, members: Sequence[Running]) -> None:
        for running in members:
            running.signal(signal.SIGTERM)
        began = time.monotonic()
        killed: set[str] = set()
        while not self._at_once():
            waiting = [
                r
                for r in members
                if r.process is not None and r.service.name not in killed and r.process.poll() is None
            ]
            late = [r for r in waiting if time.monotonic() - began >= r.service.stop_seconds]
            for running in late:
                killed.add(running.service.name)
                self._say(f"{running.service.name} does not stop within {running.service.stop_seconds:g} s: killed")
                running.kill_group()
            if not waiting or len(late) == len(waiting):
                return
            ready, _, _ = select.select([self._wake_read], [], [], 0.1)
            if ready:
                os.read(self._wake_read, 4096)
