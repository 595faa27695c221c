"""What the contract suites ask a real API server: the same answers as the local cluster gives in `make test`."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.paths import ROOT


def test_the_real_api_server_answers_as_the_local_one_does() -> None:
    """In a process of its own: the suites have a control plane without an operator, and their own conftest."""
    command = [sys.executable, "-m", "tests.e2e.control_plane.contract"]
    without_xdist = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=without_xdist, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
