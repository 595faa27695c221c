"""keys.py is the whole truth about Redis keys: scripts use no other, and the page in docs/ says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tjworker.store import scripts
from tjworker.store.keys import BY_NAME, markdown

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "tjworker" / "store" / "scripts"


def test_the_page_on_redis_keys_is_the_one_that_keys_py_makes() -> None:
    page = (ROOT / "docs" / "redis.md").read_text()
    assert page == "\n".join(markdown()) + "\n", "run: python -m tjworker.store.keys > docs/redis.md"


def test_every_script_of_the_folder_is_listed() -> None:
    assert {path.stem for path in FOLDER.glob("*.lua")} == {*scripts.NAMES, "common"}


@pytest.mark.parametrize("name", [*scripts.NAMES, "common"])
def test_a_script_uses_only_documented_keys_and_begins_with_what_it_does(name: str) -> None:
    text = (FOLDER / f"{name}.lua").read_text()
    assert set(re.findall(r"\bK\.(\w+)", text)) <= set(BY_NAME)
    assert text.startswith("-- ")
    assert not re.search(r"^[^-].*ARGV\[1\]", text, re.MULTILINE), "the prefix is in K already"


@pytest.mark.parametrize("name", scripts.NAMES)
def test_the_head_of_a_script_lists_every_key_that_it_names_itself(name: str) -> None:
    text = (FOLDER / f"{name}.lua").read_text()
    head = " ".join(line.removeprefix("--") for line in text.splitlines() if line.startswith("--"))
    listed = re.search(r"Keys\s+([\w, ]+?)(?:\s{2}|\s+Gives|$)", head)
    assert listed, f"{name}.lua has no line `-- Keys  ...`"
    assert set(re.findall(r"\bK\.(\w+)", text)) <= {key.strip() for key in listed[1].split(",")}
