"""The supervisor as a program with real child processes: what runs, what starts again, and that nothing is left
behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.support.tiers import one_in
from tests.support.waiting import PATIENCE_SECONDS, until
from tjstack import processes
from tjstack.paths import StatePaths

ROOT = Path(__file__).resolve().parents[3]


def _is_warden(process: psutil.Process) -> bool:
    """One that lives; it may die while it is looked at."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "tjstack.warden" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


class Toy:
    """A running toy stack. Its output goes to a file, as a pipe would fill up."""

    def __init__(self, state: Path, scenario: str, tag: str = "a") -> None:
        self.paths = StatePaths(state)
        self._output = state.parent / f"{state.name}-{tag}.out"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.unit.tjstack.toy_stack", str(state), scenario],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def says(self, pattern: str) -> None:
        until(f"it says {pattern!r}", lambda: re.search(pattern, self.output), context=lambda: self.output)

    def service(self, name: str) -> psutil.Process:
        return psutil.Process(json.loads(self.paths.pids.read_text())[name])

    def left(self) -> list[psutil.Process]:
        return processes.of_stack(self.paths)

    def wardens(self) -> list[psutil.Process]:
        return [p for p in psutil.Process(self.process.pid).children() if _is_warden(p)]

    def warden(self) -> psutil.Process:
        return self.wardens()[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Callable[..., Toy]]:
    started: list[Toy] = []

    def start(scenario: str = "plain", state: str = "state", tag: str = "a") -> Toy:
        started.append(Toy(tmp_path / state, scenario, tag))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()
        processes.end_all(one.paths, grace_seconds=0)


@dataclass(frozen=True)
class Stop:
    signal: signal.Signals
    want_code: int
    scenario: str = "plain"


STOPS: dict[str, Stop] = {
    "Ctrl-C stops everything and gives the shell's code for it": Stop(signal.SIGINT, 130),
    "SIGTERM stops everything and is no failure": Stop(signal.SIGTERM, 0),
    "a service that ignores SIGTERM and has a child in a session of its own goes too": Stop(
        signal.SIGTERM, 0, "stubborn"
    ),
}


@pytest.mark.parametrize("sentence", one_in(len(STOPS), STOPS))
def test_an_orderly_stop_leaves_nothing(sentence: str, toy: Callable[..., Toy]) -> None:
    case = STOPS[sentence]
    stack = toy(case.scenario)
    stack.says("READY")
    assert len(stack.left()) >= 2
    stack.process.send_signal(case.signal)
    assert stack.process.wait(timeout=PATIENCE_SECONDS) == case.want_code
    assert stack.left() == []
    assert "nothing of this stack runs any more" in stack.output
    assert not stack.paths.pids.exists()


@pytest.mark.long
def test_services_stop_in_the_reverse_order(toy: Callable[..., Toy]) -> None:
    stack = toy()
    stack.says("READY")
    stack.process.terminate()
    stack.process.wait(timeout=PATIENCE_SECONDS)
    assert [line for line in stack.output.splitlines() if line.startswith("stopping")] == [
        "stopping top",
        "stopping base",
    ]


def test_a_killed_service_starts_again_and_the_line_says_what_how_and_when(toy: Callable[..., Toy]) -> None:
    stack = toy()
    stack.says("READY")
    first = stack.service("top")
    processes.send(first, signal.SIGKILL)
    stack.says(r"top was ended by SIGKILL after \d+ s; starts again in 0\.2 s")
    stack.says("top is ready again")
    second = stack.service("top")
    assert second != first
    assert second.is_running()
    assert stack.output.count("base is ready") == 1, "the others are left alone"


def test_what_a_killed_service_has_started_does_not_outlive_it(toy: Callable[..., Toy]) -> None:
    stack = toy("family")
    stack.says("READY")
    until("all three run", lambda: len(stack.left()) == 3)
    before = stack.left()
    processes.send(stack.service("family"), signal.SIGKILL)
    stack.says("family is ready again")
    until("all three run again", lambda: len(stack.left()) == 3)
    after = stack.left()
    assert len(set(before) & set(after)) == 1, (
        "only base is the same: a killed Celery worker's children would go on working"
    )


def test_a_service_that_cannot_start_ends_the_stack_with_its_own_words(toy: Callable[..., Toy]) -> None:
    stack = toy("broken")
    assert stack.process.wait(timeout=PATIENCE_SECONDS) == 1
    assert "broken ended with exit code 3, 3 times in a row" in stack.output
    assert "broken | no such setting: X" in stack.output
    assert stack.left() == []


@pytest.mark.long
def test_a_service_whose_predecessor_dies_before_it_was_ever_ready_waits_for_it(toy: Callable[..., Toy]) -> None:
    """Else the CRDs, applied to an API server that has just been killed, end the whole stack within a second."""
    stack = toy("fragile")
    stack.says("READY")
    assert re.findall(r"(task ended|base is ready again|task is done|READY)", stack.output) == [
        "task ended",
        "base is ready again",
        "task is done",
        "READY",
    ]


@pytest.mark.long  # `make test` kills a whole stack so: tests/e2e/test_whole_life.py
def test_kill_9_of_the_supervisor_leaves_nothing(toy: Callable[..., Toy]) -> None:
    stack = toy("stubborn")
    stack.says("READY")
    until("all three run", lambda: len(stack.left()) == 3)
    stack.kill()
    until("the warden has ended everything", lambda: stack.left() == [])


@pytest.mark.long
def test_a_second_signal_stops_at_once(toy: Callable[..., Toy]) -> None:
    stack = toy("slow")
    stack.says("READY")
    stack.process.send_signal(signal.SIGINT)
    stack.says("stopping slow")
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(timeout=PATIENCE_SECONDS) == 130
    assert stack.left() == []


@pytest.mark.long
def test_a_second_stack_in_the_same_folder_says_so_and_one_in_another_runs(toy: Callable[..., Toy]) -> None:
    first = toy()
    first.says("READY")
    second = toy(tag="b")
    assert second.process.wait(timeout=PATIENCE_SECONDS) == 1
    assert f"a stack already runs in {first.paths.root} (pid {first.process.pid})" in second.output
    assert "--state-dir" in second.output
    beside = toy(state="other")
    beside.says("READY")
    assert first.service("base").is_running()


@pytest.mark.long
def test_leftovers_of_a_killed_stack_are_ended_at_the_next_start(toy: Callable[..., Toy]) -> None:
    first = toy("stubborn")
    first.says("READY")
    until("all three run", lambda: len(first.left()) == 3)
    psutil.Process(first.process.pid).suspend()  # else it starts another warden before it is killed itself
    first.warden().kill()
    first.kill()
    assert len(first.left()) == 3, "base, the stubborn one and its child"
    second = toy("plain", tag="b")
    second.says("READY")
    assert "swept 3" in second.output
    assert len(second.left()) == 2, "only base and top of the new stack"


@pytest.mark.long
def test_a_killed_warden_is_replaced(toy: Callable[..., Toy]) -> None:
    stack = toy()
    stack.says("READY")
    first = stack.warden()
    first.kill()
    until("another one waits", lambda: stack.wardens() not in ([], [first]))
    stack.kill()
    until("it has ended everything", lambda: stack.left() == [])
