"""Who is let in by the local API server: with a token, and without one (plain HTTP)."""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
import pytest

from localcluster.access import Access

SECURED = Access("s3cret")
OPEN = Access(hosts=frozenset({"box.example"}))
NODES = "/api/v1/nodes"


@dataclass(frozen=True)
class Case:
    want_code: int | None
    """None: let in."""
    access: Access = SECURED
    path: str = NODES
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


CASES: dict[str, Case] = {
    "the token opens": Case(None, headers=bearer("s3cret")),
    "the word Bearer may be written in any case, as RFC 7235 says": Case(
        None, headers={"authorization": "bearer s3cret"}
    ),
    "no token is 401": Case(401),
    "a wrong token is 401": Case(401, headers=bearer("s3cret2")),
    "the beginning of the token is 401": Case(401, headers=bearer("s3cre")),
    "an empty token is 401": Case(401, headers=bearer("")),
    "a token outside ASCII is 401": Case(401, headers=bearer("s3crét\udcff")),
    "the token as a password is 401": Case(401, headers={"authorization": "Basic s3cret"}),
    "the token without its scheme is 401": Case(401, headers={"authorization": "s3cret"}),
    "the token in a cookie is 401": Case(401, headers={"cookie": "token=s3cret"}),
    "readiness is served anonymously": Case(None, path="/readyz"),
    "and for one check of it": Case(None, path="/livez/ping"),
    "and whether it is healthy": Case(None, path="/healthz"),
    "and which version it is": Case(None, path="/version"),
    "but not with a wrong token, as in Kubernetes": Case(401, path="/readyz", headers=bearer("x")),
    "nor with another method": Case(401, path="/readyz", method="POST"),
    "a path that only begins alike is closed": Case(401, path="/readyzx"),
    "discovery is closed": Case(401, path="/api"),
    "without a token configured an address is let in": Case(None, OPEN, headers={"host": "127.0.0.1:6443"}),
    "and an address of IPv6": Case(None, OPEN, headers={"host": "[::1]:6443"}),
    "and localhost": Case(None, OPEN, headers={"host": "LocalHost:6443"}),
    "and the advertised host": Case(None, OPEN, headers={"host": "box.example:6443"}),
    "and a client that sends no host": Case(None, OPEN),
    "a name that was rebound to this machine is refused": Case(403, OPEN, headers={"host": "evil.example:6443"}),
    "a name that looks like an address is refused": Case(403, OPEN, headers={"host": "127.0.0.1.evil.example"}),
    "a form of another page is refused": Case(
        403, OPEN, method="POST", headers={"host": "127.0.0.1:6443", "origin": "https://evil.example"}
    ),
    "the anonymous page of a sandbox is refused": Case(403, OPEN, headers={"host": "127.0.0.1:6443", "origin": "null"}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_who_is_let_in(case: Case) -> None:
    refused = case.access.refusal(case.method, case.path, case.headers)
    assert (refused.status if refused else None) == case.want_code
    if refused:
        status = orjson.loads(refused.body)
        assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", case.want_code)
