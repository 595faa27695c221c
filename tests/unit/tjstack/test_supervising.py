"""What the supervisor decides: how long a service that dies waits, when the stack gives up, what a signal does. In this
process and without children; with real ones: test_supervisor.py."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tjstack import supervisor
from tjstack.paths import StatePaths
from tjstack.services import Service
from tjstack.supervisor import Supervisor
from tjworker.cli.errors import UserError


class Over(Exception):
    """The test has seen enough."""


@dataclass
class Lives:
    """A service whose lives last so many seconds, each ending with exit code 1, and how long it waited after each."""

    seconds: Sequence[float]
    waits: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    now: float = 0.0
    result: Any = None

    def play(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, ready: bool, one_shot: bool = False) -> None:
        service = Service("top", ("top",), one_shot=one_shot)
        lives: Iterator[float] = iter(self.seconds)

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        async def run() -> None:
            made = Supervisor([service], StatePaths(folder), io.StringIO(), self.said.append)
            made._outcome = asyncio.get_running_loop().create_future()
            if ready:
                made._ready["top"].set()

            async def once(_service: Service, _began: float) -> int:
                lived = next(lives, None)
                if lived is None:
                    raise Over
                self.now += lived
                return 1

            monkeypatch.setattr(made, "_run_once", once)
            try:
                await made._keep(service)
            except Over:
                return
            self.result = made._outcome.exception() or made._outcome.result()

        monkeypatch.setattr(asyncio, "sleep", sleep)
        monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: self.now))
        asyncio.run(run())


def test_what_cannot_start_ends_the_stack_at_its_third_death(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Lives([1] * 9)
    played.play(tmp_path, monkeypatch, ready=False)
    assert played.waits == pytest.approx([0.2, 0.4])
    assert isinstance(played.result, UserError)
    assert "top ended with exit code 1, 3 times in a row" in str(played.result)


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
