"""`python -m examples.digits.local --trainers 3`: the whole job on loopback, without any operator.

Starts each role as a process with the environment that the operator would write, and plays the operator's part as far
as it must: a trainer that fails, and a server that dies by a signal, is started again. Ends all that it has started,
whatever happens. Its exit code is the master's.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
END_SECONDS = 5.0
"""How long replicas may take to end by themselves after the master, or after SIGTERM."""


class LocalJob:
    """The job's processes, by name: `trainer-0` and so on. A context that ends them all; for one thread."""

    def __init__(
        self,
        *,
        trainers: int,
        pservers: int = 2,
        arguments: Mapping[str, Sequence[str]] | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.trainers = trainers
        """How many are wanted; may be changed at any time."""
        self._arguments = arguments or {}
        self._say = say
        servers = ["master-0", *(f"pserver-{index}" for index in range(pservers))]
        self._ports = dict(zip(servers, _free_ports(len(servers)), strict=True))
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.exit_codes: dict[str, list[int]] = {}
        """Of each replica, how its processes have ended so far. Negative: by that signal."""
        self._leaving: set[str] = set()
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.terminate()
        deadline = time.monotonic() + END_SECONDS
        for name, process in list(self.processes.items()):
            try:
                process.wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._record(name)
        for reader in self._readers:
            reader.join(END_SECONDS)

    def step(self) -> int | None:
        """Starts what is wanted and is not there, ends what is there and not wanted. Once the master has ended by
        itself it waits for the others, which do so too, and gives the master's exit code; until then None."""
        for name, process in list(self.processes.items()):
            if process.poll() is not None:
                self._record(name)
        ended = self.exit_codes.get("master-0", [])
        if ended and 0 <= ended[-1] < 128 and "master-0" not in self.processes:
            # 2: it never came to the training, so it reported no end.
            deadline = time.monotonic() + (END_SECONDS if ended[-1] != 2 else 0)
            while any(process.poll() is None for process in self.processes.values()) and time.monotonic() < deadline:
                time.sleep(0.02)
            return ended[-1]
        wanted = [*self._ports, *(f"trainer-{index}" for index in range(self.trainers))]
        for name in wanted:
            if name not in self.processes and self._may_start(name):
                self._start(name)
        for name in self.processes.keys() - set(wanted) - self._leaving:
            # Once: a second SIGTERM may meet a process that has put its handlers away and is about to end well.
            self._leaving.add(name)
            self.processes[name].terminate()
        return None

    def run(self, deadline_seconds: float = 600) -> int:
        """Steps until the master has ended. Raises TimeoutError."""
        deadline = time.monotonic() + deadline_seconds
        while (code := self.step()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job has not ended within {deadline_seconds:.0f} s")
            time.sleep(0.05)
        return code

    def _may_start(self, name: str) -> bool:
        last = (self.exit_codes.get(name) or [-1])[-1]
        return last != 0 if name.startswith("trainer") else last < 0 or last >= 128

    def _start(self, name: str) -> None:
        role, _, index = name.rpartition("-")
        restarts = len(self.exit_codes.get(name, []))
        environment = {
            **os.environ,
            **{f"{r.upper()}_HOSTS": ",".join(self._hosts(r)) for r in ("master", "pserver")},
            **{f"{r.upper()}_INSTANCES_NUM": str(len(self._hosts(r))) for r in ("master", "pserver")},
            "TRAININGJOB_NAME": "digits",
            "TRAININGJOB_REPLICA_NAME": role,
            "TRAININGJOB_REPLICA_INDEX": index,
            "TRAININGJOB_REPLICA_RESTARTCOUNT": str(restarts),
            "TRAININGJOB_SERVICE": "127.0.0.1" if name in self._ports else "",
            "TRAININGJOB_PORTS": str(self._ports.get(name, "")),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", f"examples.digits.{role}", *self._arguments.get(role, ())],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            # Out of reach of the terminal's Ctrl-C: this process ends them, in order and once.
            start_new_session=True,
        )  # fmt: skip
        self.processes[name] = process
        reader = threading.Thread(target=self._forward, args=(name, process), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _hosts(self, role: str) -> list[str]:
        return [f"127.0.0.1:{port}" for name, port in self._ports.items() if name.startswith(role)]

    def _forward(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101  it was made with PIPE
        for line in process.stdout:
            self._say(f"{name:<9} | {line.rstrip()}")

    def _record(self, name: str) -> None:
        self._leaving.discard(name)
        self.exit_codes.setdefault(name, []).append(self.processes.pop(name).returncode)


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago. Below those that Linux gives to clients (32768 on): a server that is started
    again finds its own free."""
    found: dict[int, None] = {}
    while len(found) < count:
        port = random.randint(20_000, 31_999)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found[port] = None
    return list(found)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.digits.local", description="The whole job on loopback, without any operator."
    )
    add = parser.add_argument
    add("--trainers", type=int, default=3, help="at the start (default %(default)s)")
    add("--epochs", type=int, default=20)
    add("--target", type=float, default=0.95)
    add("--seed", type=int, default=1)
    add("--shard-seconds", type=float, default=0.1, help="least time for a shard (default %(default)s; 0: flat out)")
    add("--checkpoint-dir", type=Path, help="where the master keeps its checkpoint")
    add("--kill", metavar="REPLICA@SECONDS", action="append", default=[], type=_event, help="as in trainer-1@10")
    add("--scale", metavar="TRAINERS@SECONDS", action="append", default=[], type=_event, help="as in 5@20")
    options = parser.parse_args(arguments)
    master = [f"--{name}={getattr(options, name)}" for name in ("epochs", "target", "seed")]
    if options.checkpoint_dir:
        master.append(f"--checkpoint-dir={options.checkpoint_dir.resolve()}")
    events = [(at, "kill", what) for what, at in options.kill] + [(at, "scale", what) for what, at in options.scale]
    events.sort()
    job = LocalJob(
        trainers=options.trainers,
        arguments={"master": master, "trainer": [f"--shard-seconds={options.shard_seconds}"]},
        say=lambda line: print(line, flush=True),
    )
    # So that the context below ends the replicas then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begin = time.monotonic()
    with job:
        while (code := job.step()) is None:
            while events and time.monotonic() - begin >= events[0][0]:
                _, what, value = events.pop(0)
                print(f"local     | {what} {value}", flush=True)
                if what == "scale":
                    job.trainers = int(value)
                elif value in job.processes:
                    job.processes[value].kill()
            time.sleep(0.05)
    return code


def _event(text: str) -> tuple[str, float]:
    what, _, seconds = text.rpartition("@")
    if not what:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form WHAT@SECONDS, as in trainer-1@10")
    return what, float(seconds)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
