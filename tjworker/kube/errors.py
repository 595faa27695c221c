"""HTTP answers to the four classes of error, in this one place. Pure: an answer in, an exception out; raises nothing.

What the status code alone does not say:

* 429 and every 5xx but 501 are Transient, with the server's own wait (`Retry-After`, else `details.retryAfterSeconds`).
  "storage is (re)initializing" of a new CRD is such a 429.
* 409 is Conflict; its reason is AlreadyExists or Conflict. 410 (Expired) is Conflict, too: look again.
* 403 has four meanings. RBAC is Terminal. Quota, a namespace that is being deleted, and a refusal by admission are
  Transient: each is cured from outside. Meanwhile the job's condition carries the API server's own words.
* 400 and 422 are Invalid, unless an admission plug-in answered them.
* 404 is Conflict for an object (it was there a moment ago), and Transient for a namespace or a whole kind (the CRD is
  not installed).
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
"""A missing permission. An API server that has just started answers so, too: for some seconds it knows neither roles
nor tokens."""

_RBAC = re.compile(r'\bUser "[^"]*" cannot ')
_WEBHOOK = re.compile(r"^admission webhook .* denied the request|ValidatingAdmissionPolicy .* denied request")
_MESSAGE_CHARS = 2000


def is_about_the_object(error: OperatorError) -> bool:
    """A refusal that says nothing about other objects: admission denied this one, it is invalid, or the webhook that
    judges such objects does not answer. Not a missing permission, nor an API server in trouble."""
    return (
        error.reason == ADMISSION_DENIED or isinstance(error, Invalid) or bool(_ABOUT_ONE_OBJECT.search(error.message))
    )


def parse_status(body: bytes) -> dict[str, Any]:
    """The metav1.Status in an answer's body; {} when it is something else (a proxy's page, '404 page not found')."""
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def retry_after(response: HttpResponse, status: dict[str, Any]) -> float | None:
    """Seconds that the server asks to wait; None when it does not say. A date in Retry-After is ignored: the API server
    sends seconds, and clocks of two machines are not compared."""
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
    return _classify(response.status, status, message[:_MESSAGE_CHARS], what, retry_after(response, status))


def from_status(status: dict[str, Any], what: str) -> OperatorError:
    """The error for the Status object in a watch's ERROR event."""
    message, wait_seconds = str(status.get("message") or "no message"), retry_after(HttpResponse(0, b""), status)
    return _classify(int(status.get("code") or 500), status, message, what, wait_seconds)


def _classify(code: int, status: dict[str, Any], message: str, what: str, wait_seconds: float | None) -> OperatorError:
    """The table itself."""
    kind: type[OperatorError]
    reason, details = str(status.get("reason") or ""), status.get("details") or {}
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
        kind, reason = _not_found(details)
    elif code in (400, 413, 422):
        kind, reason = Invalid, reason or "Invalid"
    else:
        kind = Terminal
    return kind(f"{what}: {code} {reason}: {message}", status=code, reason=reason, retry_after_seconds=wait_seconds)


def _forbidden(reason: str, message: str, details: dict[str, Any]) -> tuple[type[OperatorError], str]:
    causes = {cause.get("reason") for cause in details.get("causes") or ()}
    if "NamespaceTerminating" in causes or "because it is being terminated" in message:
        # The job goes with its namespace; until then there is nothing to do.
        return Transient, NAMESPACE_TERMINATING
    if "exceeded quota" in message or "insufficient quota" in message:
        return Transient, QUOTA_EXCEEDED
    if _RBAC.search(message) or " is forbidden: " not in message:
        return Terminal, reason or "Forbidden"
    return Transient, ADMISSION_DENIED


def _not_found(details: dict[str, Any]) -> tuple[type[OperatorError], str]:
    if details.get("kind") == "namespaces":
        return Transient, NAMESPACE_GONE
    if not details.get("name"):
        return Transient, NOT_INSTALLED
    return Conflict, NOT_FOUND
