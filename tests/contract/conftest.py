"""What `pytest -m contract` selects: everything that holds the local cluster to what a real control plane says.

Live on both with TJ_REAL_KUBECONFIG: `api/` and `test_crd.py`. Recorded from a real one: `kubectl/` and the schemas.
"""

from __future__ import annotations

import pytest

_PARTS = ("contract/api/", "contract/kubectl/", "contract/test_crd.py", "localcluster/schema/test_schema_contract.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(part in item.path.as_posix() for part in _PARTS):
            item.add_marker(pytest.mark.contract)
