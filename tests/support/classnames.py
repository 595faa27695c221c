"""Finds classes of the product that share a name. `make check` fails for them, because a name with two meanings
misleads a reader who searches for it."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.support.lengths import python_files
from tests.support.paths import ROOT

PRODUCT = ("tjworker", "watcher", "tjstack")
WORKBENCH = ("localcluster/src", "controlplane/src")
"""The clusters that the product is tried on. They and the product know nothing of each other and may share names."""
FOREIGN_APIS = ("tjworker/api/kinds/", "tjworker/api/podtemplate.py", "tjworker/convert/volcano/spec.py")
"""Modules whose classes have the names of the API that they read. APIs of several operators use the same words."""
SUBCLASSES = "tjworker/worker/broker.py"
"""kombu finds the classes of a transport by their names."""
BASE = "_Model"
"""A module's own pydantic base class."""


def find_shared_names(sources: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """`sources`: (path, text) of modules. Name of a class, without an underscore in front -> its paths."""
    found: dict[str, list[str]] = defaultdict(list)
    for path, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name != BASE and path != SUBCLASSES:
                found[node.name.lstrip("_")].append(path)
    return {name: paths for name, paths in sorted(found.items()) if len(paths) > 1 and not _is_foreign(paths)}


def _is_foreign(paths: Iterable[str]) -> bool:
    return all(path.startswith(FOREIGN_APIS) for path in paths)


def read_modules(root: Path, packages: Iterable[str]) -> Iterable[tuple[str, str]]:
    for package in packages:
        for path in python_files(root / package):
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


if __name__ == "__main__":
    shared = {
        n: p for packages in (PRODUCT, WORKBENCH) for n, p in find_shared_names(read_modules(ROOT, packages)).items()
    }
    for name, paths in shared.items():
        print(f"shared: {name} is a class of {' and of '.join(paths)}; name each for what it is")  # noqa: T201
    sys.exit(bool(shared))
