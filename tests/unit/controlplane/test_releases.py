"""The pins, and where programs are looked for."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from controlplane import binaries
from controlplane.releases import DEFAULT, MODULES, NEEDED, PROGRAMS, SUPPORTED, Program, Release, kubelet, release
from tests.support.paths import ROOT


@pytest.mark.parametrize("version", SUPPORTED)
def test_the_modules_pin_what_the_release_says(version: str) -> None:
    text = (MODULES / version / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{version}" in text
    assert set(re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ (v\S+)$", text, re.MULTILINE)) == {f"v0.{version[2:]}"}
    for program in PROGRAMS:
        assert program.package in (Release(version).folder(program) / "go.mod").read_text()
        assert (Release(version).folder(program) / "go.sum").exists()


@pytest.mark.parametrize("program", kubelet().programs, ids=lambda program: program.name)
def test_the_programs_of_a_node_are_of_the_default_control_planes_version(program: Program) -> None:
    text = (kubelet().folder(program) / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{DEFAULT}" in text
    assert program.package in text


def _program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder / name


def test_the_assets_go_first_and_the_cache_fills_what_they_lack(tmp_path: Path) -> None:
    env = {binaries.ASSETS: str(tmp_path / "assets"), binaries.CACHE: str(tmp_path / "cache")}
    ours = binaries.cached_folder(release(), env)
    for name in NEEDED:
        _program(ours, name)
    mine = _program(tmp_path / "assets", "etcd")
    found = binaries.locate(release(), env)
    assert (found["etcd"], found["kube-scheduler"]) == (mine, ours / "kube-scheduler")
    assert binaries.missing(release(), env) == []


def test_the_cache_is_in_the_project_and_ignored_by_git() -> None:
    # It may be a link to a larger disk.
    assert binaries.cache_root({}) == (ROOT / ".cache").resolve() / "control-plane"
    assert ".cache" in (ROOT / ".gitignore").read_text().split()
    assert os.access(MODULES, os.R_OK)
