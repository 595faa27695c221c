"""Kubernetes says when a deletion's grace ends; the projection keeps when it was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from watcher.projection import pod_record

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "nobody deletes it": ({}, ""),
    "grace 30": (
        {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30},
        "2026-01-01T00:00:10Z",
    ),
    "grace 0": ({"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 0}, "2026-01-01T00:00:40Z"),
    "no grace given": ({"deletionTimestamp": "2026-01-01T00:00:40Z"}, "2026-01-01T00:00:40Z"),
}


@pytest.mark.parametrize(("meta", "want"), CASES.values(), ids=CASES.keys())
def test_when_the_deletion_was_asked_for(meta: dict[str, Any], want: str) -> None:
    pod = pod_record({}, {"name": "p", "uid": "u", "resourceVersion": "1", **meta}, "")
    assert pod.deletion_asked_at == want
