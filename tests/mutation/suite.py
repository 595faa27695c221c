"""The fast suite, as the catalogue of bugs runs it: every test but those that start processes of the product or need
the real control plane. Ordered, so that a bug that is noticed is noticed soon: what the patch names, what lies in
folders named like the code that it spoils, then everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

LEFT_OUT = (
    "tests/e2e",
    "tests/chaos",
    "tests/mutation",
    "tests/unit/benchmarks",
    "tests/unit/controlplane/test_build.py",
    "tests/unit/examples/test_checkpoints.py",
    "tests/unit/examples/digits/test_job.py",
    "tests/unit/test_makefile.py",
    "tests/unit/test_contributing.py",
    "tests/unit/tjstack/test_supervisor.py",
    "tests/unit/tjstack/test_local.py",
    "tests/integration/test_deployment_compose.py",
    "tests/integration/test_deployment_tls.py",
    "localcluster/localcluster_tests/unit/test_main.py",
)
"""Real processes, the real control plane, the benchmarks, and tests of the tree itself, which a copy is not."""
LATE = ("tests/simulation", "tests/scenarios/test_other_operators")
"""Minutes: last."""


def fast_files(tree: Path) -> list[str]:
    """Every test file of it, from the root."""
    found = (path.relative_to(tree).as_posix() for root in ROOTS for path in (tree / root).rglob("test_*.py"))
    return sorted(file for file in found if not file.startswith(LEFT_OUT))


ROOTS = ("tests", "localcluster/localcluster_tests")


def in_order(files: Iterable[str], spoilt: Sequence[str], hints: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the likely ones, the others), each the likeliest first. `spoilt`: files that the bug is in. `hints`: tests that
    its patch names."""
    named = {hint.partition("::")[0] for hint in hints}
    words = {other for path in spoilt for word in _words(path) for other in (word, *ELSEWHERE.get(word, ()))}

    def likeness(file: str) -> int:
        if file in named:
            return 1000
        if file.startswith(LATE):
            return -1
        return 10 * len(words & _words(file)) + file.startswith(("tests/unit", "localcluster/localcluster_tests/unit"))

    ranked = sorted(files, key=lambda file: (-likeness(file), file))
    near = [file for file in ranked if likeness(file) >= NEAR][:MOST_NEAR]
    return near, [file for file in ranked if file not in near]


ELSEWHERE = {
    "k8s": ("deployment", "integration", "tenancy"),
    "Dockerfile": ("deployment", "image", "values"),
    "docker-compose": ("deployment", "compose", "integration"),
    "beat_schedule": ("app", "beat"),
    "scripts": ("integration", "store"),
}
"""Where the tests of what has no folder of its own lie."""
NEAR = 10
"""A word of the path is the same, such as `reconcile`."""
MOST_NEAR = 40
COMMON = frozenset({"tests", "test", "unit", "src", "tjworker", "py", "base"})


_WORDS = re.compile(r"beat_schedule|docker-compose|[^/_.]+")


def _words(path: str) -> set[str]:
    return set(_WORDS.findall(path)) - COMMON


def package_of(file: str) -> str:
    """What a row of the table is about: `tjworker/reconcile/core.py` -> `reconcile`."""
    parts = Path(file).parts
    if parts[0] == "tjworker" and len(parts) > 2:
        return parts[1]
    return {"beat_schedule.py": "beat", "docker-compose.yml": "compose"}.get(parts[0], parts[0])
