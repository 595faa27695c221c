"""What `pytest -m contract` selects here: all of it.

Live on both clusters with TJ_REAL_KUBECONFIG: `api/`. Recorded from a real one: `kubectl/` and `schema/`.
"""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.contract)
