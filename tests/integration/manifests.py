"""k8s/ as kubectl renders it, and the pod templates in it."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

Json = dict[str, Any]
K8S = ROOT / "k8s"
KUBECTL = str(Path(sys.executable).parent / "kubectl")


def kubectl(*arguments: str, kubeconfig: Path | str = os.devnull, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KUBECTL, "--kubeconfig", str(kubeconfig), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )


def render(folder: Path) -> list[Json]:
    """Each caller has documents of its own; a folder of k8s/ is rendered once a process."""
    found: list[Json] = pickle.loads(_kept(folder) if folder.is_relative_to(K8S) else _rendered(folder))  # noqa: S301  our own
    return found


def _rendered(folder: Path) -> bytes:
    done = kubectl("kustomize", str(folder))
    assert done.returncode == 0, done.stderr
    return pickle.dumps(list(yaml.safe_load_all(done.stdout)))


_kept = cache(_rendered)


def names(documents: list[Json], kind: str) -> set[str]:
    return {d["metadata"]["name"] for d in documents if d["kind"] == kind}


@dataclass(frozen=True)
class Template:
    """One pod template and who made it."""

    kind: str
    name: str
    owner: Json

    @property
    def pod(self) -> Json:
        found: Json = self.owner["spec"]["template"]
        return found

    @property
    def spec(self) -> Json:
        found: Json = self.pod["spec"]
        return found

    @property
    def container(self) -> Json:
        (found,) = self.spec["containers"]
        return dict(found)

    @property
    def component(self) -> str:
        return str(self.pod["metadata"]["labels"]["app.kubernetes.io/component"])


def templates(documents: list[Json]) -> list[Template]:
    return [Template(d["kind"], d["metadata"]["name"], d) for d in documents if "template" in d.get("spec", {})]


def secrets(**environment: str) -> list[Json]:
    if shutil.which("openssl") is None:
        pytest.skip("k8s/secrets.sh needs openssl")
    done = subprocess.run(
        ["sh", str(K8S / "secrets.sh")],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return list(yaml.safe_load_all(done.stdout))


def redis_secret(**environment: str) -> dict[str, str]:
    """What stands in the Secret of Redis' users and URLs."""
    (found,) = [s["stringData"] for s in secrets(**environment) if s["metadata"]["name"] == "tj-redis"]
    return dict(found)
