"""Mutants of what decides and what writes: how many does a test notice? mutmut makes them and runs the tests on each.

    python -m tests.mutation.mutants                 # a sample of 400, all files (`make mutants`)
    python -m tests.mutation.mutants tjworker/reconcile/suspend.py     # one file (`make mutants MUTANTS=...`)
    python -m tests.mutation.mutants --sample 0      # every mutant of every file: hours
    python -m tests.mutation.mutants --show ...      # and the survivors' diffs

In a copy of the tree. The tests are those that look at a pass (see TESTS), and of them those that come by the mutated
function, so that most mutants cost a fraction of a second. Survivors known to be equivalent stand in `equivalent.txt`
with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.mutation.tree import copy_tree
from tests.support.paths import ROOT

PACKAGES = ROOT / ".venv" / "mutation"
MUTATED = ("tjworker/reconcile/*", "tjworker/executor.py")
TESTS = (
    "tests/unit/tjworker/reconcile",
    "tests/unit/tjworker/test_executor.py",
    "tests/unit/tjworker/test_executor_failures.py",
    "tests/unit/tjworker/test_executor_logs.py",
    "tests/unit/tjworker/test_lease.py",
    "tests/scenarios/test_scenarios.py",
    "tests/scenarios/test_orphans.py",
)
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
CONFIGURATION = """
[tool.mutmut]
source_paths = ["tjworker"]
only_mutate = {only}
also_copy = ["watcher", "localcluster", "controlplane", "examples", "benchmarks", "docs", "k8s", "beat_schedule.py"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not 10_000"]
pytest_add_cli_args_test_selection = {tests}
track_dependencies = false
use_git_change_detection = false
"""
KILLED, SURVIVED, UNTRIED, BROKEN = "killed", "survived", "untried", "broken"
MEANING: Mapping[int | None, str] = {
    **dict.fromkeys((0, 5, 33), SURVIVED),
    **dict.fromkeys((1, 3, 24, 36, 152, -24), KILLED),
    **dict.fromkeys((34, None), UNTRIED),
}
"""What became of a mutant, by the code that mutmut notes. 0: every test passed; 5, 33: no test comes by this function,
which is a survivor, too. 1, 3: a test failed, or pytest broke on what the mutant gave it; the other four: it ran for
ever. Any code besides, such as a crash of the runner (255), a kill from outside (-9) or an interruption (2), says
nothing about the tests."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("paths", nargs="*", help="files or globs below tjworker/; all of them are tried")
    options.add_argument("--sample", type=int, default=400, help="of all files together; 0: every mutant")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options.add_argument("--children", type=int, default=os.cpu_count() or 2)
    options.add_argument(
        "--show", action="store_true", help="the diffs of survivors that are not known to be equivalent"
    )
    options.add_argument(
        "--tree", type=Path, help="an empty folder for the copy, which stays (default: a temporary one)"
    )
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="tj-mutants-") as folder:
        tree = copy_tree(given.tree or Path(folder))
        return Run(tree, given.children).report(
            given.paths, 0 if given.paths else given.sample, given.seed, show=given.show
        )


class Run:
    def __init__(self, tree: Path, children: int) -> None:
        self._tree = tree
        self._children = children

    def report(self, paths: Sequence[str], sample: int, seed: int, *, show: bool) -> int:
        with (self._tree / "pyproject.toml").open("a", encoding="utf-8") as project:
            project.write(CONFIGURATION.format(only=json.dumps(list(paths or MUTATED)), tests=json.dumps(list(TESTS))))
        # A name that fits nothing: mutmut makes the mutants, notes which test comes by which function, and has none to
        # try.
        self._mutmut("run", "none.of.these")
        names = sorted(self._results())
        if not names:
            print(
                f"no mutant in {', '.join(paths)}: name files as from the root, such as tjworker/reconcile/core.py",
                file=sys.stderr,
            )
            return 2
        chosen = sorted(random.Random(seed).sample(names, sample)) if 0 < sample < len(names) else names
        print(
            f"{len(names)} mutants, {len(chosen)} of them tried"
            + (f" (seed {seed})" if len(chosen) < len(names) else ""),
            flush=True,
        )
        self._mutmut("run", "--max-children", str(self._children), *chosen)
        found = {name: result for name, result in self._results().items() if name in set(chosen)}
        return self._table(found, show)

    def _table(self, found: dict[str, str], show: bool) -> int:
        known = read_equivalent()
        diffs = {name: self._mutmut("show", name) for name, result in found.items() if result == SURVIVED}
        equivalent = {name for name, diff in diffs.items() if changed_lines(diff) in known}
        files = sorted({module_of(name) for name in found})
        print("\n| file | killed | of | equivalent | score |\n|---|---|---|---|---|")
        counts = {
            file: Counter("equivalent" if n in equivalent else r for n, r in found.items() if module_of(n) == file)
            for file in files
        }
        for file, count in [*counts.items(), ("all", sum(counts.values(), Counter[str]()))]:
            real = count[KILLED] + count[SURVIVED]
            print(
                f"| {file} | {count[KILLED]} | {real} | {count['equivalent']} | {count[KILLED] / real:.0%} |"
                if real
                else f"| {file} | 0 | 0 | {count['equivalent']} | |"
            )
        if untried := [name for name, result in found.items() if result == UNTRIED]:
            print(f"{len(untried)} were not tried, such as {untried[0]}")
        if broken := [name for name, result in found.items() if result == BROKEN]:
            print(f"of {len(broken)} nobody can tell, as the tests did not run to their end, such as {broken[0]}")
        for name, diff in diffs.items():
            if name not in equivalent:
                print(f"\nsurvived: {name}" + ("\n" + diff if show else ""))
        return 0

    def _results(self) -> dict[str, str]:
        return {
            name: MEANING.get(code, BROKEN)
            for meta in (self._tree / "mutants").rglob("*.meta")
            for name, code in json.loads(meta.read_text())["exit_code_by_key"].items()
        }

    def _mutmut(self, *arguments: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(PACKAGES)}
        command = [sys.executable, "-m", "mutmut", *arguments]
        done = subprocess.run(command, cwd=self._tree, env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0 and "none.of.these" not in arguments:
            said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
            raise SystemExit(f"mutmut {arguments[0]} ended with {done.returncode}:\n{said}")
        return done.stdout


def module_of(name: str) -> str:
    """tjworker.reconcile.core.x__live__mutmut_3 -> tjworker/reconcile/core.py"""
    return name.rpartition(".")[0].replace(".", "/") + ".py"


def changed_lines(diff: str) -> str:
    """The mutation itself, without where it stands: `old -> new`. Of a line that moves nothing changes here."""

    def lines(sign: str) -> Iterator[str]:
        return (line[1:].strip() for line in diff.splitlines() if re.match(rf"[{sign}](?![{sign}]{{2}})", line))

    return f"{' '.join(lines('-'))} -> {' '.join(lines('+'))}"


def read_equivalent(path: Path = EQUIVALENT) -> dict[str, str]:
    """`changed_lines` -> why no test could tell it from the original."""
    found: dict[str, str] = {}
    reason = ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            found[line] = reason
    return found


if __name__ == "__main__":
    sys.exit(main())
