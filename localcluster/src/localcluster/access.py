"""Admits or refuses a request before the API server sees it. Pure.

A server with a token answers 401 to a request without it, except on the four paths that Kubernetes serves anonymously.
A server without a token (plain HTTP, `--insecure`) refuses what a browser sends on behalf of a web page: a `Host` that
is not this server's (a name that was rebound to this machine), or an `Origin` (a form or script of another page).
kubectl and client libraries send neither.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from localcluster.apiserver.errors import StatusError
from localcluster.wire import Response

OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
"""What the role system:public-info-viewer shows."""


@dataclass(frozen=True, slots=True)
class Access:
    token: str = ""
    """Empty: a request that passes the check of the Host may do everything."""
    hosts: frozenset[str] = frozenset()
    """Names of this machine besides its addresses and localhost; only looked at without a token."""

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Response | None:
        """None: let in. `headers` have lower-case names."""
        if not self.token:
            return self._refuse_foreign(headers)
        given = headers.get("authorization", "")
        if not given and method in ("GET", "HEAD") and _is_open(path):
            return None
        kind, _, token = given.partition(" ")
        # Compared as bytes: of text, compare_digest takes ASCII alone, and headers may hold anything.
        right = hmac.compare_digest(token.strip().encode("utf-8", "surrogateescape"), self.token.encode())
        if kind.lower() == "bearer" and right:
            return None
        return StatusError(401, "Unauthorized", "Unauthorized").response()

    def _refuse_foreign(self, headers: Mapping[str, str]) -> Response | None:
        host = _hostname_of(headers.get("host", ""))
        if host and host not in self.hosts and host != "localhost" and not _is_address(host):
            return StatusError(
                403, "Forbidden", f"Host {host!r} is not a name of this machine; use its address"
            ).response()
        if headers.get("origin"):
            return StatusError(403, "Forbidden", "requests of web pages (Origin) are refused").response()
        return None


def _is_open(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in OPEN_PATHS)


def _hostname_of(header: str) -> str:
    """The Host header without its port, lower-case."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _is_address(host: str) -> bool:
    """An address cannot be rebound: a page that shows one was served by it."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
