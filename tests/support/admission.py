"""What an API server says by ValidatingAdmissionPolicies: the part of Kubernetes' rules that ours use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.cel import CelError, compiled

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One write, as admission sees it."""

    resource: str
    """`plural.group`, or `plural` of the core group; with `/scale` where it is that subresource."""
    object: Json
    old: Json | None = None
    """None for a create."""
    user: str = "author"
    namespace: str = "team-a"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Both of the namespace."""
    may: frozenset[tuple[str, str, str, str]] = frozenset()
    """What the user is allowed: (verb, group, resource, namespace)."""

    @property
    def operation(self) -> str:
        return "CREATE" if self.old is None else "UPDATE"

    @property
    def place(self) -> tuple[str, str]:
        """(group, resource with its subresource)"""
        name, slash, subresource = self.resource.partition("/")
        plural, _, group = name.partition(".")
        return group, plural + slash + subresource


class _Authorizer:
    """CEL's `authorizer`, which asks whether the user of the request may do something."""

    def __init__(self, request: Request, asked: tuple[str, ...] = ()) -> None:
        self._request = request
        self._asked = asked

    def group(self, name: str) -> _Authorizer:
        return _Authorizer(self._request, (name,))

    def resource(self, name: str) -> _Authorizer:
        return _Authorizer(self._request, (*self._asked, name))

    def namespace(self, name: str) -> _Authorizer:
        return _Authorizer(self._request, (*self._asked, name))

    def check(self, verb: str) -> _Authorizer:
        return _Authorizer(self._request, (verb, *self._asked))

    def allowed(self) -> bool:
        return self._asked in self._request.may


class _Variables(Mapping[str, Any]):
    """A policy's variables, each evaluated when it is asked for."""

    def __init__(self, declared: Iterable[Json], names: Mapping[str, Any]) -> None:
        self._expressions = {one["name"]: one["expression"] for one in declared}
        self._names = {**names, "variables": self}

    def __getitem__(self, name: str) -> Any:
        return compiled(self._expressions[name])(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._expressions)

    def __len__(self) -> int:
        return len(self._expressions)


@dataclass(frozen=True)
class Policies:
    documents: tuple[Json, ...]

    def refusal(self, request: Request) -> str:
        """The words of the first refusal; '' when it is taken."""
        policies = {d["metadata"]["name"]: d["spec"] for d in self.documents if d["kind"].endswith("AdmissionPolicy")}
        for binding in (d["spec"] for d in self.documents if d["kind"].endswith("Binding")):
            policy = policies[binding["policyName"]]
            if not ("Deny" in binding["validationActions"] and _bound(binding, request) and _meant(policy, request)):
                continue
            said = _judged(policy, request)
            if said:
                return f"{binding['policyName']}: {said}"
        return ""


def _bound(binding: Json, request: Request) -> bool:
    matched = binding.get("matchResources") or {}
    assert set(matched) <= {"namespaceSelector"}, f"{matched}: teach this what it means"
    selector = matched.get("namespaceSelector") or {}
    assert set(selector) <= {"matchLabels"}, f"{selector}: teach this what it means"
    return bool((selector.get("matchLabels") or {}).items() <= request.labels.items())


def _meant(policy: Json, request: Request) -> bool:
    assert set(policy["matchConstraints"]) == {"resourceRules"}, "teach this what it means"
    group, resource = request.place
    return any(
        group in rule["apiGroups"]
        and rule["apiVersions"] == ["*"]
        and request.operation in rule["operations"]
        and resource in rule["resources"]
        for rule in policy["matchConstraints"]["resourceRules"]
    )


def _judged(policy: Json, request: Request) -> str:
    assert policy["failurePolicy"] == "Fail", "a policy that fails lets everything through"
    names = _names(request)
    failed = ""
    for condition in policy.get("matchConditions") or ():
        try:
            if compiled(condition["expression"])(names) is not True:
                return ""
        except CelError as error:
            failed = f"match condition {condition['name']}: {error}"
    if failed:
        return failed
    names["variables"] = _Variables(policy.get("variables") or (), names)
    for validation in policy["validations"]:
        try:
            if compiled(validation["expression"])(names) is True:
                continue
            said = validation.get("message") or compiled(validation["messageExpression"])(names)
        except CelError as error:
            said = f"expression {validation['expression']!r}: {error}"
        return str(said)
    return ""


def _names(request: Request) -> Json:
    group, resource = request.place
    meta = {"labels": dict(request.labels), "annotations": dict(request.annotations)}
    return {
        "object": request.object,
        "oldObject": request.old,
        "request": {
            "operation": request.operation,
            "namespace": request.namespace,
            "userInfo": {"username": request.user},
            "resource": {"group": group, "resource": resource.partition("/")[0]},
        },
        "namespaceObject": {"metadata": {"name": request.namespace, **{k: v for k, v in meta.items() if v}}},
        "authorizer": _Authorizer(request),
    }
