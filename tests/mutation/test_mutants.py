"""What `make mutants` installs beside the environment of the tests."""

from __future__ import annotations

import re

from tests.support.paths import ROOT


def test_mutmut_brings_no_other_version_of_what_the_tests_run_with() -> None:
    def versions(name: str) -> dict[str, str]:
        return dict(re.findall(r"(?m)^([a-z0-9][a-z0-9._-]*)==(\S+)", (ROOT / "requirements" / name).read_text()))

    tested, brought = versions("dev.txt"), versions("mutation.txt")
    assert "mutmut" in brought
    assert {name: version for name, version in brought.items() if tested.get(name, version) != version} == {}
