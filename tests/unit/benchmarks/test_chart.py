"""The chart: well-formed, to scale, and harmless whatever a name holds."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks import planning
from benchmarks.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, steps

SVG = "{http://www.w3.org/2000/svg}"


def lines(text: str) -> list[str]:
    found = ET.fromstring(text).iter(f"{SVG}path")  # noqa: S314  our own text
    return [path.attrib["d"] for path in found if path.attrib.get("stroke-width") == "2"]


def test_a_value_holds_until_the_next() -> None:
    middle, right = (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT
    assert lines(steps("t", {"s": [(0, 0), (5, 4), (10, 2)]}, [])) == [
        f"M{LEFT:.1f} {HEIGHT - BOTTOM:.1f}H{middle}V{TOP:.1f}H{right:.1f}V{(HEIGHT - BOTTOM + TOP) / 2}"
    ]


def test_names_and_marks_are_text_and_nothing_else() -> None:
    text = steps("a < b", {"<script>": [(0, 1), (1, 1)]}, [(0.5, 'x & "y"')])
    words = [element.text for element in ET.fromstring(text).iter(f"{SVG}text")]  # noqa: S314
    assert {"a < b", "<script>", 'x & "y"'} <= set(words)


def test_nothing_to_show_is_a_chart_all_the_same() -> None:
    assert lines(steps("t", {"s": []}, [])) == [""]


def test_planning_times_are_only_told_of_plans_that_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [planning.Size(20, 5, "few", naive=True), planning.Size(20, 5, "all", start="max", naive=True)]
    assert planning.compare_with_naive(sizes) == 0
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split("|")[1:5] for row in rows] == [
        [" 20 ", " 5 ", " few ", " min "],
        [" 20 ", " 5 ", " all ", " max "],
    ]
