"""Redis' bound of its memory, in k8s/ and in compose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.integration.manifests import K8S, render, templates
from tests.support.paths import ROOT


@pytest.mark.parametrize("installation", [K8S, K8S / "namespaced"], ids=["the whole cluster", "some namespaces"])
def test_redis_is_full_before_it_is_killed_for_its_memory(installation: Path) -> None:
    """With a quarter left for clients, and for what changes while its file is written anew."""
    (redis,) = [t.container for t in templates(render(installation)) if t.component == "redis"]
    composed = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["redis"]
    for words, limit in (
        (redis["args"], redis["resources"]["limits"]["memory"]),
        (composed["command"], composed["mem_limit"]),
    ):
        args = dict(zip(words[1::2], words[2::2], strict=True))
        assert args["--maxmemory-policy"] == "noeviction"
        assert 0 < size(args["--maxmemory"]) <= size(limit) * 3 / 4


def size(text: str) -> int:
    """Bytes, as Redis, Kubernetes and compose write powers of 1024."""
    units = {"mb": 2**20, "gb": 2**30, "Mi": 2**20, "Gi": 2**30, "m": 2**20, "g": 2**30}
    match = re.fullmatch(r"(\d+)(\w+)", text)
    assert match, text
    return int(match[1]) * units[match[2]]
