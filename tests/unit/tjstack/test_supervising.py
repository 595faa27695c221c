"""What a signal does to the supervisor, in this process and without children; with real ones: test_supervisor.py."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tjstack.paths import StatePaths
from tjstack.supervisor import Supervisor

SIGNALS: dict[str, tuple[tuple[signal.Signals, ...], int, bool]] = {
    "Ctrl-C": ((signal.SIGINT,), 130, False),
    "SIGTERM": ((signal.SIGTERM,), 0, False),
    "a terminal that is closed": ((signal.SIGHUP,), 0, False),
    "Ctrl-C twice": ((signal.SIGINT, signal.SIGINT), 130, True),
    "SIGTERM, then Ctrl-C: the first says how it ends": ((signal.SIGTERM, signal.SIGINT), 0, True),
    "three": ((signal.SIGINT, signal.SIGINT, signal.SIGINT), 130, True),
}


@pytest.mark.parametrize(("given", "code", "at_once"), SIGNALS.values(), ids=SIGNALS.keys())
def test_what_a_signal_does(given: Sequence[signal.Signals], code: int, at_once: bool, tmp_path: Path) -> None:
    async def run() -> tuple[Any, bool]:
        made = Supervisor([], StatePaths(tmp_path), io.StringIO(), print)
        made._outcome = asyncio.get_running_loop().create_future()
        for one in given:
            made._on_signal(one)
        return made._outcome.result(), made._at_once.is_set()

    assert asyncio.run(run()) == (code, at_once)
