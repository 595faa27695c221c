"""HTTP answers to the four classes of error, in this one place. Pure: an answer in, an exception out; never raises itself.

The rules, and where they differ from the status code alone:

* 429 and every 5xx but 501 are Transient, with the server's own wait (`Retry-After`, else `details.retryAfterSeconds`).
  "storage is (re)initializing" of a new CRD is such a 429.
* 409 is Conflict; its reason says AlreadyExists or Conflict. 410 (Expired) is Conflict: look again.
* 403 has four meanings. RBAC is Terminal. Quota, a namespace that is being deleted, and a refusal by admission are
  Transient: each is cured from outside, and the API server's own words reach the job's condition meanwhile.
* 400 and 422 are Invalid, unless an admission plug-in said it.
* 404 of an object is Conflict (it was there a moment ago); of a namespace or of a whole kind (CRD not installed) Transient.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from tjworker.base import Conflict, Invalid, OperatorError, Terminal, Transient
from tjworker.kube.port import HttpResponse

ALREADY_EXISTS = "AlreadyExists"
EXPIRED = "Expired"
NOT_FOUND = "NotFound"
NOT_INSTALLED = "ResourceNotInstalled"
QUOTA_EXCEEDED = "QuotaExceeded"
NAMESPACE_TERMINATING = "NamespaceTerminating"
NAMESPACE_GONE = "NamespaceGone"
ADMISSION_DENIED = "AdmissionDenied"
NO_PERMISSION = (401, 403)
"""The statuses of a right that is missing. An API server that has just started knows neither roles nor tokens for some seconds
and refuses everybody, too."""

_RBAC = re.compile(r'\bUser "[^"]*" cannot ')
_WEBHOOK = re.compile(r"^admission webhook .* denied the request|ValidatingAdmissionPolicy .* denied request")
_MESSAGE_CHARS = 2000


def parse_status(body: bytes) -> dict[str, Any]:
    """The metav1.Status in an answer's body; {} when it is something else (a proxy's page, '404 page not found')."""
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def retry_after(response: HttpResponse, status: dict[str, Any]) -> float | None:
    """Seconds that the server asks to wait, None when it does not say. A Retry-After that is a date is not used: the API
    server sends seconds, and clocks are not compared across machines."""
    for value in (response.headers.get("retry-after"), (status.get("details") or {}).get("retryAfterSeconds")):
        try:
            seconds = float(value) if value else 0.0
        except (TypeError, ValueError):
            continue
        if 0 < seconds <= 3600:
            return seconds
    return None


def to_error(response: HttpResponse, what: str) -> OperatorError:
    """The error for an answer of 300 and above. `what` names the request: 'create pods default/a'."""
    status = parse_status(response.body)
    message = str(status.get("message") or response.body[:300].decode("utf-8", "replace").strip() or "no message")
    return classify(
        response.status,
        str(status.get("reason") or ""),
        message[:_MESSAGE_CHARS],
        what=what,
        details=status.get("details") or {},
        has_status=bool(status),
        wait_seconds=retry_after(response, status),
    )


def from_status(status: dict[str, Any], what: str) -> OperatorError:
    """The error for the Status object in a watch's ERROR event."""
    details = status.get("details") or {}
    return classify(
        int(status.get("code") or 500),
        str(status.get("reason") or ""),
        str(status.get("message") or "no message"),
        what=what,
        details=details,
        has_status=True,
        wait_seconds=retry_after(HttpResponse(0, b""), status),
    )


def classify(
    code: int,
    reason: str,
    message: str,
    *,
    what: str,
    details: dict[str, Any],
    has_status: bool = True,
    wait_seconds: float | None = None,
) -> OperatorError:
    """The table itself."""
    kind: type[OperatorError]
    if code in (408, 429) or (code >= 500 and code != 501):
        kind = Transient
    elif code == 409:
        kind, reason = Conflict, reason or "Conflict"
    elif code in (410, 412):
        kind, reason = Conflict, EXPIRED if code == 410 else reason or "Conflict"
    elif _WEBHOOK.search(message):
        kind, reason = Transient, ADMISSION_DENIED
    elif code == 403:
        kind, reason = _forbidden(reason, message, details)
    elif code == 404:
        kind, reason = _not_found(details, has_status)
    elif code in (400, 413, 422):
        kind, reason = Invalid, reason or "Invalid"
    else:
        kind = Terminal
    return kind(f"{what}: {code} {reason}: {message}", status=code, reason=reason, retry_after_seconds=wait_seconds)


def being_deleted(error: OperatorError) -> bool:
    """AlreadyExists, and the one that exists is on its way out: its deletion will be seen, no need to ask again."""
    return isinstance(error, Conflict) and "object is being deleted" in error.message


def _forbidden(reason: str, message: str, details: dict[str, Any]) -> tuple[type[OperatorError], str]:
    causes = {cause.get("reason") for cause in details.get("causes") or ()}
    if "NamespaceTerminating" in causes or "because it is being terminated" in message:
        # The job goes with its namespace; until then nothing helps and nothing is wrong.
        return Transient, NAMESPACE_TERMINATING
    if "exceeded quota" in message or "insufficient quota" in message:
        return Transient, QUOTA_EXCEEDED
    if _RBAC.search(message) or " is forbidden: " not in message:
        return Terminal, reason or "Forbidden"
    return Transient, ADMISSION_DENIED


def _not_found(details: dict[str, Any], has_status: bool) -> tuple[type[OperatorError], str]:
    if details.get("kind") == "namespaces":
        return Transient, NAMESPACE_GONE
    if not has_status or not details.get("name"):
        return Transient, NOT_INSTALLED
    return Conflict, NOT_FOUND
