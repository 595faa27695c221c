"""Mutants of everything pure and of what writes: how many does a test notice? mutmut makes them, `forks.py` judges.

    python -m tests.mutation.mutants                 # a sample of 400, all files (`make mutants`)
    python -m tests.mutation.mutants tjworker/reconcile/suspend.py     # one file (`make mutants MUTANTS=...`)
    python -m tests.mutation.mutants --sample 0      # every mutant of every file: hours
    python -m tests.mutation.mutants --show ...      # and the survivors' diffs

In a copy of the tree, which stays in `.cache/mutants`: a mutant that was killed is not tried again until its function
changes (`--anew` begins anew). The tests are those in TESTS, and of them those that come by the mutated function, so
that most mutants cost a fraction of a second. Killed is what makes a test fail, and nothing else: a time-out on a busy
machine, or tests that could not run, judge nothing. Survivors known to be equivalent stand in `equivalent.txt` with
the reason.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

from tests.mutation.forks import Orders
from tests.mutation.tree import copy_tree, python_path
from tests.support.paths import ROOT

PACKAGES = ROOT / ".venv" / "mutation"
TREE = ROOT / ".cache" / "mutants"
MUTATED = ("tjworker/reconcile/*", "tjworker/autoscale/*", "tjworker/api/*", "tjworker/execution/executor.py")
TESTS = (
    "tests/unit/tjworker/reconcile",
    "tests/unit/tjworker/autoscale",
    "tests/unit/tjworker/api",
    "tests/unit/watcher/projection",
    "tests/unit/tjworker/execution/test_executor.py",
    "tests/unit/tjworker/execution/test_executor_failures.py",
    "tests/unit/tjworker/execution/test_executor_logs.py",
    "tests/unit/tjworker/execution/test_lease.py",
    "tests/scenarios/test_scenarios.py",
    "tests/scenarios/test_orphans.py",
    "tests/peers",
)
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
CONFIGURATION = """
[tool.mutmut]
source_paths = ["tjworker"]
only_mutate = {only}
track_dependencies = false
use_git_change_detection = false
"""
MAKE = """
import os
from mutmut.__main__ import create_mutants
from mutmut.mutation.trampoline import set_mutant_under_test
set_mutant_under_test("mutant_generation")
create_mutants(os.cpu_count() or 1)
"""
"""The mutants alone. `mutmut run` would also play all tests, twice."""
PYTEST = ("-q", "-p", "tests.mutation.forks", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "not 10_000")
KILLED, SURVIVED, NOT_JUDGED = "killed", "survived", "not judged"
MEANING = {0: SURVIVED, 1: KILLED, 5: SURVIVED, 33: SURVIVED}
"""Of mutmut's exit codes. 0: every test passed; 1: some failed; 5, 33: no test comes by this function. Any other (a
time-out, a crash, tests that did not run, not tried yet) judges nothing."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("paths", nargs="*", help="files or globs below tjworker/; all of them are tried")
    options.add_argument("--sample", type=int, default=400, help="of all files together; 0: every mutant")
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options.add_argument("--children", type=int, default=os.cpu_count() or 2)
    options.add_argument(
        "--show", action="store_true", help="the diffs of survivors that are not known to be equivalent"
    )
    options.add_argument("--anew", action="store_true", help="forget what was killed before")
    given = options.parse_args()
    return Run(_tree(anew=given.anew), given.children).report(
        given.paths, 0 if given.paths else given.sample, given.seed, show=given.show
    )


def _tree(*, anew: bool) -> Path:
    """The copy as the tree is now, with the verdicts of earlier runs, and in it another, of which mutmut makes the
    mutated one. That is older, which tells mutmut that its files are to be made anew."""
    metas = {meta.relative_to(TREE): meta.read_text(encoding="utf-8") for meta in TREE.rglob("*.meta")}
    for old in TREE.glob("*"):
        if anew or old.name != "known.json":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    copy_tree(TREE / "mutants")
    for meta, text in ({} if anew else metas).items():
        (TREE / meta).write_text(text, encoding="utf-8")
    return copy_tree(TREE)


