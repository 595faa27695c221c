"""Long files and functions are named, those of tools and hidden folders aside."""

from __future__ import annotations

from pathlib import Path

from tests.support.lengths import find_long_parts


def test_what_is_long_is_named(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("def f() -> None:\n" + "    pass\n" * 59 + "\n" * 440)
    assert find_long_parts(tmp_path) == []
    (tmp_path / "long.py").write_text("\nasync def f() -> None:\n" + "    pass\n" * 60 + "\n" * 439)
    assert find_long_parts(tmp_path) == ["long.py: 501 lines, more than 500", "long.py:2: f has 61 lines, more than 60"]
    (tmp_path / "pyvenv.cfg").touch()
    assert find_long_parts(tmp_path) == []
