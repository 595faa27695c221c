"""Put each bug into a copy of the tree and run the tests that should catch it.

    python -m tests.mutation                  # all of them (`make bugs`), a minute or two
    python -m tests.mutation delete-by-name

The named tests pass first on the copy as it is: a test that fails anyway catches nothing. Exits 1 when a bug was not
caught.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutation.bugs import Bug, apply, read_bugs
from tests.mutation.tree import assert_own_code, copy_tree, pytest_in

LIMIT_SECONDS = 180.0
SOUND_LIMIT_SECONDS = 900.0
SOME_FAILED = 1
"""pytest's exit code. Any other but 0 says that the tests did not run, which catches nothing."""


def main(names: list[str]) -> int:
    known = read_bugs()
    unknown = [name for name in names if name not in known]
    if unknown:
        print(
            f"no bug named {', '.join(unknown)} in tests/mutation/bugs; there are: {', '.join(known)}", file=sys.stderr
        )
        return 2
    bugs = [known[name] for name in names] if names else list(known.values())
    with tempfile.TemporaryDirectory(prefix="tj-mutation-") as folder:
        tree = copy_tree(Path(folder))
        assert_own_code(tree)
        named = sorted({test for bug in bugs for test in bug.caught_by})
        sound = pytest_in(tree, "-q", *named, timeout_seconds=SOUND_LIMIT_SECONDS)
        if sound.returncode != 0:
            print(
                f"the tests fail on the tree as it is, so they can catch nothing:\n{sound.stdout[-4000:]}",
                file=sys.stderr,
            )
            return 2
        print(f"The tests named pass on the tree as it is: {sound.stdout.strip().splitlines()[-1]}\n")
        print("| bug | caught by | seconds |\n|---|---|---|", flush=True)
        missed = [bug.name for bug in bugs if not _caught(bug, tree)]
    print(
        f"\n{len(bugs) - len(missed)} of {len(bugs)} caught" + (f"; not caught: {', '.join(missed)}" if missed else "")
    )
    return 1 if missed else 0


def _caught(bug: Bug, tree: Path) -> bool:
    trouble = apply(bug, tree)
    if trouble:
        print(f"| {bug.sentence} | the patch {bug.patch.name} does not apply: {trouble.strip()} | |", flush=True)
        return False
    began = time.monotonic()
    try:
        done = pytest_in(tree, "-q", "-x", "-rf", *bug.caught_by, timeout_seconds=LIMIT_SECONDS)
        found = re.search(r"^FAILED (\S+?::.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
        caught = done.returncode == SOME_FAILED and found is not None
        words = f"`{found[1]}`" if caught and found else f"**nobody** (pytest ended with {done.returncode})"
    except subprocess.TimeoutExpired:
        caught, words = False, f"**nobody**: the tests were not done after {LIMIT_SECONDS:.0f} s"
    finally:
        undone = apply(bug, tree, "--reverse")
        if undone:
            raise RuntimeError(f"{bug.name} cannot be taken out again: {undone}")
    print(f"| {bug.sentence} | {words} | {time.monotonic() - began:.0f} |", flush=True)
    return caught


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
