"""`python -m tests.upgrade`: play every upgrade and rollback and print a table of them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.upgrade.lab import OLD_COMMIT, later_version, old_version, open_lab, this_version
from tests.upgrade.steps import play, table


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="tj-upgrade-") as name:
        folder = Path(name)
        old = old_version(folder / "old")
        if old is None:
            print(
                f"this checkout does not have the commit {OLD_COMMIT}: fetch the whole history first", file=sys.stderr
            )
            return 2
        with open_lab(folder) as lab:
            rows = play(lab, old, this_version(), later_version(folder / "later"))
    print("\n".join(table(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
