"""HTTP answers to the four classes of error: one row for each answer that the operator may meet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from tjworker.base import Conflict, Invalid, OperatorError, Terminal, Transient
from tjworker.kube import errors
from tjworker.kube.port import HttpResponse


@dataclass(frozen=True)
class Case:
    code: int
    want: type[OperatorError]
    reason: str = ""
    message: str = "no"
    details: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    want_reason: str | None = None
    want_wait: float | None = None


CASES: dict[str, Case] = {
    "Too many requests waits as the header says.": Case(
        429, Transient, "TooManyRequests", headers={"retry-after": "7"}, want_wait=7
    ),
    "The storage of a new CRD waits as the details say.": Case(
        429, Transient, "TooManyRequests", "storage is (re)initializing", {"retryAfterSeconds": 1}, want_wait=1
    ),
    "The header goes before the details.": Case(
        503,
        Transient,
        "ServiceUnavailable",
        details={"retryAfterSeconds": 9},
        headers={"retry-after": "2"},
        want_wait=2,
    ),
    "A Retry-After that is a date names no wait.": Case(
        503, Transient, headers={"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, want_wait=None
    ),
    "An internal error may pass.": Case(500, Transient, "InternalError", "etcdserver: request timed out"),
    "A gateway's page is no Status and may pass.": Case(502, Transient, body=b"<html>Bad Gateway</html>"),
    "What the server does not implement is a bug of ours.": Case(501, Terminal),
    "A name that is taken is a conflict.": Case(
        409, Conflict, "AlreadyExists", 'pods "a" already exists', want_reason="AlreadyExists"
    ),
    "Another client wrote first.": Case(409, Conflict, "Conflict", want_reason="Conflict"),
    "A failed precondition is a conflict.": Case(412, Conflict),
    "A wait of more than an hour is none.": Case(503, Transient, headers={"retry-after": "3601"}, want_wait=None),
    "A quota that is too small is lifted by others.": Case(
        403,
        Transient,
        "Forbidden",
        'pods "a" is forbidden: failed quota: insufficient quota to match these scopes',
        want_reason="QuotaExceeded",
    ),
    "History that is gone is a conflict with reason Expired.": Case(410, Conflict, "Gone", want_reason="Expired"),
    "An object that is gone is a conflict.": Case(
        404, Conflict, "NotFound", 'pods "a" not found', {"name": "a", "kind": "pods"}, want_reason="NotFound"
    ),
    "A namespace that is gone takes the job with it.": Case(
        404,
        Transient,
        "NotFound",
        'namespaces "team" not found',
        {"name": "team", "kind": "namespaces"},
        want_reason="NamespaceGone",
    ),
    "A kind that is not installed may come.": Case(
        404, Transient, body=b"404 page not found\n", want_reason="ResourceNotInstalled"
    ),
    "A namespace on its way out ends by itself.": Case(
        403,
        Transient,
        "Forbidden",
        'pods "a" is forbidden: unable to create new content in namespace team because it is being terminated',
        {"causes": [{"reason": "NamespaceTerminating"}]},
        want_reason="NamespaceTerminating",
    ),
    "A missing permission is for the administrator.": Case(
        403,
        Terminal,
        "Forbidden",
        'pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods" in API '
        'group "" in the namespace "team"',
        want_reason="Forbidden",
    ),
    "A service account that is not there yet refuses at admission.": Case(
        403,
        Transient,
        "Forbidden",
        'pods "a" is forbidden: error looking up service account team/x: serviceaccount "x" not found',
        want_reason="AdmissionDenied",
    ),
    "An admission webhook says no with 400.": Case(
        400,
        Transient,
        "BadRequest",
        'admission webhook "w.example.com" denied the request: not today',
        want_reason="AdmissionDenied",
    ),
    "A pod that cannot be is the job's fault.": Case(
        422, Invalid, "Invalid", 'Pod "a" is invalid: spec.containers: Required value', want_reason="Invalid"
    ),
    "A request that is too large is the job's fault.": Case(413, Invalid, "RequestEntityTooLarge"),
    "Who we are is not known.": Case(401, Terminal, "Unauthorized"),
}


@pytest.mark.parametrize("name", CASES)
def test_answer(name: str) -> None:
    case = CASES[name]
    body = (
        case.body
        if case.body is not None
        else orjson.dumps(
            {
                "kind": "Status",
                "code": case.code,
                "reason": case.reason,
                "message": case.message,
                "details": case.details,
            }
        )
    )
    error = errors.to_error(HttpResponse(case.code, body, case.headers), "create pods team/a")
    assert type(error) is case.want
    assert error.status == case.code
    assert error.retry_after_seconds == case.want_wait
    assert error.message.startswith("create pods team/a: ")
    if case.want_reason is not None:
        assert error.reason == case.want_reason
    if case.body is None:
        assert case.message in error.message, "the server's own words are lost"


def test_an_error_event_of_a_watch_is_mapped_by_the_same_rules() -> None:
    error = errors.from_status({"code": 410, "reason": "Expired", "message": "too old"}, "watch pods")
    assert (type(error), error.reason) == (Conflict, "Expired")
    assert isinstance(errors.from_status({}, "watch pods"), Transient)
