"""A watch whose history is gone tells by a list what has come of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.chaos import watching
from tests.chaos.watching import Watch
from tjworker.api.resources import PODS
from tjworker.kube.port import ListPage

Json = dict[str, Any]


def pod(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def test_a_list_after_a_gap_tells_what_is_new_has_changed_or_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [
        ListPage([pod("stays", 1), pod("changes", 2), pod("goes", 3)], 5, ""),
        ListPage([pod("stays", 1), pod("changes", 8), pod("comes", 7)], 9, ""),
    ]

    class Client:
        def __init__(self, *_: object, **__: object) -> None: ...

        def list_page(self, _: object) -> ListPage:
            return pages.pop(0)

    monkeypatch.setattr(watching, "KubeClient", Client)
    monkeypatch.setattr(watching, "open_transport", lambda path: None)
    seen: list[tuple[str, str, str]] = []
    watch = Watch(
        Path(), PODS, lambda kind, obj: seen.append((kind, obj["metadata"]["name"], obj["metadata"]["resourceVersion"]))
    )
    watch._list()
    assert seen == [("ADDED", "stays", "1"), ("ADDED", "changes", "2"), ("ADDED", "goes", "3")]
    seen.clear()
    watch._list()
    assert seen == [("DELETED", "goes", "9"), ("MODIFIED", "changes", "8"), ("ADDED", "comes", "7")]
