"""The tester's own cluster is none of the tests' business: a kubeconfig in their shell could lead to one in use."""

from __future__ import annotations

import os


def pytest_configure() -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        os.environ.pop(name, None)
