"""A program in a process of its own that does not have to import anything: the process is a fork of this one, with its
own folder, environment and output. Ends as Python would end it: a traceback and 1 for an exception, what SystemExit
says. For what does not ask how a process starts, nor what it has imported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.settings import load_settings


def forked(main: Callable[[], int], cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`main` returns its exit code, which is below 128."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            _be(main, cwd, env, out.fileno(), err.fileno())
        ended: list[int] = []

        def over() -> bool:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                ended.append(os.waitstatus_to_exitcode(status))
            return bool(found)

        try:
            until("it ends", over, PATIENCE_SECONDS)
        except AssertionError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode())
        return subprocess.CompletedProcess([], ended[0], *said)


def _be(main: Callable[[], int], cwd: Path, env: Mapping[str, str], out: int, err: int) -> NoReturn:
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ.clear()
        os.environ.update(env)
        os.chdir(cwd)
        load_settings.cache_clear()
        code = main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001  nothing may come back into the tests of the parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
