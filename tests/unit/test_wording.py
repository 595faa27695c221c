"""The word list of `make check`: where it looks, and what it leaves alone."""

from __future__ import annotations

import pytest

from tests.support.paths import ROOT
from tests.support.wording import NOT_YET, find_old_manner

FOUND: dict[str, tuple[str, str, int]] = {
    "a docstring": ("a.py", '"""Nobody waits."""\n', 1),
    "a docstring without a subject": ("a.py", '"""Of the plan."""\n', 1),
    "the description of a field": ("a.py", 'class A:\n    x = 1\n    """Whoever asks."""\n', 1),
    "a comment": ("a.py", "x = 1  # it stands there\n", 1),
    "a message": ("a.py", 'raise ValueError("nobody knows")\n', 1),
    "a name": ("a.py", "told = 1\n", 1),
    "a part of a name is no word": ("a.py", "standing = too_told = 1\n", 0),
    "a name of code in a docstring": ("a.py", '"""See `told`."""\n', 0),
    "a string of one word is data": ("a.py", 'KEY = "told"\n', 0),
    "plain English": ("a.py", '"""The worker reports the error."""\n', 0),
}


@pytest.mark.parametrize("where", FOUND)
def test_the_word_list_looks_at(where: str) -> None:
    name, source, want = FOUND[where]
    assert len(find_old_manner(name, source)) == want


def test_each_module_that_is_left_out_is_there() -> None:
    assert [module for module in NOT_YET if not (ROOT / module).is_file()] == []
