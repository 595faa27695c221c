"""Names in the environment that look like settings and are none."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

import pytest

from tests.support.paths import ROOT
from tjworker.settings import unknown_variables


@dataclass(frozen=True)
class Case:
    names: tuple[str, ...]
    want: dict[str, str]
    """Name -> part of what is said of it."""


LINKS = ("TJ_REDIS_SERVICE_HOST", "TJ_REDIS_SERVICE_PORT", "TJ_REDIS_PORT", "TJ_REDIS_PORT_6379_TCP_ADDR")
CASES: dict[str, Case] = {
    "one that is misspelt is guessed": Case(("TJ_NAMESPACE",), {"TJ_NAMESPACE": "did you mean TJ_NAMESPACES?"}),
    "one like no other says where all are": Case(("TJ_FOO",), {"TJ_FOO": "docs/settings.md"}),
    "another's variables are none of ours": Case(("PATH", "TJX_FOO", "tj_foo", "TJ"), {}),
    "what Kubernetes says of a Service tj-redis is no setting": Case(LINKS, {}),
    "without a Service of that name it is one that is misspelt": Case(("TJ_REDIS_PORT",), {"TJ_REDIS_PORT": ""}),
    "the tests' own are known": Case(("TJ_TEST_SEED", "TJ_REAL", "TJ_CACHE_DIR"), {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_unknown_names(case: Case) -> None:
    found = unknown_variables(case.names)
    assert list(found) == sorted(case.want)
    for name, part in case.want.items():
        assert name in found[name]
        assert part in found[name]


def test_every_name_that_this_project_reads_or_sets_is_known() -> None:
    kept = ("*.py", "*.yml", "*.yaml", "*.sh", "Makefile", "Dockerfile")
    found = subprocess.run(
        ["git", "grep", "-hoE", r"\bTJ_[A-Z_]+\b", "--", *kept], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if found.returncode not in (0, 1) or not found.stdout:
        pytest.skip("not a git checkout")
    names = {name for name in found.stdout.split() if not name.endswith("_")}
    made_up = {"TJ_FOO", "TJ_NAMESPACE", "TJ_REDIS_URI", "TJ_NAME", *LINKS} | {
        n for n in names if re.match(r"TJ_REDIS_P", n)
    }
    assert set(unknown_variables(names - made_up)) == set()
