"""Builds the Helm chart from the manifests in k8s/, so that `helm` and `kubectl apply -k` install the same objects.

    make chart        # build/chart/trainingjob-operator-VERSION.tgz, and the folder next to it

`charts/operator/` is written by hand: the values, Secrets, settings and notes. Deployments, roles, CRDs and alerts come
from k8s/; `workloads.py` puts the values into them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from charts.build import build, package

BUILD = Path(__file__).resolve().parent.parent / "build" / "chart"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m charts", description="build the Helm chart of the operator")
    parser.add_argument("--output", type=Path, default=BUILD, metavar="FOLDER", help="default: build/chart")
    output: Path = parser.parse_args(arguments).output
    archive = package(build(output), output)
    print(archive)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
