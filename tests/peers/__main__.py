"""`python -m tests.peers` writes the tables of this folder into docs/kinds.md and docs/kubedl.md, between the marks
that name them; `--check` compares. The rest of the pages is written by hand.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.peers import kubedl, mpi_operator, training_operator
from tests.peers.table import Row
from tests.support.paths import ROOT
from tjworker.api.generate import main

_LIST = textwrap.TextWrapper(
    100, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
)
_PARAGRAPH = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False)
_MARKED = re.compile(r"(<!-- rows of tests/peers: ([^>]*?) -->\n).*?(<!-- end of rows -->)", re.DOTALL)


AGENT = "MPIJob v1"
_ENDS = ("Deadline, backoffLimit and TTL", "What is deleted at the end", "What is deleted")
_IN_FULL = ("When a job ends", "Restarts", *_ENDS, AGENT)
"""Topics whose rules the pages list. They count those of the others, which their reader knows from the operator."""


def same(rows: Iterable[Row]) -> Iterator[str]:
    """A list under each topic, then the number of rules of the other topics."""
    alike = [row for row in rows if not row.here]
    for topic in _IN_FULL:
        rules = [row.rule for row in alike if row.topic == topic]
        if rules:
            yield from (f"**{topic}**", "", *map(_LIST.fill, rules), "")
    counts = Counter(row.topic for row in alike if row.topic not in _IN_FULL)
    if counts:
        yield _PARAGRAPH.fill(
            "So do the rules on other topics, each of which `tests/peers` has as a sentence and a test: "
            + ", ".join(f"{_lowered(topic)} ({count})" for topic, count in counts.items())
            + "."
        )


def _lowered(topic: str) -> str:
    """As it stands within a sentence: MPIJob keeps its capitals."""
    return topic if topic[1:2].isupper() else f"{topic[0].lower()}{topic[1:]}"


def differences(rows: Iterable[Row], operator: str) -> Iterator[str]:
    yield f"| | {operator} | here, and why |"
    yield "|---|---|---|"
    yield from (f"| {row.subject} | {row.rule} | {row.here} |" for row in rows if row.here)


def _sections() -> dict[str, Iterable[str]]:
    ours = [row for row in training_operator.ROWS if row.topic != AGENT]
    agent = [row for row in training_operator.ROWS if row.topic == AGENT]
    return {
        "training-operator, the same": same(ours),
        "training-operator, differences": differences(ours, "training-operator 1.9"),
        "MPIJob v1, the same": same(agent),
        "MPIJob v1, differences": differences(agent, "training-operator 1.9"),
        "mpi-operator, the same": same(mpi_operator.ROWS),
        "mpi-operator, differences": differences(mpi_operator.ROWS, "mpi-operator 0.6"),
        "KubeDL, the same": same(kubedl.ROWS),
        "KubeDL, differences": differences(kubedl.ROWS, "KubeDL 0.5"),
    }


def pages() -> dict[str, str]:
    """Path -> the page with its tables made anew. Raises ValueError for a table without a mark, and KeyError for a mark
    without a table."""
    sections = {name: "\n".join(lines).rstrip() for name, lines in _sections().items()}
    used: list[str] = []

    def fill(mark: re.Match[str]) -> str:
        used.append(mark[2])
        return f"{mark[1]}\n{sections[mark[2]]}\n\n{mark[3]}"

    made = {
        path: _MARKED.sub(fill, (ROOT / path).read_text(encoding="utf-8"))
        for path in ("docs/kinds.md", "docs/kubedl.md")
    }
    if sorted(used) != sorted(sections):
        raise ValueError(f"the pages have marks for {sorted(used)}, the tables are {sorted(sections)}")
    return made


def run(arguments: Sequence[str]) -> int:
    return main(arguments, pages)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
