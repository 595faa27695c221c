"""Comments, block texts, quotes and flow style go where their fields go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tjworker.convert import comments
from tjworker.convert.report import Origins

WHOLE: Origins = {(): ()}


@dataclass(frozen=True)
class Case:
    text: str
    made: Any
    want: str
    origins: Origins
    want_lost: tuple[str, ...] = ()


CASES: dict[str, Case] = {
    "above and beside": Case("# a\nx: 1  # b\n", {"x": 1}, "# a\nx: 1  # b\n", WHOLE),
    "of a field that has moved": Case(
        "old:\n  # why\n  n: 2   # two\n",
        {"new": {"m": 2}},
        "new:\n  # why\n  m: 2  # two\n",
        {("new",): ("old",), ("new", "m"): ("old", "n")},
    ),
    "a list": Case("l:\n# one\n- a  # A\n- b\n", {"l": ["a", "b"]}, "l:\n# one\n- a  # A\n- b\n", WHOLE),
    "a list of objects": Case(
        "l:\n# one\n- name: a  # A\n  v: 1  # V\n",
        {"l": [{"name": "a", "v": 1}]},
        "l:\n# one\n- name: a  # A\n  v: 1  # V\n",
        WHOLE,
    ),
    "of an item that becomes an entry, and of its name, in their order": Case(
        "l:\n# item\n-\n  # name\n  name: a\n  v: 1\n",
        {"m": {"a": {"v": 1}}},
        "m:\n  # item\n  # name\n  a:\n    v: 1\n",
        {("m",): ("l",), ("m", "a"): ("l", 0)},
    ),
    "a # in texts is none": Case(
        'a: "x # y"\nb: x#y\nc: |\n  # no\n  end\n',
        {"a": "x # y", "b": "x#y", "c": "# no\nend\n"},
        'a: "x # y"\nb: x#y\nc: |\n  # no\n  end\n',
        WHOLE,
    ),
    "behind a block text it stands above": Case("a: |  # why\n  x\n", {"a": "x\n"}, "a: |\n  x\n", WHOLE),
    "JSON becomes YAML": Case('{"a": {"b": "1"}}\n', {"a": {"b": "1"}}, "a:\n  b: '1'\n", WHOLE),
    "behind a list over several lines": Case(
        "a: [1,\n  2]  # two\nb: 3\n", {"a": [1, 2], "b": 3}, "a: [1, 2]  # two\nb: 3\n", WHOLE
    ),
    "words that kubectl reads as another type stay quoted": Case(
        "a: 'yes'\n", {"a": "yes", "b": "1e3", "c": "on"}, "a: 'yes'\nb: '1e3'\nc: 'on'\n", WHOLE
    ),
    "an anchor is written out": Case("a: &x [1]\nb: *x\n", {"a": [1], "b": [1]}, "a: [1]\nb: [1]\n", WHOLE),
}


@pytest.mark.parametrize("sentence", CASES)
def test_comments(sentence: str) -> None:
    case = CASES[sentence]
    text, lost = comments.write(case.made, comments.read(case.text)[0], case.origins)
    assert (text, lost) == (case.want, case.want_lost)
    assert yaml.safe_load(text) == case.made
