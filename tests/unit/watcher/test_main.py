"""When `python -m watcher` leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.waiting import until

LOOK_SECONDS = 0.05
TIMES = 5
"""Now and then it is stopped between two waits, which shows nothing."""
WAITS = f"""
import signal
from watcher.__main__ import wait_for_end
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGTERM, signal.SIGINT, signal.SIGALRM}})
wait_for_end(lambda: not print("looks", flush=True), {LOOK_SECONDS})
print("leaves", flush=True)
"""


def _state(process: subprocess.Popen[str]) -> str:
    """One letter, as `ps` has it."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def _let_pass(seconds: float) -> None:
    over = time.monotonic() + seconds
    until("its time-out is over", lambda: time.monotonic() > over)


def test_a_watcher_that_was_stopped_for_longer_than_it_waits_goes_on_and_leaves_when_it_is_told() -> None:
    """As a laptop that sleeps, Ctrl-Z, or a paused container."""
    with subprocess.Popen([sys.executable, "-c", WAITS], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "looks\n"
            for _ in range(TIMES):
                process.send_signal(signal.SIGSTOP)
                until("it is stopped", lambda: _state(process) == "T")
                _let_pass(2 * LOOK_SECONDS)
                process.send_signal(signal.SIGCONT)
                assert [process.stdout.readline() for _ in range(5)] == ["looks\n"] * 5
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read().splitlines()[-1] == "leaves"
            assert process.wait(60) == 0
        finally:
            process.kill()
