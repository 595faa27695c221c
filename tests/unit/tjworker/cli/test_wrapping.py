"""Table: lines of commands in a terminal of 80 columns. No line is wider, no word is broken, nothing is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tjworker.cli import summary
from tjworker.cli.chart import Bar, Chart, Lane, Mark
from tjworker.cli.charttext import lines
from tjworker.cli.wrapping import wrap

AUTOSCALER = "trainer 2 -> 5: autoscaler: room for 3 more (CPU 0.25 of 4, memory 0.269 of 50.5 GB asked for)"

WRAPPED: dict[str, tuple[str, list[str]]] = {
    "a short line stays": ("  phases      0.1s  Pending", ["  phases      0.1s  Pending"]),
    "below the last column": (
        f"  scaled    {AUTOSCALER}",
        [
            "  scaled    trainer 2 -> 5: autoscaler: room for 3 more (CPU 0.25 of 4, memory",
            "            0.269 of 50.5 GB asked for)",
        ],
    ),
    "below the second of two columns": (
        "  make up       the same stack, until Ctrl-C; prints two lines that kubectl and tj need to be typed first",
        [
            "  make up       the same stack, until Ctrl-C; prints two lines that kubectl and",
            "                tj need to be typed first",
        ],
    ),
    "without columns, two further in": (
        f"  {AUTOSCALER}",
        ["  trainer 2 -> 5: autoscaler: room for 3 more (CPU 0.25 of 4, memory 0.269 of", "    50.5 GB asked for)"],
    ),
    "a label that leaves no room": (
        f"  {'a' * 50}  {'some words ' * 5}".rstrip(),
        [f"  {'a' * 50}  some words some words some", "    words some words some words"],
    ),
    "a list of a setting": (
        f"  TJ_KINDS                          default   {','.join(f'kind{n}.kubeflow.org' for n in range(3))}",
        [
            "  TJ_KINDS                          default   kind0.kubeflow.org,",
            "                                              kind1.kubeflow.org,",
            "                                              kind2.kubeflow.org",
        ],
    ),
    "a name stays whole": (
        f"{'word ' * 14}digits-trainer-0-of-a-long-job-name",
        [("word " * 14).rstrip(), "  digits-trainer-0-of-a-long-job-name"],
    ),
    "a command to be copied stays in one line": (
        f"{'word ' * 12}`tj up --kinds tfjobs.kubeflow.org` switches it on",
        [("word " * 12).rstrip(), "  `tj up --kinds tfjobs.kubeflow.org` switches it on"],
    ),
    "a command with a list gets no blanks, which would make two arguments": (
        f"start it with `tj up --kinds {','.join(f'kind{n}.kubeflow.org' for n in range(4))}` (docs/kinds.md)",
        [
            "start it with",
            f"  `tj up --kinds {','.join(f'kind{n}.kubeflow.org' for n in range(4))}`",
            "  (docs/kinds.md)",
        ],
    ),
    "nothing": ("", [""]),
}


@pytest.mark.parametrize(("line", "want"), WRAPPED.values(), ids=list(WRAPPED))
def test_a_line_at_80_columns(line: str, want: list[str]) -> None:
    assert wrap(line, 80) == want


def test_what_a_timeline_tells_is_wrapped_below_its_time() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    end = begin + timedelta(seconds=100)
    chart = Chart(
        "AITrainingJob default/digits: Running",
        begin,
        end,
        (Lane("Running", (Bar(begin, end, "phase", "Running"),), ()),),
        (Lane("trainer-0", (Bar(begin, end, "runs", "trainer-0"),), ()),),
        (Mark(begin, "scaled", AUTOSCALER),),
    )
    drawn = list(lines(chart, 80))
    assert max(map(len, drawn)) <= 80
    assert drawn[-2:] == [
        "     0s  trainer 2 -> 5: autoscaler: room for 3 more (CPU 0.25 of 4, memory",
        "         0.269 of 50.5 GB asked for)",
    ]


def test_the_end_of_the_demo_fits_80_columns() -> None:
    record = {"role": "trainer", "from": 2, "to": 5, "reason": AUTOSCALER.partition(": ")[2]}
    seen = summary.Seen(job={"status": {"scaleRecords": [record]}}, grown_after_seconds=3.2, killed="digits-trainer-1")
    said = [*summary.happened(seen, 70.0), "", *summary.next_steps()]
    shown = [part for line in said for part in wrap(line, 80)]
    assert max(map(len, shown)) <= 80
    assert " ".join(" ".join(said).split()) == " ".join(" ".join(shown).split())
