"""A stack of dummy services under the real supervisor, as a program: `python toy_stack.py <state dir> <scenario>`.

A program, because the supervisor owns the signals of its process and the tests kill it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from tjstack import lock, probes, processes
from tjstack.paths import StatePaths
from tjstack.services import Service
from tjstack.supervisor import Handle, Supervisor
from tjworker.cli.errors import EXIT_FAILED, UserError

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
# It has killed what it needs: that comes back after a while, and only then can it do its work.
FRAGILE_BASE = (
    "import os, pathlib, time; os.path.exists('killed') and (time.sleep(1.5), pathlib.Path('back').touch()); "
    "pathlib.Path('pid').write_text(str(os.getpid())); print('up', flush=True); time.sleep(600)"
)
FRAGILE_TASK = (
    "import os, pathlib, signal; os.path.exists('back') and os._exit(0); first = not os.path.exists('killed'); "
    "pathlib.Path('killed').touch(); first and os.kill(int(open('pid').read()), signal.SIGKILL); raise SystemExit(3)"
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
    if scenario == "fragile":
        base = replace(service("base", FRAGILE_BASE, paths, stop_stage=1), cwd=paths.root)
        return [base, replace(task, argv=(sys.executable, "-S", "-c", FRAGILE_TASK), cwd=paths.root)]
    others = {
        "stubborn": service("stubborn", STUBBORN, paths),
        "slow": service("slow", STUBBORN, paths, stop_seconds=3600.0),
        "family": service("family", FAMILY, paths),
        "missing": Service("missing", ("/no/such/program",), env=dict(os.environ)),
        "broken": service("broken", "print('no such setting: X'); raise SystemExit(3)", paths, after=("base",)),
    }
    if scenario in others:
        return [base, others[scenario]]
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
        with lock.take(paths) as held:
            say(f"swept {processes.end_all(paths, grace_seconds=1.0)}")
            stack = Supervisor(services(sys.argv[2], paths), paths, held, say)
            if sys.argv[2] == "short":
                return stack.run(lambda _handle: 7)
            return stack.run(body)
    except UserError as error:
        say(f"error: {error}")
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
