"""What `tj up` says before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tjworker.cli.errors import UserError
from tjworker.cli.stack.local import check_installed


def test_a_package_of_the_workbench_that_is_not_installed_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "in_a_checkout").mkdir()  # found as a namespace, though nothing is installed
    for package in ("in_a_checkout", "nowhere_at_all"):
        with pytest.raises(UserError, match=rf"{package} is not installed.*pip install ./{package}"):
            check_installed(package)


def test_what_make_sets_up_is_installed() -> None:
    for package in ("localcluster", "controlplane"):
        check_installed(package)
        assert package not in sys.modules or sys.modules[package].__file__


def test_without_the_extra_local_tj_up_says_what_to_install() -> None:
    program = "import sys; sys.modules['psutil'] = None; from tjworker.cli.main import run; sys.exit(run(['up']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("tj: the local stack is not installed: run `make up`")
