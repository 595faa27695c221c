"""Runs the services of a stack in the foreground: one coroutine a service starts it, waits until it is ready, and
starts it again when it dies.

Says each thing it does in one line. Never gives up a service that has once been ready; one that cannot start at all
ends the stack with its last log lines. Nothing survives it: an orderly stop waits for each service and then ends
whatever still carries the stack's mark; a second signal does that at once; after kill -9 the warden does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Collection, Sequence
from typing import IO

from tjstack import logfile, processes
from tjstack.paths import StatePaths, project_root
from tjstack.services import Service
from tjworker.base import backoff_seconds
from tjworker.cli.errors import EXIT_INTERRUPTED, UserError

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 10.0
HEALTHY_AFTER_SECONDS = 30.0
START_ATTEMPTS = 3
"""Deaths of a service that has never been ready, after which the stack gives up: what cannot start will not start."""
_PROBE_SECONDS = 0.1
_LOG_CHECK_SECONDS = 10.0


class Handle:
    """What `body` sees of the stack. Thread-safe."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._states: dict[str, str] = {}

    def states(self) -> dict[str, str]:
        """Service -> `ready`, `starting`, `down`; in the order of the first start."""
        return dict(self._states)

    def set_state(self, name: str, state: str) -> None:
        self._states[name] = state


Body = Callable[[Handle], int]


