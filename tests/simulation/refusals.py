"""What an API server answers when it refuses a request."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from tests.scenarios.test_faults import OVER_QUOTA
from tjworker.kube.port import HttpResponse

WORDS = "made up by the simulation"


def _refusal(code: int, reason: str, *, said: str = WORDS, **headers: str) -> HttpResponse:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": said}
    return HttpResponse(code, orjson.dumps(status), headers)


ANSWERS: Mapping[str, HttpResponse] = {
    "409": _refusal(409, "Conflict"),
    "403": OVER_QUOTA,
    "forbidden": _refusal(
        403, "Forbidden", said='it is forbidden: User "worker" cannot do that: no RBAC policy matched'
    ),
    "422": _refusal(422, "Invalid"),
    "429": _refusal(429, "TooManyRequests", **{"retry-after": "2"}),
    "500": _refusal(500, "InternalError"),
    "503": _refusal(503, "ServiceUnavailable"),
}
"""`forbidden`: as one says that has just started and knows no roles yet."""
