"""`tj demo` on Kubernetes itself: real processes train, one is killed, the job grows, and it ends with its accuracy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

WITHIN_SECONDS = 900


@pytest.mark.skipif(
    os.environ.get("TJ_REAL_KUBERNETES", "") not in ("", "1.36", "1.36.3"), reason="tj up runs the default version"
)
def test_the_whole_demo_on_the_real_control_plane(tmp_path: Path) -> None:
    wanted = ("TJ_CACHE_DIR", "KUBEBUILDER_ASSETS")
    kept = {k: v for k, v in os.environ.items() if k in wanted or not k.startswith(("TJ_", "KUBE", "PYTEST_"))}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tjworker.cli",
            "demo",
            "--plain",
            "--control-plane",
            "real",
            "--state-dir",
            str(tmp_path / "tj"),
        ],
        cwd=ROOT,
        env=kept,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    name, number = done.stdout.split()[-2:]
    assert name == "accuracy"
    assert float(number) >= 0.95
    assert "no trainer was restarted for it" in done.stdout
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(tmp_path).encode() not in entry.read_bytes(), f"left behind: {entry.read_bytes()!r}"
        except OSError:
            continue
