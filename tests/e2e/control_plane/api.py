"""A user's requests to a real API server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import Configuration

from tjworker.kube.transport import KubeTransport

Json = dict[str, Any]


class RefusedError(AssertionError):
    """With the server's words. `status` is its HTTP status."""

    def __init__(self, asked: str, status: int, message: str) -> None:
        super().__init__(f"{asked}: {status} {message}")
        self.status = status


def open_transport(kubeconfig: Path) -> KubeTransport:
    configuration = Configuration()
    config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(kubeconfig), client_configuration=configuration
    )
    return KubeTransport(configuration)


def send(transport: KubeTransport, method: str, path: str, body: Any = None, *, timeout_seconds: float = 60) -> Json:
    """Its answer; a PATCH is a merge patch. Raises RefusedError, and what the transport raises without an answer."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = transport.request(
        method,
        path,
        body=None if body is None else json.dumps(body).encode(),
        content_type=kind,
        timeout_seconds=timeout_seconds,
    )
    parsed: Json = json.loads(answer.body)
    if answer.status >= 300:
        raise RefusedError(f"{method} {path}", answer.status, str(parsed.get("message")))
    return parsed
