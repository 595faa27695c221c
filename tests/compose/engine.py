"""A container engine, its Compose, and base images for the project's Dockerfile and docker-compose.yml.

Where a registry answers, base images come from it. Elsewhere they are made from Debian packages with debootstrap, which
needs root; Debian's Redis then plays Valkey.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import ROOT

OLDEST_ENGINE, OLDEST_COMPOSE = (20, 10), (2, 24)
"""As docs/operations.md names them."""
PULL_SECONDS = 300
BUILD_SECONDS = 1_500
"""Of both images, packages fetched, on a machine that has other work."""
VERSION = "TJ_TEST_PYTHON"
"""Of the images' Python, when it is not that of docker-compose.yml: one of SUITES."""
SUITES = {"3.11": "bookworm", "3.14": "forky"}
"""Which Debian has it."""
REDIS = "localhost/trainingjob-operator-test-redis:bookworm"
SCRIPT = "/usr/share/debootstrap/scripts/sid"
"""A debootstrap need not know a newer Debian by its name."""
PACKAGES = "python3,python3-pip,python-is-python3,ca-certificates,openssl,redis-server"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
_REDIS_FILE = """
FROM localhost/trainingjob-operator-test-python:bookworm
RUN ln -s /usr/bin/redis-server /usr/local/bin/valkey-server && ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli \
    && mkdir /data && chown 999:1000 /data
"""


class NoEngineError(Exception):
    """What is missing on this machine, and how to get it."""


class CommandError(subprocess.CalledProcessError):
    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.stderr.strip()[-2000:]}"


