"""The supervisor as a program with real child processes: what runs, what starts again, and that nothing is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS, until
from tjworker.cli.stack import processes, roster
from tjworker.cli.stack.paths import StatePaths
from tjworker.cli.stack.processes import ProcessId

ROOT = Path(__file__).resolve().parents[5]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Toy:
    """A running toy stack. Its output goes to a file, as a pipe would fill up."""

    def __init__(self, state: Path, scenario: str, tag: str = "a") -> None:
        self.paths = StatePaths(state)
        self._output = state.parent / f"{state.name}-{tag}.out"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.unit.tjworker.cli.stack.toy_stack", str(state), scenario],
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

    def service(self, name: str) -> ProcessId:
        return roster.read_roster(self.paths.roster)[1][name]

    def left(self) -> list[ProcessId]:
        return processes.marked(self.paths.root)

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
        roster.sweep(one.paths, grace_seconds=0)


@dataclass(frozen=True)
class Stop:
    signal: signal.Signals
    want_code: int
    scenario: str = "plain"


STOPS: dict[str, Stop] = {
    "Ctrl-C stops everything and gives the shell's code for it": Stop(signal.SIGINT, 130),
    "SIGTERM stops everything and is no failure": Stop(signal.SIGTERM, 0),
    "a closed terminal stops everything": Stop(signal.SIGHUP, 0),
    "a service that ignores SIGTERM and has a child in a session of its own goes too": Stop(
        signal.SIGTERM, 0, "stubborn"
    ),
}


@pytest.mark.parametrize("case", STOPS.values(), ids=list(STOPS))
def test_an_orderly_stop_leaves_nothing(case: Stop, toy: Callable[..., Toy]) -> None:
    stack = toy(case.scenario)
    stack.says("READY")
    assert len(stack.left()) >= 2
    stack.process.send_signal(case.signal)
    assert stack.process.wait(timeout=PATIENCE_SECONDS) == case.want_code
    assert stack.left() == []
    assert "nothing of this stack runs any more" in stack.output
    assert not stack.paths.roster.exists()


def test_services_start_in_order_each_after_what_it_needs_is_ready(toy: Callable[..., Toy]) -> None:
    stack = toy()
    stack.says("READY")
    lines = [line for line in stack.output.splitlines() if re.search(r"is (ready|done)|READY", line)]
    assert [line.split()[0] for line in lines] == ["base", "task", "top", "READY"]


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
    assert processes.alive(second)
    assert stack.output.count("base is ready") == 1, "the others are left alone"


def test_what_a_killed_service_has_started_does_not_outlive_it(toy: Callable[..., Toy]) -> None:
    stack = toy("family")
    stack.says("READY")
    assert len(stack.left()) == 3
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


def test_the_result_of_the_body_is_the_result_of_the_stack(toy: Callable[..., Toy]) -> None:
    stack = toy("short")
    assert stack.process.wait(timeout=PATIENCE_SECONDS) == 7
    assert stack.left() == []


def test_kill_9_of_the_supervisor_leaves_nothing(toy: Callable[..., Toy]) -> None:
    stack = toy("stubborn")
    stack.says("READY")
    assert len(stack.left()) == 3
    stack.kill()
    until("the warden has ended everything", lambda: stack.left() == [])


def test_a_second_signal_stops_at_once(toy: Callable[..., Toy]) -> None:
    stack = toy("slow")
    stack.says("READY")
    stack.process.send_signal(signal.SIGINT)
    stack.says("stopping slow")
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(timeout=PATIENCE_SECONDS) == 130
    assert stack.left() == []


def test_a_second_stack_in_the_same_folder_says_so_and_one_in_another_runs(toy: Callable[..., Toy]) -> None:
    first = toy()
    first.says("READY")
    second = toy(tag="b")
    assert second.process.wait(timeout=PATIENCE_SECONDS) == 1
    assert f"a stack already runs in {first.paths.root} (pid {first.process.pid})" in second.output
    assert "--state-dir" in second.output
    beside = toy(state="other")
    beside.says("READY")
    assert processes.alive(first.service("base"))


def test_leftovers_of_a_killed_stack_are_ended_at_the_next_start(toy: Callable[..., Toy]) -> None:
    first = toy("stubborn")
    first.says("READY")
    base = first.service("base")
    first.process.send_signal(signal.SIGSTOP)  # else it starts another warden before it is killed itself
    wardens = _children_of(first.process.pid, "tjworker.cli.stack.warden")
    for warden in wardens:
        os.kill(warden, signal.SIGKILL)
    first.kill()
    until("the kernel has told those that listen", lambda: not processes.alive(base))
    assert len(first.left()) == 2, "the stubborn one and its child"
    second = toy("plain", tag="b")
    second.says("READY")
    assert "swept 0" not in second.output
    assert len(second.left()) == 2, "only base and top of the new stack"


def _children_of(pid: int, argument: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid and argument in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
            except (OSError, ValueError):
                continue
    return found
