"""Kubeflow's own end-to-end tests of its Python client, unmodified, against this operator.

    TJ_SDK_E2E=.../training-operator/sdk/python/test/e2e make test-sdk

Their files are not part of this project: take them from kubeflow/training-operator, branch release-1.9. With
TJ_SDK_E2E_REAL=1 the operator serves a real Kubernetes control plane instead of the local API server. In both cases
pods are processes of this machine, so `stand_ins` replaces programs that only an image has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.stack import LocalStack
from tests.sdk.test_kubeflow import PYTHON
from tjworker.api.kinds import kubeflow

SUITE = Path(os.environ.get("TJ_SDK_E2E", "not-given"))
REAL = os.environ.get("TJ_SDK_E2E_REAL") == "1"
FILE_SECONDS = 1800.0
"""Of one file of theirs: each test waits up to 15 minutes for its job."""
pytestmark = [
    pytest.mark.xdist_group("stack"),
    pytest.mark.skipif("TJ_SDK" not in os.environ, reason="`make test-sdk` runs it, in an environment of its own"),
    pytest.mark.skipif(not SUITE.is_dir(), reason="TJ_SDK_E2E names the folder sdk/python/test/e2e of their sources"),
]
FILES = sorted(path.name for path in SUITE.glob("test_e2e_*.py")) or ["test_e2e_none.py"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    settings = {name: value for name, value in os.environ.items() if name == "TJ_CACHE_DIR"}
    settings["TJ_KINDS"] = ",".join(kind.resource for kind in kubeflow.JOB_KINDS)
    plane = ("--control-plane", "real") if REAL else ()
    made = LocalStack(tmp_path_factory.mktemp("e2e") / "state", "--nodes", "4", "--node-cpu", "8", *plane, **settings)
    try:
        made.start()
        yield made
    finally:
        made.clear()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the client's wrapped functions start, and an image of PyTorch has."""
    folder = tmp_path_factory.mktemp("programs")
    torchrun = folder / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    torchrun.chmod(0o755)
    return folder


def run_file(name: str, stack: LocalStack, programs: Path, report: Path) -> dict[str, str]:
    """Test -> passed, skipped, or what went wrong."""
    packages = next((PYTHON.parents[1] / "lib").glob("python3*")) / "site-packages"
    paths = (packages, Path(__file__).parent, SUITE.parents[1])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TJ_", "KUBE"))}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "stand_ins", "-p", "no:cacheprovider", "-c", os.devnull),
            *(f"--rootdir={SUITE.parents[1]}", f"--junitxml={report}", str(SUITE / name)),
        ],
        cwd=SUITE.parents[1],
        env=kept
        | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "KUBECONFIG": str(stack.paths.kubeconfig),
            "TJ_SDK_PROGRAMS": str(programs),
        },
        capture_output=True,
        text=True,
        timeout=FILE_SECONDS,
        check=False,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return {case.attrib["name"]: outcome(case) for case in ElementTree.parse(report).iter("testcase")}  # noqa: S314 - pytest wrote it


def outcome(case: ElementTree.Element) -> str:
    """Of one test in pytest's report."""
    for what in case:
        if what.tag == "skipped":
            return "skipped"
        if what.tag in ("failure", "error"):
            return f"{what.tag}: {what.attrib.get('message', '')}"
    return "passed"


@pytest.mark.parametrize("name", FILES)
def test_their_file_passes(name: str, stack: LocalStack, programs: Path, tmp_path: Path) -> None:
    assert shutil.which(str(PYTHON)), "make test-sdk makes the client's environment"
    found = run_file(name, stack, programs, tmp_path / "report.xml")
    assert "passed" in found.values(), found
    wrong = [f"{test}: {how}" for test, how in found.items() if how not in ("passed", "skipped")]
    assert not wrong, "\n".join([*wrong, f"the others: {found}"])
