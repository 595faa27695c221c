"""pytest in a process that has imported everything of others already, and nothing of this project.

A bug costs a run of pytest, and most of that is imports: seconds, of which the few tests that are asked take a tenth.
So one process imports the libraries once, and has a fork for each run. A fork of a process that had imported the
project would judge the code that was there before the bug: this file is started by its path, and imports none of it.

    with Warm() as run:
        run(tree, "-q", "tests/unit/test_packages.py", timeout_seconds=60)
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

LIBRARIES = (
    *("pytest", "_pytest.junitxml", "hypothesis.strategies", "xdist", "unittest.mock"),
    *("celery", "celery.app.task", "celery.app.amqp", "celery.beat", "celery.worker.request", "kombu.transport.redis"),
    *("redis", "pydantic", "pydantic_settings", "structlog", "orjson", "yaml", "urllib3", "click.testing", "rich.live"),
    *("aiohttp.web", "cryptography.x509", "psutil", "asyncio", "concurrent.futures", "multiprocessing.pool"),
)
PROJECT = (
    *("tests", "tjworker", "tjstack", "watcher", "localcluster", "controlplane", "benchmarks", "examples"),
    "beat_schedule",
)
LOOK_SECONDS = 0.02
KILLED = -signal.SIGKILL


class Warm:
    """One such process. It does one run at a time: who wants two at once takes two."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the one who asks
        )

    def __enter__(self) -> Warm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()

    def __call__(self, tree: Path, *arguments: str, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
        """As `tests.mutation.tree.pytest_in`. Raises TimeoutExpired."""
        from tests.mutation.tree import environment, python_path

        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "tree": str(tree),
            "path": python_path(tree).split(os.pathsep),
            "environment": environment(tree),
            "arguments": ["-p", "no:cacheprovider", "-n0", *arguments],
            "timeout_seconds": timeout_seconds,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that forks pytest has ended with {self._process.wait()}")
        answer = json.loads(line)
        if answer["code"] is None:
            raise subprocess.TimeoutExpired(list(arguments), timeout_seconds)
        return subprocess.CompletedProcess(arguments, answer["code"], answer["output"], "")


# -- the other side: the process itself -----------------------------------------------------------------------------


def main() -> None:
    signal.signal(signal.SIGTERM, _leave)
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        order = json.loads(line)
        with tempfile.TemporaryFile() as output:
            code = _watched(_forked(order, output.fileno()), order["timeout_seconds"])
            output.seek(0)
            said = output.read().decode(errors="replace")
        sys.stdout.write(json.dumps({"code": code, "output": said}) + "\n")
        sys.stdout.flush()


_running: list[int] = []


def _forked(order: dict[str, object], output: int) -> int:
    pid = os.fork()
    if pid:
        with suppress(OSError):  # both do it: whichever comes first, the group is there when it is ended
            os.setpgid(pid, pid)
        _running.append(pid)
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = _pytest(order, output)
    except BaseException:  # noqa: BLE001  a fork may not go on with what its parent does
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _pytest(order: dict[str, object], output: int) -> int:
    import pytest

    nothing = os.open(os.devnull, os.O_RDONLY)
    for to, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, to)
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in PROJECT)
    if loaded:
        raise RuntimeError(f"{loaded[0]} was imported before the bug was put in")
    os.chdir(str(order["tree"]))
    os.environ.clear()
    os.environ.update(dict(order["environment"]))  # type: ignore[call-overload]
    sys.path[:0] = list(order["path"])  # type: ignore[call-overload]
    sys.dont_write_bytecode = True
    sys.argv = ["pytest"]
    code = int(pytest.main(list(order["arguments"])))  # type: ignore[call-overload]
    for name in ("tjworker", "watcher", "localcluster"):
        module = sys.modules.get(name)
        if module is not None and not str(module.__file__).startswith(str(order["tree"])):
            raise RuntimeError(f"{name} was not that of the copy, but {module.__file__}")
    return code


def _watched(pid: int, timeout_seconds: float) -> int | None:
    """Its exit code; None when it was not done in time. Whatever it has started goes with it."""
    until = time.monotonic() + timeout_seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found or time.monotonic() > until:
            break
        time.sleep(LOOK_SECONDS)
    _end(pid)
    if not found:
        os.waitpid(pid, 0)
    _running.remove(pid)
    return os.waitstatus_to_exitcode(status) if found else None


def _end(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _leave(_number: int, _frame: object) -> NoReturn:
    for pid in _running:
        _end(pid)
    os._exit(0)


if __name__ == "__main__":
    main()
