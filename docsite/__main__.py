"""Builds the documentation as a web site that needs no server and no network.

make site         # build/site/VERSION/index.html
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from docsite.stage import ROOT, BrokenLinkError, stage

BUILD = ROOT / "build" / "site"
WORK = ROOT / "build" / "site-source"


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    try:
        stage(WORK / "docs")
    except BrokenLinkError as error:
        sys.stderr.write(f"docsite: {error}\n")
        return 1
    shutil.copyfile(Path(__file__).parent / "zensical.toml", WORK / "zensical.toml")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".venv" / "site"), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if subprocess.run(command, cwd=WORK, env=environment, check=False).returncode != 0:
        return 1
    # A folder for each version: publish build/site as it grows, and older versions stay readable.
    target = BUILD / project["version"]
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    (WORK / "site").rename(target)
    print(target / "index.html")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
