"""Unpacks Debian's PyTorch and sshd into .venv/frameworks/debian; installs nothing and needs no root.

`python -m tests.frameworks.debian`. What cannot be had is said, and the tests that need it are skipped. Safe to run
twice.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.frameworks.training import DEBIAN
from tests.support.paths import ROOT

LISTED = ROOT / "requirements/frameworks-debian.txt"


def wanted() -> dict[str, str]:
    """`package=version` -> SHA-256."""
    lines = [line.split() for line in LISTED.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {f"{package}={version}": sha256 for package, version, sha256 in lines}


def main() -> int:
    if sys.version_info[:2] != (3, 11) or not shutil.which("apt-get") or not shutil.which("dpkg"):
        print(
            "frameworks: PyTorch is left out: it is Debian 12's, for Python 3.11; its tests are skipped",
            file=sys.stderr,
        )
        return 0
    listed = wanted()
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run(
            ["apt-get", "download", "-q", *listed], cwd=folder, capture_output=True, text=True, check=False
        )
        if got.returncode:
            told = got.stderr.strip()[-500:]
            print(f"frameworks: PyTorch is left out, its tests are skipped; apt-get said: {told}", file=sys.stderr)
            print(
                "frameworks: run `apt-get update` and try again; versions that are gone are listed anew",
                file=sys.stderr,
            )
            return 0
        files = sorted(Path(folder).glob("*.deb"))
        strange = [file.name for file in files if hashlib.sha256(file.read_bytes()).hexdigest() not in listed.values()]
        if strange or len(files) != len(listed):
            print(f"frameworks: not the listed packages: {', '.join(strange) or 'some are missing'}", file=sys.stderr)
            return 1
        shutil.rmtree(DEBIAN, ignore_errors=True)
        for file in files:
            subprocess.run(["dpkg", "-x", str(file), str(DEBIAN)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