class Run:
    def __init__(self, tree: Path, children: int) -> None:
        self._tree = tree
        self._children = children

    def report(self, paths: Sequence[str], sample: int, seed: int, *, show: bool) -> int:
        results = self._make()
        names = sorted(name for name in results if not paths or any(fnmatch(module_of(name), path) for path in paths))
        if not names:
            print(
                f"no mutant in {', '.join(paths)}: name files as from the root, such as tjworker/reconcile/core.py",
                file=sys.stderr,
            )
            return 2
        # In the order of the draw: what a run that is cut off has judged is a random sample, too.
        chosen = random.Random(seed).sample(names, sample) if 0 < sample < len(names) else names
        print(
            f"{len(names)} mutants, {len(chosen)} of them tried"
            + (f" (seed {seed})" if len(chosen) < len(names) else ""),
            flush=True,
        )
        open_ones = [name for name in chosen if results[name] != KILLED]
        if open_ones:
            self._judge(open_ones, sorted({name.partition("__mutmut_")[0] for name in results}))
        after = self._results()
        return self._table({name: after[name] for name in chosen}, show)

    def _make(self) -> dict[str, str]:
        """The mutants of the tree as it is, with the verdicts on those whose function has not changed."""
        with (self._tree / "pyproject.toml").open("a", encoding="utf-8") as project:
            project.write(CONFIGURATION.format(only=json.dumps(MUTATED)))
        self._python(["-c", MAKE], self._tree)
        return self._results()

    def _judge(self, names: Sequence[str], functions: Sequence[str]) -> None:
        verdicts = self._tree / "verdicts.jsonl"
        verdicts.unlink(missing_ok=True)
        orders = Orders(names, functions, self._children, str(self._tree / "known.json"), str(verdicts))
        listed = self._tree / "orders.json"
        listed.write_text(json.dumps(asdict(orders)), encoding="utf-8")
        try:
            self._python(
                ["-m", "pytest", *PYTEST, *TESTS], self._tree / "mutants", TJ_MUTANTS=str(listed), TJ_TEST_WIDE="1"
            )
        finally:  # What has been judged stays so, though the rest was not.
            self._keep(verdicts)

    def _keep(self, verdicts: Path) -> None:
        lines = verdicts.read_text(encoding="utf-8").splitlines() if verdicts.exists() else []
        said = dict(json.loads(line) for line in lines)
        for meta in (self._tree / "mutants").rglob("*.meta"):
            raw = json.loads(meta.read_text(encoding="utf-8"))
            raw["exit_code_by_key"] |= {name: code for name, code in said.items() if name in raw["exit_code_by_key"]}
            meta.write_text(json.dumps(raw), encoding="utf-8")

    def _table(self, found: dict[str, str], show: bool) -> int:
        known = read_equivalent()
        diffs = {
            name: self._python(["-m", "mutmut", "show", name], self._tree)
            for name, result in found.items()
            if result == SURVIVED
        }
        equivalent = {name for name, diff in diffs.items() if changed_lines(diff) in known}
        files = sorted({module_of(name) for name in found})
        print("\n| file | killed | of | equivalent | score | 95 % interval |\n|---|---|---|---|---|---|")
        counts = {
            file: Counter("equivalent" if n in equivalent else r for n, r in found.items() if module_of(n) == file)
            for file in files
        }
        for file, count in [*counts.items(), ("all", sum(counts.values(), Counter[str]()))]:
            real = count[KILLED] + count[SURVIVED]
            low, high = interval(count[KILLED], real)
            score = f"{count[KILLED] / real:.0%} | {low:.0%} to {high:.0%}" if real else " | "
            print(f"| {file} | {count[KILLED]} | {real} | {count['equivalent']} | {score} |")
        if open_ones := sorted(name for name, result in found.items() if result == NOT_JUDGED):
            print(f"{len(open_ones)} were not judged, such as {open_ones[0]}")
        for name, diff in diffs.items():
            if name not in equivalent:
                print(f"\nsurvived: {name}" + ("\n" + diff if show else ""))
        return 0

    def _results(self) -> dict[str, str]:
        return {
            name: MEANING.get(code, NOT_JUDGED)
            for meta in (self._tree / "mutants").rglob("*.meta")
            for name, code in json.loads(meta.read_text())["exit_code_by_key"].items()
        }

    def _python(self, arguments: Sequence[str], folder: Path, **more: str) -> str:
        """With mutmut's packages, and the code below this folder. What it says of its progress goes to the terminal."""
        env = {**os.environ, **more, "PYTHONPATH": os.pathsep.join([python_path(folder), str(PACKAGES)])}
        to = None if "pytest" in arguments else subprocess.PIPE
        done = subprocess.run([sys.executable, *arguments], cwd=folder, env=env, stdout=to, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments[:2])} ended with {done.returncode}:\n{(done.stdout or '')[-2000:]}")
        return done.stdout or ""


def interval(hits: int, of: int) -> tuple[float, float]:
    """Wilson's, at 95 %: where the true share lies, as far as a sample of this size can tell."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, hits / of
    middle, spread = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of)), min(1.0, (middle + spread) / (1 + z * z / of))


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
