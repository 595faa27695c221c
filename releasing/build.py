"""The parts of a release. Wheels are built of the last commit in a folder of their own: files that lie about in the
working tree, and what an earlier build has left in build/lib, are in none."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import yaml

from charts.build import build as build_chart
from charts.build import package
from tjstack.services import kubectl_path

ROOT = Path(__file__).resolve().parent.parent
SBOM = ROOT / "build" / "sbom"
MANIFESTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "install.yaml": ("k8s", ()),
    "install-with-page.yaml": ("k8s", ("k8s/page",)),
    "install-namespaced.yaml": ("k8s/namespaced", ()),
}
"""File -> folder and components."""
SCRIPTS = ("k8s/secrets.sh", "k8s/certificates.sh")
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]*(?::\d+)?(?:/[a-z0-9._-]+)+)(?:@(?P<digest>sha256:[0-9a-f]{64})|:(?P<tag>[\w][\w.-]{0,127}))"
)


class ReleaseError(Exception):
    """Why there is no release, and what to do."""


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    tag: str = ""
    digest: str = ""


def read_image(text: str) -> Image:
    """Raises ReleaseError: an image without tag or digest would be `latest`, another one each day."""
    found = _IMAGE.fullmatch(text)
    if found is None:
        raise ReleaseError(
            f"image {text!r} is neither NAME:TAG nor NAME@sha256:DIGEST, such as registry.example.com/ml/operator:0.1.0"
        )
    return Image(found["name"], found["tag"] or "", found["digest"] or "")


def build(output: Path, images: Mapping[str, Image]) -> list[Path]:
    """Writes the release into `output`, which is replaced. `images`: name in k8s/ -> the image to install. Raises
    ReleaseError."""
    bills = sorted(SBOM.glob("*.cdx.json"))
    if not bills:
        raise ReleaseError("there is no bill of materials in build/sbom: `make release` makes it first")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    wheels(output)
    with tempfile.TemporaryDirectory() as folder:
        package(build_chart(Path(folder)), output)
    for name in MANIFESTS:
        (output / name).write_text(manifest(name, images), encoding="utf-8")
    for path in (*bills, *(ROOT / name for name in SCRIPTS)):
        shutil.copy(path, output)
    made = sorted(output.iterdir())
    (output / "SHA256SUMS").write_text(checksums(made), encoding="ascii")
    return [*made, output / "SHA256SUMS"]


def manifest(name: str, images: Mapping[str, Image]) -> str:
    """One file of manifests, as kustomize renders it."""
    resource, components = MANIFESTS[name]
    # Next to k8s/: kustomize takes only relative paths, and follows no links.
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        text = {
            "resources": [os.path.relpath(ROOT / resource, folder)],
            "components": [os.path.relpath(ROOT / one, folder) for one in components],
            "images": [_row(of_base, image) for of_base, image in images.items()],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
        return _run([str(kubectl_path()), "kustomize", folder])


def _row(of_base: str, image: Image) -> dict[str, str]:
    version = {"digest": image.digest} if image.digest else {"newTag": image.tag}
    return {"name": of_base, "newName": image.name, **version}


def wheels(output: Path) -> None:
    """Build the wheels of the operator, the local cluster and the local stack; the same bytes for the same commit."""
    when = _run(["git", "log", "-1", "--format=%ct"]).strip()
    with tempfile.TemporaryDirectory() as folder:
        commit = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=BytesIO(commit)) as tar:
            tar.extractall(folder, filter="data")
        for project in (".", "localcluster", "tjstack"):
            command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--no-build-isolation", "--wheel-dir", str(output), str(Path(folder) / project)]
            _run(command, SOURCE_DATE_EPOCH=when)


def checksums(files: list[Path]) -> str:
    """The sums of the files in the format of `sha256sum -c`."""
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def _run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(command[:4])} ... has failed: {done.stderr.strip()[-1000:]}")
    return done.stdout
