"""The API server's refusals: each a Status object, word for word as kube-apiserver words it.

Pure. `StatusError` is raised anywhere below `ApiServer.handle` and turned into a Response there, in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from localcluster import jsontext
from localcluster.resources import Resource
from localcluster.wire import Json, Response


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`. `message` starts with the error type, e.g. `Invalid value: "x": must be ...`."""

    reason: str
    message: str
    field: str


class StatusError(Exception):
    def __init__(self, code: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Json:
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return body | {"code": self.code}

    def response(self) -> Response:
        return Response(self.code, jsontext.dumps(self.status()) + b"\n")


def _make_details(resource: Resource, name: str, **more: Any) -> Json:
    details: Json = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return details | {"kind": resource.plural} | more


def not_found(resource: Resource, name: str) -> StatusError:
    return StatusError(404, "NotFound", f'{resource.group_resource} "{name}" not found', _make_details(resource, name))


class NoSuchPath(StatusError):
    """Go's plain answer: a path that no resource serves is no Status."""

    def response(self) -> Response:
        return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")


def no_such_resource() -> StatusError:
    """In a group that is built in: a Status."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def no_such_path() -> StatusError:
    return NoSuchPath(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> StatusError:
    return StatusError(
        409, "AlreadyExists", f'{resource.group_resource} "{name}" already exists', _make_details(resource, name)
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def still_there(resource: Resource, name: str) -> StatusError:
    """A create under the name of an object that waits for its finalizers."""
    error = already_exists(resource, name)
    error.message = f"object is being deleted: {error.message}"
    return error


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _make_details(resource, name))


def precondition_failed(resource: Resource, name: str, why: str) -> StatusError:
    """Kubernetes names the kind here, not the resource."""
    details = _make_details(resource, name, kind=resource.kind)
    return StatusError(
        409, "Conflict", f'Operation cannot be fulfilled on {resource.group_kind} "{name}": {why}', details
    )


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def not_acceptable(message: str) -> StatusError:
    return StatusError(406, "NotAcceptable", message)


def forbidden(resource: Resource, name: str, why: str) -> StatusError:
    message = f'{resource.group_resource} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, _make_details(resource, name))


def method_not_supported() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type(content_type: str, supported: Sequence[str]) -> StatusError:
    listed = ", ".join(supported)
    return StatusError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {listed}",
    )


def gone(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def resource_version_too_large(asked: int, now: int) -> StatusError:
    return StatusError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {asked}, current: {now}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def internal(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def as_json(cause: Any) -> Json:
    return {"reason": cause.reason, "message": cause.message, "field": cause.field}


def invalid(resource: Resource, name: str, causes: Sequence[Any]) -> StatusError:
    """422. `causes` are Cause or the schema's FieldCause."""
    texts: list[str] = []
    for cause in causes:
        text = f"{cause.field}: {cause.message}"
        if text not in texts:
            texts.append(text)
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: Json = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.kind, "causes": [as_json(cause) for cause in causes]}
    return StatusError(422, "Invalid", f'{resource.group_kind} "{name}" is invalid: {summary}', details)


@dataclass(slots=True)
class Causes:
    """Collects the field errors of one object, with Kubernetes' words for each error type (field/errors.go)."""

    found: list[Cause] = field(default_factory=list)

    def extend(self, others: Iterable[Any]) -> None:
        """Causes that the schema found: of its own class, with the same fields."""
        self.found.extend(Cause(other.reason, other.message, other.field) for other in others)

    def required(self, path: str, why: str = "") -> None:
        self.found.append(Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", path))

    def invalid(self, path: str, value: Any, why: str) -> None:
        self.found.append(Cause("FieldValueInvalid", f"Invalid value: {show(value)}: {why}", path))

    def unsupported(self, path: str, value: Any, supported: Sequence[str]) -> None:
        """In the order given: Kubernetes sorts some of these lists and not others."""
        listed = ", ".join(show(text) for text in supported)
        self.found.append(
            Cause("FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {listed}", path)
        )

    def duplicate(self, path: str, value: Any) -> None:
        self.found.append(Cause("FieldValueDuplicate", f"Duplicate value: {show(value)}", path))

    def forbidden(self, path: str, why: str) -> None:
        self.found.append(Cause("FieldValueForbidden", f"Forbidden: {why}", path))

    def not_found(self, path: str, value: Any) -> None:
        self.found.append(Cause("FieldValueNotFound", f"Not found: {show(value)}", path))

    def too_long(self, path: str, limit: int) -> None:
        self.found.append(Cause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", path))


def show(value: Any) -> str:
    """A value as Kubernetes' messages print it: strings quoted, the rest as JSON."""
    if value is None:
        return "null"
    return jsontext.dumps(value).decode()
