"""Access reviews: on this machine the one user may do everything. Pure."""

from __future__ import annotations

from dataclasses import replace

from localcluster.apiserver.errors import Causes, bad_request, invalid
from localcluster.apiserver.typed import WrongType, decode
from localcluster.resources import Resource
from localcluster.wire import Json

_ALL_RULES = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(resource: Resource, body: Json, user: str) -> Json:
    try:
        decode(resource.api_version, resource.kind, body)
    except WrongType as wrong:
        what = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise bad_request(f"{what}: {wrong}") from None
    spec: Json = body.get("spec") or {}
    head: Json = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "spec": spec}
    if resource.kind == "SelfSubjectRulesReview":
        return head | {"status": _ALL_RULES}
    if resource.kind == "SelfSubjectReview":
        return {
            **head,
            "status": {"userInfo": {"username": user, "groups": ["system:masters", "system:authenticated"]}},
        }
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes = Causes()
        causes.invalid("spec.resourceAttributes", spec.get("resourceAttributes"), why)
        if resource.kind == "SubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
            causes.invalid("spec.user", "", "at least one of user or group must be specified")
        error = invalid(replace(resource, kind=""), "", causes.found)
        assert error.details is not None  # noqa: S101
        del error.details["kind"]
        raise error
    return head | {"status": {"allowed": True}}
