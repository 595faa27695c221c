"""What `pytest -m contract` selects here: what runs on a local and, with TJ_REAL_KUBECONFIG, on a real API server."""

from __future__ import annotations

import pytest

ON_BOTH = {"test_crd.py", "test_crd_guests.py", "test_deployment_apply.py"}


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.name in ON_BOTH:
        item.add_marker(pytest.mark.contract)
