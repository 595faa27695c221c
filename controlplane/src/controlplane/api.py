"""The few requests that the control plane makes to itself: readiness, and tokens of service accounts. Standard library
only."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from controlplane.errors import ControlPlaneError

_TIMEOUT_SECONDS = 5.0
_TOKEN_SECONDS = 7 * 24 * 3600


class Api:
    def __init__(self, server: str, ca_pem: str, token: str) -> None:
        self._address = urlsplit(server)
        self._tls = ssl.create_default_context(cadata=ca_pem)
        self._token = token

    def ready(self) -> bool:
        try:
            return self._request("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def service_account_token(self, namespace: str, name: str) -> str:
        """A token of that service account, which is made, its namespace too, when it is not there."""
        core = "/api/v1/namespaces"
        self._create(core, {"metadata": {"name": namespace}})
        self._create(f"{core}/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        status, answer = self._request(
            "POST", f"{core}/{namespace}/serviceaccounts/{name}/token", {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
        )
        if status != 201:
            raise ControlPlaneError(f"no token for service account {namespace}/{name}: {answer.get('message', answer)}")
        return str(answer["status"]["token"])

    def _create(self, path: str, body: dict[str, Any]) -> None:
        status, answer = self._request("POST", path, body)
        if status not in (201, 409):
            raise ControlPlaneError(f"POST {path}: {answer.get('message', answer)}")

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        connection = http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, timeout=_TIMEOUT_SECONDS, context=self._tls
        )
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            text = answer.read()
            parsed = json.loads(text) if text.startswith(b"{") else {}
            return answer.status, parsed
        finally:
            connection.close()
