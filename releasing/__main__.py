"""Builds a release from the committed files:

    make release IMAGE=registry.example.com/ml/operator@sha256:...    # build/release/

Without IMAGE the manifests keep a name without an owner, and users set their own image when they install them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from releasing.build import Image, ReleaseError, build, read_image

FOLDER = Path(__file__).resolve().parent.parent / "build" / "release"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m releasing", description="put a release together")
    parser.add_argument("--image", default="", metavar="NAME:TAG|NAME@DIGEST", help="the operator's, for the manifests")
    parser.add_argument("--redis-image", default="", metavar="NAME:TAG|NAME@DIGEST", help="default: that of k8s/base")
    parser.add_argument("--output", type=Path, default=FOLDER, metavar="FOLDER", help="default: build/release")
    given = parser.parse_args(arguments)
    try:
        images: dict[str, Image] = {}
        for of_base, image in (
            ("trainingjob-operator.invalid/operator", given.image),
            ("valkey/valkey", given.redis_image),
        ):
            if image:
                images[of_base] = read_image(image)
        for path in build(given.output, images):
            print(path)  # noqa: T201
    except ReleaseError as error:
        sys.stderr.write(f"release: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
