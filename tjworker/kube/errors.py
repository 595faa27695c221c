"""Maps HTTP answers to the four classes of error. Pure: an answer in, an exception out; raises nothing.

Transient  try again, after the server's own wait if it names one
Conflict   the view was old: read it again
Invalid    the request itself is at fault
Terminal   neither waiting nor reading again helps

`_classify` is the table.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from tjworker.base import Conflict, Invalid, OperatorError, Terminal, Transient
from tjworker.kube.port import HttpResponse

EXPIRED = "Expired"
NOT_FOUND = "NotFound"
NOT_INSTALLED = "ResourceNotInstalled"
QUOTA_EXCEEDED = "QuotaExceeded"
NAMESPACE_TERMINATING = "NamespaceTerminating"
NAMESPACE_GONE = "NamespaceGone"
ADMISSION_DENIED = "AdmissionDenied"
_ABOUT_ONE_OBJECT = re.compile(r"failed calling webhook")
NO_PERMISSION = (401, 403)
"""The statuses of a missing permission. An API server that has just started gives them, too: for some seconds it knows
neither roles nor tokens."""

_RBAC = re.compile(r'\bUser "[^"]*" cannot ')
_WEBHOOK = re.compile(r"^admission webhook .* denied the request|ValidatingAdmissionPolicy .* denied request")
_MESSAGE_CHARS = 2000


def is_about_the_object(error: OperatorError) -> bool:
    """True if the error says nothing about other objects: admission denied this one, it is invalid, or its webhook does
    not answer. False for a missing permission, or an API server in trouble."""
    return (
        error.reason == ADMISSION_DENIED or isinstance(error, Invalid) or bool(_ABOUT_ONE_OBJECT.search(error.message))
    )


def parse_status(body: bytes) -> dict[str, Any]:
    """The metav1.Status in the body of an answer; {} if it has none, like a proxy's page or '404 page not found'."""
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def retry_after(response: HttpResponse, status: dict[str, Any]) -> float | None:
    """The seconds that the server asks the client to wait; None if it names none."""
    for value in (response.headers.get("retry-after"), (status.get("details") or {}).get("retryAfterSeconds")):
        try:
            seconds = float(value) if value else 0.0
        except (TypeError, ValueError):
            # A date. The API server sends seconds, and clocks of two machines cannot be compared.
            continue
        # A proxy in maintenance may ask for days: the usual backoff finds its end sooner.
        if 0 < seconds <= 3600:
            return seconds
    return None


def to_error(response: HttpResponse, what: str) -> OperatorError:
    """The error for an answer of 300 and above. `what` names the request: 'create pods default/a'."""
    status = parse_status(response.body)
    message = str(status.get("message") or response.body[:300].decode("utf-8", "replace").strip() or "no message")
    return _classify(response.status, status, message[:_MESSAGE_CHARS], what, retry_after(response, status))


def from_status(status: dict[str, Any], what: str) -> OperatorError:
    """The error for the Status object in a watch's ERROR event."""
    message, wait_seconds = str(status.get("message") or "no message"), retry_after(HttpResponse(0, b""), status)
    return _classify(int(status.get("code") or 500), status, message, what, wait_seconds)


def _classify(code: int, status: dict[str, Any], message: str, what: str, wait_seconds: float | None) -> OperatorError:
    kind: type[OperatorError]
    reason, details = str(status.get("reason") or ""), status.get("details") or {}
    # 501 is no outage: the server does not know the method. A new CRD answers 429 "storage is (re)initializing".
    if code in (408, 429) or (code >= 500 and code != 501):
        kind = Transient
    elif code == 409:
        kind, reason = Conflict, reason or "Conflict"
    elif code in (410, 412):
        kind, reason = Conflict, EXPIRED if code == 410 else reason or "Conflict"
    # Before the rows of the status code: a webhook chooses its code, and may answer 400 or 422. Its rule is changed
    # from outside; meanwhile the job's condition shows its words.
    elif _WEBHOOK.search(message):
        kind, reason = Transient, ADMISSION_DENIED
    elif code == 403:
        kind, reason = _classify_forbidden(reason, message, details)
    elif code == 404:
        kind, reason = _classify_not_found(details)
    elif code in (400, 413, 422):
        kind, reason = Invalid, reason or "Invalid"
    else:
        kind = Terminal
    return kind(f"{what}: {code} {reason}: {message}", status=code, reason=reason, retry_after_seconds=wait_seconds)


def _classify_forbidden(reason: str, message: str, details: dict[str, Any]) -> tuple[type[OperatorError], str]:
    """A 403 has four meanings. Three of them are cured from outside."""
    causes = {cause.get("reason") for cause in details.get("causes") or ()}
    if "NamespaceTerminating" in causes or "because it is being terminated" in message:
        # The job goes with its namespace; until then there is nothing to do.
        return Transient, NAMESPACE_TERMINATING
    # A quota has no reason of its own: only the words differ.
    if "exceeded quota" in message or "insufficient quota" in message:
        return Transient, QUOTA_EXCEEDED
    # Both RBAC and admission plug-ins, such as PodSecurity, write "is forbidden: ". RBAC goes on with a user who cannot
    # do something.
    if _RBAC.search(message) or " is forbidden: " not in message:
        return Terminal, reason or "Forbidden"
    return Transient, ADMISSION_DENIED


def _classify_not_found(details: dict[str, Any]) -> tuple[type[OperatorError], str]:
    if details.get("kind") == "namespaces":
        return Transient, NAMESPACE_GONE
    # A 404 without a name is about the path: the CRD is not installed.
    if not details.get("name"):
        return Transient, NOT_INSTALLED
    # The view showed the object a moment ago.
    return Conflict, NOT_FOUND
