"""The software bill of materials says what the images hold: each pinned package, its version, its hashes, no other.
`make sbom` makes it and runs this; without it there is nothing to judge."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "build" / "sbom"
_PIN = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9._]*)==([^ ;\\\\]+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("image", ["runtime", "history", "local"])
def test_each_pinned_package_stands_in_the_bill_and_no_other(image: str) -> None:
    made = FOLDER / f"{image}.cdx.json"
    pinned = ROOT / "requirements" / f"{image}.txt"
    if not made.exists() or made.stat().st_mtime < pinned.stat().st_mtime:
        pytest.skip("no bill of these requirements: make sbom")
    bill: dict[str, Any] = json.loads(made.read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    pins = {(normal(name), version) for name, version in _PIN.findall(pinned.read_text(encoding="utf-8"))}
    listed = {(normal(c["name"]), c["version"]) for c in bill["components"]}
    assert listed == pins != set()
    unhashed = [
        c["name"]
        for c in bill["components"]
        if not any(reference.get("hashes") for reference in c.get("externalReferences", ()))
    ]
    assert unhashed == []
