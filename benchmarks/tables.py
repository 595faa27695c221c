"""`python -m benchmarks.tables [DIR]`: writes the tables of `docs/elasticity.md` again, each by its benchmark. Without
DIR (Pollux' artifact, see `benchmarks.pollux`) the tables of Pollux stay as they are.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks import edl, pollux
from tjworker.autoscale import POLICIES

PAGE = Path("docs/elasticity.md")
BEGIN, END = "<!-- {name}: written by python -m benchmarks.tables -->", "<!-- end of {name} -->"


def replace_table(page: str, name: str, table: str) -> str:
    """The page with another text between the marks of this name. Raises ValueError for a page without them."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"{PAGE} must have the marks {begin} and {end} once each")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table.strip()}\n\n{end}{after}"


def _printed(run: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        run(arguments)
    return out.getvalue()


def _edl_table() -> str:
    return _printed(edl.main, [word for policy in POLICIES for word in ("--policy", policy)])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("data", type=Path, nargs="?", metavar="DIR")
    data: Path | None = parser.parse_args(arguments).data
    tables: Mapping[str, Callable[[], str]] = {"benchmarks.edl": _edl_table}
    if data is not None:
        tables = {**tables, "benchmarks.pollux": lambda: _printed(pollux.main, [str(data)])}
    for name, table in tables.items():
        PAGE.write_text(replace_table(PAGE.read_text(encoding="utf-8"), name, table()), encoding="utf-8")
        print(f"{PAGE}: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
