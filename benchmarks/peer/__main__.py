"""`python -m benchmarks.peer`: builds the peer, once, and prints where it is: Kubeflow's training-operator from its Go
module, by the main of this folder, with the CRD of its PyTorchJobs. Needs the Go module proxy."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.operator import PEER_CRD
from controlplane import toolchain
from controlplane.binaries import cache_root

HERE = Path(__file__).resolve().parent
MODULE = "github.com/kubeflow/training-operator"
GO = (1, 24)
"""The version in go.mod."""


def main() -> int:
    digest = hashlib.sha256()
    for name in ("main.go", "go.mod", "go.sum"):
        digest.update((HERE / name).read_bytes())
    target = cache_root().parent / "peer" / digest.hexdigest()[:12]
    if not target.is_dir():
        _build(target)
    print(target / "training-operator")
    return 0


def _build(target: Path) -> None:
    """Build into another folder and rename it at the end, so that the target is complete or missing."""
    fresh = target.with_name(f".building-{os.getpid()}")
    fresh.mkdir(parents=True)
    go = toolchain.find_go(GO, cache_root(), lambda line: print(line, file=sys.stderr))
    print(f"building {MODULE} with {go} (once; minutes)", file=sys.stderr)

    def run(*arguments: str) -> str:
        env = {**os.environ, "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
        return subprocess.run(
            [str(go), *arguments], cwd=HERE, env=env, check=True, text=True, stdout=subprocess.PIPE
        ).stdout.strip()

    try:
        flags = ("-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w")
        run("build", *flags, "-o", str(fresh / "training-operator"), ".")
        source = Path(run("list", "-mod=readonly", "-m", "-f", "{{.Dir}}", MODULE))
        shutil.copyfile(source / "manifests" / "base" / "crds" / "kubeflow.org_pytorchjobs.yaml", fresh / PEER_CRD)
        fresh.rename(target)
    except (subprocess.CalledProcessError, OSError) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise SystemExit(f"the peer cannot be built: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
