"""What `pytest -m contract` selects here: the operator's CRDs in a local and (TJ_REAL_KUBECONFIG) a real API server."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.name == "test_crd.py":
        item.add_marker(pytest.mark.contract)
