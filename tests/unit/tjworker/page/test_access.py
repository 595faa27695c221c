"""Viewers that the page remembers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import Configuration

from tjworker.page import access
from tjworker.page.access import Viewer, Viewers


def test_of_too_many_viewers_the_one_who_has_not_looked_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "MOST_VIEWERS", 2)
    closed: list[str] = []

    def connect(given: Configuration) -> Any:
        token = given.api_key["authorization"].removeprefix("Bearer ")
        return SimpleNamespace(close=lambda: closed.append(token))

    viewers = Viewers(Configuration(), own=False, connect=connect)

    def look(token: str) -> Viewer:
        return viewers.viewer(f"Bearer {token}")

    ada, bob = look("ada"), look("bob")
    assert look("ada") is ada
    look("cleo")
    assert closed == ["bob"]
    assert look("ada") is ada
    assert look("bob") is not bob
    assert closed == ["bob", "cleo"]
