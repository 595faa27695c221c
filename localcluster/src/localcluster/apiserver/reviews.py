"""Access reviews: on this machine the one user may do everything. Pure."""

from __future__ import annotations

from dataclasses import replace

from localcluster.apiserver.errors import Causes, invalid
from localcluster.resources import Resource
from localcluster.wire import Json

_ALL_RULES = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(resource: Resource, body: Json, user: str) -> Json:
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "spec": body.get("spec", {})}
    if resource.kind == "SelfSubjectRulesReview":
        return head | {"status": _ALL_RULES}
    if resource.kind == "SelfSubjectReview":
        return {
            **head,
            "status": {"userInfo": {"username": user, "groups": ["system:masters", "system:authenticated"]}},
        }
    spec = head["spec"]
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        causes = Causes()
        causes.invalid("spec.resourceAttributes", spec.get("resourceAttributes"), why)
        error = invalid(replace(resource, kind=""), "", causes.found)
        assert error.details is not None  # noqa: S101
        del error.details["kind"]
        raise error
    return head | {"status": {"allowed": True}}
