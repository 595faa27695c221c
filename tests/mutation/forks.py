"""A pytest plugin that judges mutants: the tests are collected once, then each mutant has a fork of that process.

    python -m pytest -p tests.mutation.forks TESTS       # with TJ_MUTANTS=<a file, see `Orders`>

In the mutated tree that mutmut has made, in which `MUTANT_UNDER_TEST` says which mutant is alive. Two steps:

1. Which test comes by which function, and which pass without a mutant: each test that is not known yet is played once,
   in a fork, and what it said is kept. A test that fails there judges nobody.
2. Each mutant is tried by the tests that come by its function, those beside its file first, up to the first that fails.

mutmut does the second by starting pytest anew, with the names of the tests as arguments, for each mutant: that costs
seconds where a fork costs milliseconds, and it finds no test whose name holds a backslash (pytest escapes names anew
each time that one process collects them).
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.suite import in_order

NO_TEST = 33
"""mutmut's code for a function that no test comes by."""
ALIVE = "MUTANT_UNDER_TEST"
ASLEEP = 30
"""Times its CPU time a mutant may take: one may wait for ever, and a machine may be busy."""


@dataclass(frozen=True, slots=True)
class Orders:
    mutants: Sequence[str]
    functions: Sequence[str]
    """All that have mutants, as mutmut names them."""
    children: int
    known: str
    """The file that keeps what is known of the tests."""
    verdicts: str
    """The file to which a line is added for each mutant."""
    spare_seconds: float = 20.0
    """Of CPU time, beyond four times what its tests take without it."""


@dataclass(frozen=True, slots=True)
class Known:
    """Of one test, without a mutant."""

    file_digest: str
    passes: bool
    seconds: float
    functions: Sequence[str]