class Supervisor:
    def __init__(
        self, services: Sequence[Service], paths: StatePaths, lock: IO[str], say: Callable[[str], None]
    ) -> None:
        self._services, self._paths, self._lock, self._say = services, paths, lock, say
        self._handle = Handle()
        self._processes: dict[str, Process] = {}
        self._ready = {s.name: asyncio.Event() for s in services}
        self._at_once = asyncio.Event()
        self._signals = 0

    def run(self, body: Body) -> int:
        """Start everything, run `body` (in a thread) once all is ready, stop everything when it returns or raises, or
        when a signal comes. Returns body's result, 130 after SIGINT, 0 after SIGTERM or SIGHUP. Raises what body
        raises, and UserError when a service cannot start. For the main thread only."""
        result = asyncio.run(self._run(body))
        if isinstance(result, BaseException):
            raise result
        return result

    async def _run(self, body: Body) -> int | BaseException:
        loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[int | BaseException] = loop.create_future()
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(signum, self._on_signal, signum)
        warden = [self._start_warden()]
        thread = threading.Thread(target=self._run_body, args=(body, loop), name="body", daemon=True)
        tasks = [asyncio.create_task(self._keep(s)) for s in self._services]
        tasks += [asyncio.create_task(t) for t in (self._tend(warden), self._start_when_ready(thread))]
        for task in tasks:
            task.add_done_callback(self._on_done)
        try:
            return await self._outcome
        finally:
            self._handle.stopping.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if thread.ident is not None and not self._at_once.is_set():
                await asyncio.to_thread(thread.join, 1.0)
            await self._stop_all(warden[0])

    def _settle(self, result: int | BaseException) -> None:
        if not self._outcome.done():
            self._outcome.set_result(result)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._settle(error)

    def _on_signal(self, signum: int) -> None:
        self._signals += 1
        if self._signals >= 2:
            self._at_once.set()
        self._settle(EXIT_INTERRUPTED if signum == signal.SIGINT else 0)

    async def _start_when_ready(self, thread: threading.Thread) -> None:
        await self._wait_until_ready(self._ready)
        thread.start()

    async def _wait_until_ready(self, names: Collection[str]) -> None:
        """All at the same time: one that was ready may have died since."""
        for name in names:
            await self._ready[name].wait()
        while any(self._handle.states()[name] != "ready" for name in names):
            await asyncio.sleep(_PROBE_SECONDS)

    def _run_body(self, body: Body, loop: asyncio.AbstractEventLoop) -> None:
        result: int | BaseException
        try:
            result = body(self._handle)
        except BaseException as error:  # noqa: BLE001  handed to the main thread, which raises it
            result = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the stack has ended without it
            loop.call_soon_threadsafe(self._settle, result)

    # -- one service -------------------------------------------------------------------------------
    async def _keep(self, service: Service) -> None:
        """From the first start to the end of the stack."""
        name = service.name
        deaths = 0
        while True:
            # Only a first start waits for the others: a service that dies later comes back even while its Redis is
            # away.
            if not self._ready[name].is_set():
                await self._wait_until_ready(service.after)
            began = time.monotonic()
            code = await self._run_once(service, began)
            if service.one_shot and code == 0:
                self._mark_ready(service, began)
                return
            lived_seconds = time.monotonic() - began
            # One that ran for a while begins with short waits again.
            deaths = 1 if lived_seconds >= HEALTHY_AFTER_SECONDS else deaths + 1
            self._handle.set_state(name, "down")
            if not self._ready[name].is_set() and deaths >= START_ATTEMPTS:
                self._settle(self._cannot_start(service, f"{describe_exit(code)}, {deaths} times in a row"))
                return
            wait_seconds = backoff_seconds(deaths - 1, FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
            died = f"{name} {describe_exit(code)} after {lived_seconds:.0f} s"
            self._say(f"{died}; starts again in {wait_seconds:g} s")
            await asyncio.sleep(wait_seconds)

    async def _run_once(self, service: Service, began: float) -> int:
        """Its exit code; 127 when it cannot be started."""
        try:
            process = await self._start(service)
        except OSError as error:
            with self._paths.log(service.name).open("a", encoding="utf-8") as log:
                log.write(f"cannot start {service.argv[0]}: {error.strerror}\n")
            return 127
        probing = asyncio.create_task(self._probe(service, began))
        try:
            code = await process.wait()
        finally:
            probing.cancel()
        processes.kill_group(process.pid)  # a killed Celery worker leaves its children behind
        return code

    async def _start(self, service: Service) -> Process:
        """In a session and a group of its own, its output to its log."""
        output = logfile.open_log(self._paths.log(service.name))
        try:
            process = await asyncio.create_subprocess_exec(
                *service.argv,
                stdin=DEVNULL,
                stdout=output,
                stderr=output,
                cwd=service.cwd,
                start_new_session=True,
                env={**service.env, processes.MARKER: str(self._paths.root)},
            )
        finally:
            os.close(output)
        self._processes[service.name] = process
        self._handle.set_state(service.name, "starting")
        pids = {name: p.pid for name, p in self._processes.items() if p.returncode is None}
        # Replaced as a whole: a reader never sees half of it.
        fresh = self._paths.pids.with_suffix(".new")
        fresh.write_text(json.dumps(pids, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self._paths.pids)
        return process

    async def _probe(self, service: Service, began: float) -> None:
        if service.one_shot:
            return
        while service.ready is not None and not await asyncio.to_thread(service.ready):
            limit = service.ready_within_seconds
            if time.monotonic() - began > limit and not self._ready[service.name].is_set():
                self._settle(self._cannot_start(service, f"is not ready after {limit:.0f} s"))
                return
            await asyncio.sleep(_PROBE_SECONDS)
        self._mark_ready(service, began)

    def _mark_ready(self, service: Service, began: float) -> None:
        ready = self._ready[service.name]
        word = ("done" if service.one_shot else "ready") + (" again" if ready.is_set() else "")
        self._say(f"{service.name} is {word} ({time.monotonic() - began:.1f} s)")
        self._handle.set_state(service.name, "ready")
        ready.set()

    def _cannot_start(self, service: Service, what: str) -> UserError:
        log = self._paths.log(service.name)
        lines = "".join(f"\n  {service.name} | {line}" for line in logfile.tail(log))
        return UserError(f"{service.name} {what}; its log is {log}{':' if lines else ' (empty)'}{lines}")

    # -- the warden and the logs -------------------------------------------------------------------
    def _start_warden(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tjstack.warden", str(self._paths.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=project_root(),
            start_new_session=True,
            pass_fds=(self._lock.fileno(),),
        )

    async def _tend(self, warden: list[subprocess.Popen[bytes]]) -> None:
        log_check_due = 0.0
        while True:
            if warden[0].poll() is not None:
                warden[0] = self._start_warden()
            if time.monotonic() >= log_check_due:
                log_check_due = time.monotonic() + _LOG_CHECK_SECONDS
                for service in self._services:
                    logfile.bound(self._paths.log(service.name))
            await asyncio.sleep(1.0)

    # -- the stop ----------------------------------------------------------------------------------
    async def _stop_all(self, warden: subprocess.Popen[bytes]) -> None:
        for stage in sorted({s.stop_stage for s in self._services}):
            running = {n: p for n, p in self._processes.items() if p.returncode is None}
            members = [s for s in self._services if s.stop_stage == stage and s.name in running]
            if members and not self._at_once.is_set():
                self._say("stopping " + ", ".join(s.name for s in members))
            await asyncio.gather(*(self._stop(s, running[s.name]) for s in members))
        # A pod's processes have left the groups of the services.
        left = processes.end_all(self._paths, grace_seconds=0.0 if self._at_once.is_set() else 2.0)
        if left:
            self._say(f"ended {left} more process{'es' if left > 1 else ''} of this stack")
        self._paths.pids.unlink(missing_ok=True)
        if warden.stdin is not None:
            # The warden ends everything when its input ends; by now nothing is left.
            warden.stdin.close()
        warden.wait()
        self._say("stopped; nothing of this stack runs any more")

    async def _stop(self, service: Service, process: Process) -> None:
        """SIGTERM; SIGKILL to its whole group once it has ended, its time is over or a second signal has come."""
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        waits = [asyncio.create_task(process.wait()), asyncio.create_task(self._at_once.wait())]
        await asyncio.wait(waits, timeout=service.stop_seconds, return_when=asyncio.FIRST_COMPLETED)
        if process.returncode is None and not self._at_once.is_set():
            self._say(f"{service.name} does not stop within {service.stop_seconds:g} s: killed")
        processes.kill_group(process.pid)
        await waits[0]
        waits[1].cancel()
        self._handle.set_state(service.name, "down")


def describe_exit(returncode: int) -> str:
    """`subprocess`'s return code in words: negative is a signal."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was ended by {name}"
