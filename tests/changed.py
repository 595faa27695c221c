"""Run the tests that a change is most likely to break: `make test-changed`, seconds where `make test` takes minutes.

    python -m tests.changed                # files that differ from main, committed or not
    python -m tests.changed --base HEAD~1  # from another commit
    python -m tests.changed --list         # print the tests, run none
    python -m tests.changed -- -x -n0      # what follows goes to pytest

The tests of a changed file are the folder of `tests/unit` that mirrors its package, what `ALSO` names, and the test
files that import it, as long as there are few of them. `make test` stays the judge: this is a choice by names.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tests.mutation import suite
from tests.support.paths import ROOT

HOSTILE = "tests/scenarios/test_hostile_objects.py"
PROMISES = "tests/integration/test_deployment_promises.py"
TLS = "tests/integration/test_deployment_tls.py"
USERS = "tests/integration/test_redis_users.py"
ALSO: dict[str, tuple[str, ...]] = {
    "tjworker/api/": ("tests/unit/watcher",),
    "tjworker/api/kinds/": (
        "tests/unit/tjworker/convert",
        "tests/peers/test_peers.py",
        "tests/scenarios/test_guest_pods.py",
    ),
    "tjworker/api/status": ("tests/unit/tjworker/reconcile",),
    "tjworker/app": (TLS,),
    "tjworker/worker/broker": ("tests/unit/tjworker/worker/test_hostile_messages.py",),
    "tjworker/kube/": ("tests/scenarios/test_scenarios.py", "tests/scenarios/test_orphans.py", HOSTILE),
    "tjworker/reconcile/": ("tests/scenarios/test_scenarios.py",),
    "tjworker/reconcile/policies/": (
        "tests/unit/tjworker/reconcile/test_nodes.py",
        "tests/unit/tjworker/reconcile/test_lifecycle_page.py",
    ),
    "tjworker/execution/executor": ("tests/scenarios/test_scenarios.py", "tests/scenarios/test_orphans.py"),
    "tjworker/controllers/": (
        "tests/scenarios/test_scenarios.py",
        "tests/scenarios/test_orphans.py",
        "tests/scenarios/test_faults.py",
        "tests/scenarios/test_gangs.py",
    ),
    "tjworker/store/": ("tests/integration/store",),
    "watcher/": ("tests/scenarios/test_resumes.py", "tests/scenarios/test_two_operators.py", HOSTILE),
    "tjworker/telemetry/metrics": ("tests/unit/test_monitoring.py", "tests/unit/test_alerts.py"),
    "tjworker/settings": ("tests/unit/test_deployment_docs.py", "tests/unit/tjworker/test_settings_values.py"),
    "tjworker/worker/tasks": ("tests/unit/tjworker/test_app.py",),
    "localcluster/src/": ("localcluster/localcluster_tests/contract/api",),
    "k8s/monitoring/": ("tests/unit/test_monitoring.py", "tests/unit/test_alerts.py"),
    "k8s/tenancy/": ("tests/unit/tjworker/kube/test_tenancy.py",),
    "k8s/": (
        "tests/unit/test_deployment_values.py",
        "tests/unit/test_selectors.py",
        "tests/unit/tjworker/kube/test_rbac.py",
        "tests/integration/test_deployment.py",
        "tests/integration/test_network_policies.py",
        "tests/integration/test_probes.py",
        PROMISES,
    ),
    "k8s/certificates.sh": (TLS,),
    "k8s/secrets.sh": (USERS,),
    "tjworker/store/users": (USERS,),
    "Dockerfile": ("tests/unit/test_deployment_image.py", "tests/unit/test_deployment_values.py"),
    "docker-compose.yml": ("tests/unit/test_deployment_values.py", "tests/integration/test_deployment.py", PROMISES),
    "requirements/": ("tests/unit/test_requirements.py",),
    "pyproject.toml": ("tests/unit/test_packages.py",),
    "Makefile": ("tests/unit/test_makefile.py", "tests/unit/test_pages.py"),
    "docs/": ("tests/unit/test_docsite.py",),
    "docsite/": ("tests/unit/test_docsite.py",),
    "examples/": ("tests/unit/examples/test_frameworks.py", "tests/scenarios/test_examples.py"),
    "tests/mutation/": ("tests/mutation",),
}
"""The beginning of a path -> tests elsewhere that its change breaks."""
PAGES = ("tests/unit/test_pages.py", "tests/unit/test_contributing.py", "tests/unit/test_upstream_page.py")
BUGS = "tests/mutation/test_bugs.py"
WHOLE_LIVES = "tests/scenarios/test_scenarios.py"
"""For what no test imports, or too many do."""
FEW = 12
"""More test files than these import a module that everything uses; its own folder must do."""
SLOW = (
    "tests/e2e",
    "tests/chaos",
    "tests/simulation",
    "tests/compose",
    "tests/cluster",
    "tests/upgrade",
    "tests/alerts",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="main", help="the commit to compare with; default: main")
    parser.add_argument("--list", action="store_true", help="print the tests, run none")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest")
    given = parser.parse_args(arguments)
    changed = changed_files(given.base)
    tests = tests_of(changed)
    lines = [
        f"{len(changed)} files differ from {given.base}; their tests (all of them: make test):",
        *(tests or ["none"]),
    ]
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()
    if given.list or not tests:
        return 0
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(given.pytest or ["-n", "2"]), *tests], cwd=ROOT, check=False
    ).returncode


def changed_files(base: str) -> list[str]:
    """What differs from where this branch left `base`, and what git does not track yet."""
    since = _git("merge-base", base, "HEAD")
    if not since:
        raise SystemExit(f"test-changed: git knows no commit {base!r}; name one: make test-changed BASE=origin/main")
    return sorted({*_git("diff", "--name-only", since[0]), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()


def tests_of(changed: Iterable[str]) -> list[str]:
    """Test files and folders, without those that lie in a folder that is listed."""
    files = list(changed)
    found = {test for file in files for test in _of(file)}
    if any(file in patch for patch in _patches() for file in files):
        found.add(BUGS)
    present = sorted(test for test in found if (ROOT / test).exists())
    return [test for test in present if not any(test.startswith(f"{other}/") for other in present)]


def _of(file: str) -> set[str]:
    path = Path(file)
    found = {test for beginning, tests in ALSO.items() if file.startswith(beginning) for test in tests}
    if path.name.startswith("test_") and path.suffix == ".py":
        found.add(file)
    elif path.suffix == ".md":
        found.update(PAGES)
    elif path.suffix in (".py", ".lua"):
        found.update(test for test in (_mirror(path), *_importers(path)) if (ROOT / test).exists())
        if not found and not file.startswith("tests/"):
            found.add(WHOLE_LIVES)
    return found


def _mirror(path: Path) -> str:
    """tjworker/store/scripts/apply.lua -> tests/unit/tjworker/store. A loose module: the tests named like it."""
    parts = path.parts
    base, inner = Path("tests/unit"), Path(*parts)
    if parts[:3] == ("localcluster", "src", "localcluster"):
        base, inner = Path("localcluster/localcluster_tests/unit"), Path(*parts[3:])
    for folder in inner.parents:
        if str(folder) not in (".", "tjworker") and (ROOT / base / folder).is_dir():
            return str(base / folder)
    return str(base / inner.parent / f"test_{inner.stem}.py")


def _importers(path: Path) -> list[str]:
    """The quick test files that import this module, unless they are many."""
    parts = path.with_suffix("").parts
    parts = parts[2:] if parts[1:2] == ("src",) else parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    quick = [file for file, imported in _imports().items() if module in imported and not file.startswith(SLOW)]
    return quick if len(quick) <= FEW else []


@cache
def _imports() -> dict[str, set[str]]:
    """Each test file -> the modules that it imports; of `from a import b` both a and a.b, whichever is the module."""
    found: dict[str, set[str]] = {}
    for file in (file for root in suite.ROOTS for file in (ROOT / root).rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        modules = set(re.findall(r"^\s*import ([\w.]+)", text, re.MULTILINE))
        for package, names in re.findall(r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", text, re.MULTILINE):
            modules |= {package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))}
        found[str(file.relative_to(ROOT))] = modules
    return found


@cache
def _patches() -> list[set[str]]:
    """The files that each seeded bug touches."""
    patches = (ROOT / "tests/mutation/bugs").glob("*.patch")
    return [set(re.findall(r"^\+\+\+ b/(.*)$", patch.read_text(encoding="utf-8"), re.MULTILINE)) for patch in patches]


if __name__ == "__main__":
    raise SystemExit(main())
