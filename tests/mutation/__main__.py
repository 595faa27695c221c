"""Put each bug into a copy of the tree and run the whole fast suite: who notices?

    python -m tests.mutation                  # all of them (`make bugs`): seconds for each that is caught
    python -m tests.mutation delete-by-name   # one (`make bugs BUGS=delete-by-name`)
    python -m tests.mutation --share 2/5      # the second of five parts (`make bugs SHARE=2/5`)
    python -m tests.mutation --package k8s    # those in one package
    python -m tests.mutation /tmp/new         # the patches of a folder (`make bugs BUGS=/tmp/new`)

The test that a patch names is only tried first, with those that lie beside the spoilt code (`suite.py`); then comes
everything else, up to the first test that fails. It counts when it passes without the bug. A bug that nobody notices
costs one whole run of the fast suite, many of them with `--together` hardly more than one.

Verdicts are kept in `.cache/bugs/`, one file a state of the tree: who runs this again goes on where it stopped.
`--anew` forgets them. Exits 1 when a bug was not caught or not judged.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tests.mutation.bugs import Bug, read_bugs
from tests.mutation.suite import fast_files
from tests.mutation.tree import assert_own_code, compile_tree, copy_tree, pytest_in
from tests.mutation.verdicts import CAUGHT, SURVIVED, Judge, Record, Verdict, tree_digest
from tests.support.paths import ROOT

RECORDS = ROOT / ".cache" / "bugs"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", help="of bugs, or one folder of patches; all of them are tried")
    options.add_argument(
        "--together",
        action="store_true",
        help="those that the named tests do not notice go through the whole suite together, until none is noticed",
    )
    options.add_argument("--package", default="", help="only bugs in this one: reconcile, store, k8s ...")
    options.add_argument("--share", default="1", help="2/5: the second of five parts; 0.2: a fifth")
    options.add_argument("--anew", action="store_true", help="judge again what has been judged")
    options.add_argument("--judges", type=int, default=os.cpu_count() or 2, help="so many bugs at once")
    given = options.parse_args()
    known = read_bugs()
    if given.names and Path(given.names[0]).is_dir():
        known, given.names = read_bugs(Path(given.names[0])), given.names[1:]
    unknown = [name for name in given.names if name not in known]
    if unknown:
        print(
            f"no bug named {', '.join(unknown)} in tests/mutation/bugs; there are: {', '.join(known)}", file=sys.stderr
        )
        return 2
    bugs = [known[name] for name in given.names or known if given.package in ("", known[name].package)]
    return _run(share(bugs, given.share), anew=given.anew, judges=given.judges, together=given.together)


def share(bugs: Sequence[Bug], of: str) -> list[Bug]:
    """`2/5`, or a fraction: every so many of them, so that each part has some of each package."""
    part, _, parts = of.partition("/")
    if not parts:
        part, parts = "1", str(max(1, round(1 / float(of))))
    ordered = sorted(bugs, key=lambda bug: (bug.package, bug.name))
    return ordered[int(part) - 1 :: int(parts)]


def _run(bugs: Sequence[Bug], *, anew: bool, judges: int, together: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="tj-mutation-") as folder:
        sound = compile_tree(copy_tree(Path(folder) / "sound"))
        assert_own_code(sound)
        record = Record(RECORDS / f"{tree_digest(sound)}.jsonl")
        if anew:
            record.forget()
        left = [bug for bug in bugs if record.of(bug) is None]
        print(f"{len(fast_files(sound))} test files, {len(bugs)} bugs, {len(left)} of them not judged yet")
        print(f"verdicts in {record.path}\n\n| package | bug | noticed by | seconds |\n|---|---|---|---|", flush=True)
        passes: dict[str, bool] = {}
        free: Queue[Judge] = Queue()
        for number in range(judges):
            spoilt = Path(shutil.copytree(sound, Path(folder) / f"spoilt-{number}"))
            free.put(Judge(sound, spoilt, pytest_in, passes, named_only=together))

        def judged(bug: Bug) -> Verdict:
            judge = free.get()
            try:
                verdict = judge.judge(bug)
            finally:
                free.put(judge)
            return verdict if together and verdict.outcome == SURVIVED else record.keep(bug, verdict)

        verdicts = [(bug, verdict) for bug in bugs if (verdict := record.of(bug)) is not None]
        with ThreadPoolExecutor(judges) as pool:
            for bug, verdict in zip(left, pool.map(judged, left), strict=True):
                print(f"| {bug.package} | {bug.sentence} | {verdict.words} | {verdict.seconds:.0f} |", flush=True)
                verdicts.append((bug, verdict))
        unnoticed = [bug for bug, verdict in verdicts if together and verdict.outcome == SURVIVED]
        final = dict(_rounds(free.get(), unnoticed))
    return _summary([(bug, record.keep(bug, final[bug]) if bug in final else verdict) for bug, verdict in verdicts])


def _rounds(judge: Judge, left: Sequence[Bug]) -> Iterator[tuple[Bug, Verdict]]:
    """All that are left at once, as long as one of them is noticed: it may have hidden another."""
    while left:
        verdicts = list(zip(left, judge.judge_together(left), strict=True))
        left = [bug for bug, verdict in verdicts if verdict.outcome == SURVIVED]
        over = len(left) == len(verdicts)
        for bug, verdict in verdicts:
            if over or verdict.outcome != SURVIVED:
                print(f"| {bug.package} | {bug.sentence} | {verdict.words} | {verdict.seconds:.0f} |", flush=True)
                yield bug, verdict
        left = [] if over else left


def _summary(verdicts: Sequence[tuple[Bug, Verdict]]) -> int:
    tried, caught = Counter(bug.package for bug, _ in verdicts), Counter[str]()
    caught.update(bug.package for bug, verdict in verdicts if verdict.outcome == CAUGHT)
    print("\n| package | caught of tried |\n|---|---|")
    for package, count in sorted(tried.items()):
        print(f"| {package} | {caught[package]} of {count} |")
    print(f"| all | {caught.total()} of {tried.total()} |")
    missed = [f"{bug.name} ({verdict.outcome})" for bug, verdict in verdicts if verdict.outcome != CAUGHT]
    if missed:
        print(f"\nnot caught: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