@dataclass(slots=True)
class Notes:
    """What is known of all tests. A function that was not there when they were noted makes all of it old."""

    functions: list[str] = field(default_factory=list)
    tests: dict[str, Known] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Notes:
        if not path.exists():
            return cls()
        raw = json.loads(path.read_text(encoding="utf-8"))
        return cls(raw["functions"], {name: Known(**known) for name, known in raw["tests"].items()})

    def keep(self, path: Path) -> None:
        raw = {"functions": self.functions, "tests": {name: asdict(known) for name, known in self.tests.items()}}
        path.write_text(json.dumps(raw), encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    if session.testsfailed:
        raise session.Interrupted("not all tests could be collected")
    orders = Orders(**json.loads(Path(os.environ["TJ_MUTANTS"]).read_text(encoding="utf-8")))
    notes = _noted(session.items, orders)
    judging = [item for item in session.items if notes.tests[item.nodeid].passes]
    for item in session.items:
        if not notes.tests[item.nodeid].passes:
            _say(session, f"fails without a mutant and judges none: {item.nodeid}")
    with Path(orders.verdicts).open("a", encoding="utf-8") as verdicts:
        for number, (name, code) in enumerate(_judged(judging, orders, notes), 1):
            verdicts.write(json.dumps([name, code]) + "\n")
            verdicts.flush()
            if number % 25 == 0:
                _say(session, f"{number} of {len(orders.mutants)} mutants")
    return True


def _say(session: pytest.Session, words: str) -> None:
    session.config.get_terminal_writer().line(words, flush=True)


def _noted(items: Sequence[pytest.Item], orders: Orders) -> Notes:
    path = Path(orders.known)
    notes = Notes.read(path)
    if not set(orders.functions) <= set(notes.functions):
        notes = Notes()
    notes.functions = sorted({*notes.functions, *orders.functions})
    digests = {file: sha256(file.read_bytes()).hexdigest()[:16] for file in {item.path for item in items}}
    new = [
        item
        for item in items
        if item.nodeid not in notes.tests or notes.tests[item.nodeid].file_digest != digests[item.path]
    ]
    if new:
        _say(items[0].session, f"{len(new)} tests are played without a mutant")
        for name, known in _heard(new, digests, orders.children, path):
            notes.tests[name] = known
        # What ended its fork has not passed.
        for item in new:
            if item.nodeid not in notes.tests or notes.tests[item.nodeid].file_digest != digests[item.path]:
                notes.tests[item.nodeid] = Known(digests[item.path], passes=False, seconds=0.0, functions=())
        notes.keep(path)
    return notes


def _heard(
    items: Sequence[pytest.Item], digests: Mapping[Path, str], children: int, path: Path
) -> Iterator[tuple[str, Known]]:
    """Each child plays some of the files."""
    files = sorted(digests)
    pids = {}
    for number in range(children):
        part = [item for item in items if files.index(item.path) % children == number]
        heard = path.with_suffix(f".heard-{number}")
        pids[_fork(items[0].config, lambda part=part, heard=heard: _listen(part, digests, heard), 0)] = heard  # type: ignore[misc]
    for pid, heard in pids.items():
        os.waitpid(pid, 0)
        for line in heard.read_text(encoding="utf-8").splitlines():
            name, known = json.loads(line)
            yield name, Known(**known)
        heard.unlink()


def _listen(items: Sequence[pytest.Item], digests: Mapping[Path, str], heard: Path) -> int:
    trampoline: Any = import_module("mutmut.mutation.trampoline")  # it is there where its mutants are
    come_by: set[str] = set()
    trampoline.record_trampoline_hit = lambda name, caller=None: come_by.add(name)
    os.environ[ALIVE] = "stats"
    with heard.open("w", encoding="utf-8") as file:
        for item, following in _with_the_next(items):
            failed, began = item.session.testsfailed, time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds = time.process_time() - began
            known = Known(digests[item.path], item.session.testsfailed == failed, seconds, sorted(come_by))
            come_by.clear()
            file.write(json.dumps([item.nodeid, asdict(known)]) + "\n")
            file.flush()
    return 0


def _judged(items: Sequence[pytest.Item], orders: Orders, notes: Notes) -> Iterator[tuple[str, int]]:
    """(mutant, exit code) as they come: 0 when all tests passed, 1 when one failed, else it cannot be told."""
    running: dict[int, str] = {}

    def ended() -> tuple[str, int]:
        pid, status = os.wait()
        return running.pop(pid), os.waitstatus_to_exitcode(status)

    for mutant in orders.mutants:
        function = mutant.partition("__mutmut_")[0]
        chosen = [item for item in items if function in notes.tests[item.nodeid].functions]
        if not chosen:
            yield mutant, NO_TEST
            continue
        if len(running) >= orders.children:
            yield ended()
        near_first = _near_first(chosen, function)
        limit = orders.spare_seconds + 4 * sum(notes.tests[item.nodeid].seconds for item in chosen)
        pid = _fork(chosen[0].config, lambda alive=mutant, tests=near_first: _try(alive, tests), limit)  # type: ignore[misc]
        running[pid] = mutant
    while running:
        yield ended()


def _near_first(items: Sequence[pytest.Item], function: str) -> list[pytest.Item]:
    files = {item.nodeid.partition("::")[0] for item in items}
    near, others = in_order(sorted(files), [function.rpartition(".")[0].replace(".", "/") + ".py"], [])
    place = {file: number for number, file in enumerate([*near, *others])}
    return sorted(items, key=lambda item: place[item.nodeid.partition("::")[0]])


def _try(mutant: str, items: Sequence[pytest.Item]) -> int:
    os.environ[ALIVE] = mutant
    for item, following in _with_the_next(items):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return 1
    return 0


def _with_the_next(items: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


def _fork(config: pytest.Config, work: Callable[[], int], cpu_seconds: float) -> int:
    """The pid of a child that does this, quietly, and ends with what it returns. 0: however long it takes."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        if cpu_seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds) + 1))
            signal.alarm(int(cpu_seconds) * ASLEEP)
        config.pluginmanager.unregister(name="terminalreporter")
        code = work()
    finally:
        os._exit(code)