def docker(
    *words: str, timeout_seconds: float = 60, stdin: str = "", environment: Mapping[str, str] | None = None
) -> str:
    """The standard output. Raises CommandError with both outputs."""
    done = subprocess.run(
        ["docker", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        env=os.environ | dict(environment or {}),
        check=False,
    )
    if done.returncode:
        raise CommandError(done.returncode, f"docker {' '.join(words)}", done.stdout, done.stderr)
    return done.stdout


def find_engine(*, compose_too: bool = True) -> str:
    """The versions of engine and Compose, in words. Raises NoEngineError."""
    try:
        server = docker("version", "--format", "{{.Server.Version}}").strip()
    except FileNotFoundError:
        raise NoEngineError("there is no docker: install an engine (Debian: apt-get install docker.io)") from None
    except subprocess.CalledProcessError as error:
        raise NoEngineError(f"no container engine answers: start dockerd ({error.stderr.strip()[-200:]})") from None
    _refuse_older("Docker Engine", server, OLDEST_ENGINE)
    compose = _compose_version()
    if not compose and compose_too:
        raise NoEngineError("docker has no Compose: install the plug-in docker-compose, 2.24 or newer")
    if not compose:
        _refuse_without_buildkit()
        return f"Docker Engine {server}"
    _refuse_older("Compose", compose, OLDEST_COMPOSE)
    return f"Docker Engine {server}, Compose {compose}"


def _refuse_older(name: str, version: str, oldest: tuple[int, ...]) -> None:
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < oldest:
        raise NoEngineError(f"{name} {version} is too old: install {'.'.join(map(str, oldest))} or newer")


def _refuse_without_buildkit() -> None:
    try:
        docker("build", "--help", environment={"DOCKER_BUILDKIT": "1"})
    except subprocess.CalledProcessError:
        raise NoEngineError("docker cannot build: install the plug-in docker-buildx, or docker-compose") from None


def _compose_version() -> str:
    """'' without the plug-in."""
    try:
        return docker("compose", "version", "--short").strip()
    except subprocess.CalledProcessError:
        return ""


@dataclass(frozen=True, slots=True)
class Images:
    python: str
    redis: str


def default_images() -> dict[str, str]:
    """PYTHON_IMAGE and REDIS_IMAGE, as docker-compose.yml has them."""
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    return dict(re.findall(r"\$\{(PYTHON_IMAGE|REDIS_IMAGE):-([^}]+)\}", text))


def base_images(wanted: Mapping[str, str]) -> Images:
    """Those that docker-compose.yml names (PYTHON_IMAGE, REDIS_IMAGE), else stand-ins. Raises NoEngineError."""
    version = os.environ.get(VERSION, "")
    if version:
        wanted = {**wanted, "PYTHON_IMAGE": f"python:{version}-slim"}
    if all(_is_here(image) or _pull(image) for image in wanted.values()):
        return Images(wanted["PYTHON_IMAGE"], wanted["REDIS_IMAGE"])
    oldest = next(iter(SUITES))
    python = _make_base(oldest)
    if not _is_here(REDIS):
        build = ("build", "-q", "-t", REDIS, "-")
        docker(*build, stdin=_REDIS_FILE, timeout_seconds=120, environment={"DOCKER_BUILDKIT": "0"})
    return Images(_make_base(version) if version else python, REDIS)


def build_image(name: str, tree: Path, images: Images, target: str = "") -> None:
    """`docker build -t NAME --target TARGET TREE`, by Compose where it is: it brings BuildKit along, for which `docker`
    itself needs the plug-in buildx from version 23 on."""
    if _compose_version():
        build = {"context": str(tree), "args": {"PYTHON": images.python}, **({"target": target} if target else {})}
        project = json.dumps({"services": {"image": {"image": name, "build": build}}})
        docker("compose", "--project-name", "images", "-f", "-", "build", stdin=project, timeout_seconds=BUILD_SECONDS)
        return
    words = ["build", "--quiet", "--tag", name, "--build-arg", f"PYTHON={images.python}"]
    words += ["--target", target] if target else []
    docker(*words, str(tree), timeout_seconds=BUILD_SECONDS, environment={"DOCKER_BUILDKIT": "1"})


def _is_here(image: str) -> bool:
    return bool(docker("images", "--quiet", image).strip())


def _pull(image: str) -> bool:
    try:
        docker("pull", "--quiet", image, timeout_seconds=PULL_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return True


def _make_base(version: str) -> str:
    """An image with this Python, made from packages unless it is here."""
    if version not in SUITES:
        raise NoEngineError(
            f"{VERSION}={version}: no registry answers, and only {', '.join(SUITES)} are made from packages"
        )
    suite = SUITES[version]
    image = f"localhost/trainingjob-operator-test-python:{suite}"
    if _is_here(image):
        return image
    mirror = _mirror()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None or not mirror:
        raise NoEngineError(
            "no registry answers for the base images; as root of a Debian with debootstrap they are made from packages"
        )
    with tempfile.TemporaryDirectory() as folder:
        root, archive = Path(folder, "root"), Path(folder, "root.tar")
        where = (suite, str(root), mirror, SCRIPT)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", *where)
        # Behind a proxy that signs what it passes on, pip in the image trusts whom this machine trusts.
        if AUTHORITIES.is_file():
            shutil.copy(AUTHORITIES, root / AUTHORITIES.relative_to("/"))
        for fetched in ("var/cache/apt/archives", "var/lib/apt/lists"):  # a third of the image
            shutil.rmtree(root / fetched)
        run("tar", "-C", str(root), "-cf", str(archive), ".")
        # Debian's pip brings packages along that pip cannot remove: ours go beside them.
        changes = ("ENV PIP_BREAK_SYSTEM_PACKAGES=1 PIP_IGNORE_INSTALLED=1", f"ENV PIP_CERT={AUTHORITIES}")
        words = (word for line in changes for word in ("--change", line))
        docker("import", *words, str(archive), image, timeout_seconds=120)
    return image


def run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    if done.returncode:
        raise NoEngineError(f"{' '.join(words[:2])} failed: {(done.stdout + done.stderr).strip()[-500:]}")


def _mirror() -> str:
    """The one that this machine installs from; '' if it is no Debian."""
    for path in sorted(Path("/etc/apt").glob("sources.list.d/*.sources")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("URIs:"):
                return line.split()[1]
    return ""
