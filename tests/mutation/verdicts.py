"""What the fast suite says of one bug, and the file in which that is kept."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutation.bugs import Bug, apply
from tests.mutation.suite import fast_files, in_order

CAUGHT, SURVIVED, NOT_JUDGED = "caught", "survived", "not judged"
ALL_PASSED, SOME_FAILED, NONE_RAN = 0, 1, 5
"""pytest's exit codes. Any other says that the tests did not run, which judges nothing."""
LIMIT_SECONDS = 3600.0
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s:]+\.py::.+?)(?: - .*)?$", re.MULTILINE)

Run = Callable[..., subprocess.CompletedProcess[str]]
"""`tests.mutation.tree.pytest_in`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: str
    by: str = ""
    """The test that noticed it, or why it could not be judged."""
    seconds: float = 0.0

    @property
    def words(self) -> str:
        return f"`{self.by}`" if self.outcome == CAUGHT else f"**nobody** {self.by}".strip()


class Judge:
    """Two copies of the tree: one for the bugs, one that stays sound."""

    def __init__(
        self, sound: Path, spoilt: Path, run: Run, passes: dict[str, bool] | None = None, *, named_only: bool = False
    ) -> None:
        """`passes`: whether a test passes without any bug, of those that were asked; judges may share it.
        `named_only`: only those that the patch names are asked."""
        self._sound = sound
        self._spoilt = spoilt
        self._run = run
        self._passes = {} if passes is None else passes
        self._named_only = named_only

    def judge(self, bug: Bug) -> Verdict:
        began = time.monotonic()
        trouble = apply(bug, self._spoilt)
        if trouble:
            return Verdict(NOT_JUDGED, f"(its patch does not apply: {trouble.strip()})")
        try:
            outcome, by = self._by_whole_suite(bug)
        except subprocess.TimeoutExpired:
            outcome, by = NOT_JUDGED, f"(the tests were not done after {LIMIT_SECONDS:.0f} s)"
        finally:
            undone = apply(bug, self._spoilt, "--reverse")
            if undone:
                raise RuntimeError(f"{bug.name} cannot be taken out again: {undone}")
        return Verdict(outcome, by, time.monotonic() - began)

    def _by_whole_suite(self, bug: Bug) -> tuple[str, str]:
        rest = () if self._named_only else in_order(fast_files(self._spoilt), bug.files, bug.caught_by)
        for files in (list(bug.caught_by), *rest):
            outcome, by = self._by(files)
            if outcome != SURVIVED:
                return outcome, by
        return SURVIVED, ""

    def judge_together(self, bugs: Sequence[Bug]) -> list[Verdict]:
        """At the price of one run of the whole suite and not of one each: all are put in at once, and what fails then
        is tried against each alone. One bug may hide another from a test: ask again for those that are left until none
        is noticed."""
        put_in = [bug for bug in bugs if not apply(bug, self._spoilt)]
        try:
            done = self._run(
                self._spoilt, "-q", "-rfE", *self._unsound(), *fast_files(self._spoilt), timeout_seconds=LIMIT_SECONDS
            )
        except subprocess.TimeoutExpired:
            done = None
        finally:
            undone = [trouble for bug in reversed(put_in) if (trouble := apply(bug, self._spoilt, "--reverse"))]
            if undone:
                raise RuntimeError(f"bugs cannot be taken out again: {undone}")
        if done is None or done.returncode not in (ALL_PASSED, SOME_FAILED):
            why = "the tests were not done" if done is None else f"pytest ended with {done.returncode}"
            return [Verdict(NOT_JUDGED, f"({why})")] * len(bugs)
        suspects = sorted({_function(test) for test in _FAILED.findall(done.stdout)})
        return [self._against(bug, suspects) if bug in put_in else self.judge(bug) for bug in bugs]

    def _against(self, bug: Bug, suspects: Sequence[str]) -> Verdict:
        began = time.monotonic()
        apply(bug, self._spoilt)
        try:
            near, others = in_order(suspects, bug.files, ())
            outcome, by = self._by([*near, *others])
        finally:
            apply(bug, self._spoilt, "--reverse")
        return Verdict(outcome, by, time.monotonic() - began)

    def _unsound(self) -> list[str]:
        """What pytest is told to leave out: tests that fail without any bug."""
        return [argument for test, passes in self._passes.items() if not passes for argument in ("--deselect", test)]

    def _by(self, tests: Sequence[str]) -> tuple[str, str]:
        if not tests:
            return SURVIVED, ""
        while True:
            done = self._run(self._spoilt, "-q", "-x", "-rfE", *self._unsound(), *tests, timeout_seconds=LIMIT_SECONDS)
            if done.returncode in (ALL_PASSED, NONE_RAN):
                return SURVIVED, ""
            found = _FAILED.search(done.stdout)
            if done.returncode != SOME_FAILED or found is None:
                return NOT_JUDGED, f"(pytest ended with {done.returncode}: {_last_line(done.stdout)})"
            if self._passes_without(found[1]):
                return CAUGHT, _function(found[1])

    def _passes_without(self, test: str) -> bool:
        """A test that fails in any case catches nothing; it is left out from then on."""
        if test not in self._passes:
            done = self._run(self._sound, "-q", "-x", test, timeout_seconds=LIMIT_SECONDS)
            if done.returncode not in (ALL_PASSED, SOME_FAILED):  # the name of its case was cut: all of them
                done = self._run(self._sound, "-q", "-x", _function(test), timeout_seconds=LIMIT_SECONDS)
            self._passes[test] = done.returncode == ALL_PASSED
        return self._passes[test]


def _function(test: str) -> str:
    return test.partition("[")[0]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


class Record:
    """Verdicts on one state of the tree. A changed patch is another bug. What was not judged is judged again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, bug: Bug) -> Verdict | None:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        rows = [json.loads(line) for line in lines]
        found = [Verdict(**row["verdict"]) for row in rows if row["bug"] == _name(bug)]
        return found[-1] if found and found[-1].outcome != NOT_JUDGED else None

    def keep(self, bug: Bug, verdict: Verdict) -> Verdict:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"bug": _name(bug), "verdict": asdict(verdict)}) + "\n")
        return verdict

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)


def _name(bug: Bug) -> str:
    return f"{bug.name}-{hashlib.sha256(bug.patch.read_bytes()).hexdigest()[:12]}"


def tree_digest(tree: Path) -> str:
    """Of everything but this folder, whose patches `Record` knows one by one."""
    digest = hashlib.sha256()
    for path in sorted(p for p in tree.rglob("*") if p.is_file()):
        name = path.relative_to(tree).as_posix()
        if not name.startswith("tests/mutation/"):
            digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
