"""Helm as a user calls it, with the chart built from this tree."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.releases import helm as helm_release
from tests.support import fast_yaml as yaml

Json = dict[str, Any]


@dataclass(frozen=True)
class Helm:
    program: Path
    chart: Path
    home: Path
    """Helm's cache and settings; never those of the person who runs the tests."""

    def run(self, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        folders = {f"HELM_{name}_HOME": str(self.home / name) for name in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(self.program), *arguments],
            env={**os.environ, **folders, "KUBECONFIG": str(kubeconfig or os.devnull)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def render(self, *values: str, namespace: str = "tj-system") -> list[Json]:
        done = self._template(values, namespace)
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    def refuse(self, *values: str, namespace: str = "tj-system") -> str:
        """What Helm prints when it refuses these values."""
        done = self._template(values, namespace)
        assert done.returncode != 0, f"accepted: {values}"
        return done.stderr

    def _template(self, values: tuple[str, ...], namespace: str) -> subprocess.CompletedProcess[str]:
        # Without a cluster Helm asks none for its version.
        version = f"v{helm_release().version}"
        sets = [word for value in values for word in ("--set", value)]
        return self.run("template", "tj", str(self.chart), "--namespace", namespace, "--kube-version", version, *sets)
