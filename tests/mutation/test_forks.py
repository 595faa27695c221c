"""`forks.py` on a tree of one module. Its mutants are written by hand, as mutmut writes them: by the name that is
alive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.mutation.forks import NO_TEST, Orders
from tests.support.paths import ROOT

pytestmark = pytest.mark.long  # the workbench, in seconds of processes: it decides nothing about the product
TRAMPOLINE = "def record_trampoline_hit(name, caller=None): ..."
CODE = """
import os
from mutmut.mutation import trampoline

def _alive(function):
    alive = os.environ.get("MUTANT_UNDER_TEST", "")
    if alive == "stats":
        trampoline.record_trampoline_hit(function)
    return alive.removeprefix(function + "__mutmut_") if alive.startswith(function + "__mutmut_") else ""

def double(x):
    alive = _alive("code.x_double")
    while alive == "for_ever":
        pass
    return x + x if alive != "wrong" else x + x + 1

def half(x):
    return x // 2 if _alive("code.x_half") != "wrong" else x
"""
TESTS = """
import pytest
from code_under_test import double, half

@pytest.mark.parametrize("text", ["\\\\x00", "\\xfc", "a]["], ids=repr)
def test_two_of_it(text):
    assert double(text) == text + text

def test_that_fails_in_any_case():
    assert half(double(3)) == 4
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    package = tmp_path / "mutmut" / "mutation"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "trampoline.py").write_text(TRAMPOLINE)
    (tmp_path / "code_under_test.py").write_text(CODE)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def judged(tree: Path, mutants: Sequence[str]) -> tuple[Mapping[str, int], str]:
    """(exit codes, what was said)."""
    orders = Orders(
        mutants,
        sorted({name.partition("__mutmut_")[0] for name in mutants}),
        2,
        str(tree / "known.json"),
        str(tree / "out"),
        spare_seconds=1,
    )
    (tree / "out").unlink(missing_ok=True)
    (tree / "orders.json").write_text(json.dumps(asdict(orders)))
    env = {**os.environ, "TJ_MUTANTS": str(tree / "orders.json"), "PYTHONPATH": f"{tree}{os.pathsep}{ROOT}"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is needed, and Hypothesis takes a second
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.forks", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "test_it.py"], cwd=tree, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(line) for line in (tree / "out").read_text().splitlines()), done.stdout


def test_what_is_said_of_each_mutant(tree: Path) -> None:
    codes, said = judged(
        tree,
        [
            "code.x_double__mutmut_wrong",
            "code.x_double__mutmut_same",
            "code.x_double__mutmut_for_ever",
            "code.x_half__mutmut_wrong",
            "code.x_nobody__mutmut_1",
        ],
    )
    assert codes["code.x_double__mutmut_wrong"] == 1, "tests whose names hold backslashes are found"
    assert codes["code.x_double__mutmut_same"] == 0
    assert codes["code.x_double__mutmut_for_ever"] < 0, "ended by a signal, which judges nothing"
    assert codes["code.x_half__mutmut_wrong"] == NO_TEST, "the one test of it fails in any case, so it judges none"
    assert codes["code.x_nobody__mutmut_1"] == NO_TEST
    assert "fails without a mutant and judges none: test_it.py::test_that_fails_in_any_case" in said


def test_what_is_known_of_a_test_holds_until_its_file_or_the_functions_change(tree: Path) -> None:
    mutants = ["code.x_double__mutmut_wrong"]
    assert "4 tests are played without a mutant" in judged(tree, mutants)[1]
    assert "are played" not in judged(tree, mutants)[1]
    assert "4 tests are played" in judged(tree, [*mutants, "code.x_new__mutmut_1"])[1]
    (tree / "test_it.py").write_text(
        TESTS.replace("== 4", "== 3  # of another length: bytecode goes by it and by the second")
    )
    codes, said = judged(tree, [*mutants, "code.x_half__mutmut_wrong"])
    assert "4 tests are played" in said
    assert codes["code.x_half__mutmut_wrong"] == 1, "now it passes without a mutant"
