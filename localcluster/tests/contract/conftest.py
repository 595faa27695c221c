"""What `pytest -m contract` selects here: all of it.

Live on both clusters with TJ_REAL_KUBECONFIG: `api/`. Recorded from a real one: `kubectl/` and `schema/`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.contract)
