"""What `tj up` says before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tjstack.local import check_installed
from tjworker.cli.errors import UserError


def test_a_package_of_the_workbench_that_is_not_installed_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "in_a_checkout").mkdir()  # found as a namespace, though nothing is installed
    for package in ("in_a_checkout", "nowhere_at_all"):
        with pytest.raises(UserError, match=rf"{package} is not installed.*pip install ./{package}"):
            check_installed(package)
