"""A stack of dummy services under the real supervisor, as a program: `python toy_stack.py <state dir> <scenario>`.

A program, because the supervisor owns the signals of its process and the tests kill it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tjworker.cli.errors import UserError
from tjworker.cli.stack import probes, roster
from tjworker.cli.stack.paths import StatePaths
from tjworker.cli.stack.service import Service
from tjworker.cli.stack.supervisor import Handle, Supervisor

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
# Ignores SIGTERM and has a child in a session of its own, as a pod has.
STUBBORN = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "time.sleep(600)'], start_new_session=True); print('up', flush=True); time.sleep(600)"
)
# A child in its own group, as a Celery worker has.
FAMILY = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)']); "
    "print('up', flush=True); time.sleep(600)"
)


def service(
    name: str, code: str, paths: StatePaths, after: tuple[str, ...] = (), stop_stage: int = 0, stop_seconds: float = 1.0
) -> Service:
    return Service(
        name,
        (sys.executable, "-S", "-c", code),
        env=dict(os.environ),
        after=after,
        ready=probes.log_says(paths.log(name), "up"),
        stop_stage=stop_stage,
        stop_seconds=stop_seconds,
    )


def services(scenario: str, paths: StatePaths) -> list[Service]:
    base = service("base", SLEEPER, paths, stop_stage=1)
    task = Service(
        "task", (sys.executable, "-S", "-c", "print('done')"), env=dict(os.environ), after=("base",), one_shot=True
    )
    if scenario == "stubborn":
        return [base, service("stubborn", STUBBORN, paths)]
    if scenario == "slow":
        return [base, service("slow", STUBBORN, paths, stop_seconds=3600.0)]
    if scenario == "family":
        return [base, service("family", FAMILY, paths)]
    if scenario == "broken":
        return [base, service("broken", "print('no such setting: X'); raise SystemExit(3)", paths, after=("base",))]
    return [base, task, service("top", SLEEPER, paths, after=("task",))]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def body(handle: Handle) -> int:
    say("READY")
    handle.stopping.wait()
    return 0


def main() -> int:
    paths = StatePaths(Path(sys.argv[1]))
    try:
        with roster.take_lock(paths):
            run_id = str(os.getpid())
            swept = roster.sweep(paths, excluding=run_id)
            say(f"swept {swept}")
            stack = Supervisor(services(sys.argv[2], paths), paths, run_id, say)
            if sys.argv[2] == "short":
                return stack.run(lambda _handle: 7)
            return stack.run(body)
    except UserError as error:
        say(f"error: {error}")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
