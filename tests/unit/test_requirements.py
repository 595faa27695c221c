"""Each file of exact versions installs on every supported Python: it lists whatever its packages require there.

Read from the metadata of the installed packages: a package that is not installed here is not looked into."""

from __future__ import annotations

from functools import cache
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

PYTHONS = ("3.11.0", "3.11.2", "3.11.3", "3.12.0", "3.13.0", "3.14.0")
"""The bounds of supported versions, and of the markers that stand in packages' metadata (redis: 3.11.3)."""
FILES = ("runtime", "history", "local", "dev")
EVERY_FILE = ("build", "audit", "mutation", *FILES)


def environment_of(python: str, extra: str = "") -> dict[str, str]:
    return {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "implementation_name": "cpython",
        "implementation_version": python,
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "extra": extra,
    }


@cache
def requirements_of(name: str) -> list[Requirement]:
    text = (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8")
    lines = (line.rstrip(" \\") for line in text.splitlines() if line and not line.startswith((" ", "#")))
    return [Requirement(line) for line in lines]


def installed_on(name: str, python: str) -> set[str]:
    """The packages that pip installs from the file on this Python."""
    found = [r for r in requirements_of(name) if r.marker is None or r.marker.evaluate(environment_of(python))]
    names = [canonicalize_name(r.name) for r in found]
    assert len(set(names)) == len(names), "one version each"
    return set(names)


def required_by(package: str, python: str) -> set[str]:
    environment = environment_of(python)
    needed = (r for r in declared_by(package) if r.marker is None or r.marker.evaluate(environment))
    return {canonicalize_name(r.name) for r in needed}


@cache
def declared_by(package: str) -> list[Requirement]:
    try:
        return [Requirement(line) for line in metadata.requires(package) or []]
    except metadata.PackageNotFoundError:
        return []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", EVERY_FILE)
def test_a_file_holds_whatever_its_packages_require(name: str, python: str) -> None:
    listed = installed_on(name, python)
    missing = {f"{package} requires {needed}" for package in listed for needed in required_by(package, python) - listed}
    assert not missing, f"requirements/{name}.txt on Python {python}; compile it anew (CONTRIBUTING.md, A dependency)"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", FILES)
def test_each_package_that_a_file_is_made_from_is_installed_on_every_python(name: str, python: str) -> None:
    lines = (ROOT / f"requirements/{name}.in").read_text(encoding="utf-8").splitlines()
    wanted = {canonicalize_name(Requirement(line).name) for line in lines if line and line[0] not in "#-"}
    assert wanted <= installed_on(name, python)
