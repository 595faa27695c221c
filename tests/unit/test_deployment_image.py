"""The Dockerfile, read as its builder reads it, without building: what it copies is there and let through by
.dockerignore, what it installs is pinned, what it starts runs, and the final stages are those of an unprivileged user.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

FINAL_STAGES = ("operator", "local")
_PIN = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9._]*)==([^ ;\\]+)", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    stage: str
    word: str
    rest: str


def steps(requirements: str = "runtime") -> list[Step]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ").splitlines()
    found, stage = [], ""
    for line in lines:
        if not line.strip():
            continue
        word, rest = line.replace("${REQUIREMENTS}", requirements).split(None, 1)
        if word == "FROM":
            stage = rest.split(" AS ")[1].strip()
        found.append(Step(stage, word, rest.strip()))
    return found


STEPS = steps()


def of(stage: str, word: str) -> list[str]:
    """The steps of a stage, those of what it is made from first."""
    (base,) = [s.rest.split()[0] for s in STEPS if s.stage == stage and s.word == "FROM"]
    inherited = of(base, word) if any(s.stage == base for s in STEPS) else []
    return inherited + [s.rest for s in STEPS if s.stage == stage and s.word == word]


def pins(name: str) -> set[tuple[str, str]]:
    """(package, version); of some there are two, for different versions of Python."""
    return set(_PIN.findall((ROOT / "requirements" / name).read_text(encoding="utf-8")))


def ignored(path: str) -> bool:
    """The last pattern of .dockerignore that matches the path or a folder above it decides."""
    result = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        parts = Path(path).parts
        above = ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        if any(fnmatch.fnmatch(p, pattern) or fnmatch.fnmatch("/" + p, pattern.replace("**", "*")) for p in above):
            result = not line.startswith("!")
    return result


def test_what_is_copied_is_there_and_not_ignored() -> None:
    sources = [source for s in STEPS if s.word == "COPY" and "--from" not in s.rest for source in s.rest.split()[:-1]]
    assert {"tjworker", "watcher", "localcluster/src", "beat_schedule.py", "requirements/runtime.txt"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".venv/bin/python",
        ".env",
        "settings.env",
        "tests/conftest.py",
        ".tj/kubeconfig",
        "docker-compose.yml",
        "controlplane/pyproject.toml",
        "localcluster/localcluster_tests/conftest.py",
        "tjstack/src/tjstack/up.py",
        "tjworker/__pycache__/app.cpython-311.pyc",
    ],
)
def test_what_is_no_business_of_the_image_stays_out(path: str) -> None:
    assert ignored(path)


def test_every_installation_checks_hashes_or_installs_what_was_built_here() -> None:
    for step in STEPS:
        for command in re.findall(r"pip (?:install|download|wheel)[^&]*", step.rest):
            assert "--require-hashes" in command or "--no-deps" in command, command
            # Nothing foreign is built: that would run its code, with the network.
            assert {"--only-binary=:all:", "--no-index", "--no-build-isolation"} & set(command.split()), command
    for name in ("build.txt", "runtime.txt", "history.txt", "local.txt"):
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        assert len(pins(name)) == len(re.findall(r"^[A-Za-z0-9]", text, re.MULTILINE)) > 0
        assert all("--hash=sha256:" in block for block in re.split(r"(?m)^(?=[A-Za-z0-9])", text)[1:])


def test_the_images_hold_the_versions_that_are_tested() -> None:
    tested = pins("runtime.txt") | pins("dev.txt")
    for name in ("build.txt", "local.txt"):
        assert pins(name) <= tested
    # What has a condition (another Python, another platform) may be missing on this one.
    conditional = {
        name
        for name, _ in _PIN.findall(
            "\n".join(
                re.findall(r"(?m)^[a-zA-Z].* ; .*", (ROOT / "requirements" / "runtime.txt").read_text(encoding="utf-8"))
            )
        )
    }
    always = {pin for pin in pins("runtime.txt") if pin[0] not in conditional}
    assert always <= pins("local.txt")
    assert always <= pins("history.txt") <= pins("dev.txt") | always


@pytest.mark.parametrize(
    ("project", "requirements"),
    [
        ("pyproject.toml", "runtime.txt"),
        ("localcluster/pyproject.toml", "local.txt"),
        ("tjstack/pyproject.toml", "dev.txt"),  # in no image: what `make setup` installs is what tests have tried
    ],
)
def test_what_a_wheel_depends_on_is_in_its_image(project: str, requirements: str) -> None:
    """The wheels are installed with --no-deps."""
    needed = tomllib.loads((ROOT / project).read_text(encoding="utf-8"))["project"]["dependencies"]
    names = {re.split(r"[^A-Za-z0-9._-]", each)[0].lower() for each in needed}
    assert {name for name in names if not name.startswith("trainingjob-")} <= {
        name.lower() for name, _ in pins(requirements)
    }


@pytest.mark.parametrize("stage", FINAL_STAGES)
def test_final_stages_run_as_an_unprivileged_user_and_hold_no_tools(stage: str) -> None:
    (user,) = of(stage, "USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)
    assert not re.search(r"apt-get|gcc|build-essential|curl|sudo", " ".join(of(stage, "RUN")))
    installs = re.findall(r"pip install[^&]*", " ".join(of(stage, "RUN")))
    assert installs
    assert all("--no-index" in command for command in installs)


def commands() -> dict[str, list[str]]:
    """What the image is told to run, by itself and by compose and its health checks."""
    found = {f"CMD of {stage}": json.loads(of(stage, "CMD")[-1]) for stage in FINAL_STAGES}
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    others = {"redis", "setup"}  # of another image; of a shell and openssl, which every image of Debian has
    return found | {name: [str(word) for word in s["command"]] for name, s in services.items() if name not in others}


@pytest.mark.parametrize("name", commands())
def test_what_is_started_is_installed(name: str) -> None:
    program, *words = commands()[name]
    here = Path(sys.executable).parent
    assert (here / program).exists()
    if program == "python" and words[0] == "-m":
        assert importlib.util.find_spec(words[1]) is not None
    elif program == "celery":
        assert why_it_fails(str(here / "celery"), *words[:3], "--help") == ""
    else:
        assert why_it_fails(str(here / program), words[0] if words[0].startswith("-") else "--help") == ""


@cache
def why_it_fails(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"
