"""Each mechanism that a promise rests on is switched off, and a row must notice:

    python -m tests.simulation.without                        # all of them
    python -m tests.simulation.without full-resync-is-gone    # one

A mechanism is switched off by its patch in `tests/mutation/bugs`, in a copy of the tree; there the row plays what `make
test` plays of it, up to the first run that goes wrong. Exits 1 when a row does not notice.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.bugs import apply, read_bugs
from tests.mutation.tree import copy_tree, environment

WITHOUT: Mapping[str, int] = {
    "effect-before-intent": 1,
    "lock-for-ever": 1,
    "no-resync-of-a-dead-holder": 1,
    "lost-tasks-stay-lost": 6,
    "orphans-stay": 7,
    "delete-by-name": 7,
    "status-over-a-conflict": 7,
    "not-swept-after-a-loss": 9,
    "bookmarks-move-nothing": 14,
    "failed-pass-is-the-last": 15,
    "nobody-takes-over": 16,
    "timers-are-dropped": 29,
    "full-resync-is-gone": 29,
}
"""What takes a mechanism away -> the row that holds its promise."""
PLAY = """
import sys
from tests.simulation.faults import ROWS
from tests.simulation.quiet import quiet

row = ROWS[int(sys.argv[1])]
with quiet():
    for group in row.first.values():
        try:
            for run in group():
                if wrong := row.play(run).wrong:
                    sys.exit(f"{row.seed(run)}: {wrong[0]}")
        except AssertionError as error:
            sys.exit(str(error).splitlines()[0])
"""


def noticed(name: str) -> str:
    """How the row of it goes wrong; "" when it does not."""
    with tempfile.TemporaryDirectory(prefix="tj-without-") as folder:
        tree = copy_tree(Path(folder))
        if trouble := apply(read_bugs()[name], tree):
            raise SystemExit(f"{name} cannot be put in: {trouble}")
        done = subprocess.run(
            [sys.executable, "-c", PLAY, str(WITHOUT[name])],
            cwd=tree,
            env=environment(tree),
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def main(names: Sequence[str]) -> int:
    bugs, missed = read_bugs(), []
    sys.stdout.write("| switched off | row | how it goes wrong |\n|---|---|---|\n")
    for name in names or WITHOUT:
        how = noticed(name)
        missed += [] if how else [name]
        sys.stdout.write(f"| {bugs[name].sentence} | {WITHOUT[name]} | {how[:160] or 'NOT NOTICED'} |\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
