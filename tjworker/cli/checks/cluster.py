"""The cluster: does it answer, are our CRDs there and those of this version, may this user do what the operator does.

What the API server does not let this user see is `skipped`, not `failed`: the operator needs no right to read CRDs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from tjworker.api import crd
from tjworker.api.kinds import KINDS
from tjworker.api.kinds.base import JobKind
from tjworker.base import GroupResource, JsonDict, OperatorError
from tjworker.cli.checks.check import Check, State, Subject
from tjworker.kube.errors import NO_PERMISSION, to_error
from tjworker.kube.port import Transport
from tjworker.kube.rbac import NAMESPACE, OWN, PROCESSES, user
from tjworker.kube.resources import RESOURCES, Process, Resource, needed

SUBJECT = Subject("cluster")
TIMEOUT_SECONDS = 10.0
APPLY_CRDS = "run `kubectl apply --server-side --force-conflicts -f k8s/crds`"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Every user may ask both reviews: Kubernetes binds `system:basic-user` to all authenticated users.
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def check(
    transport: Transport,
    namespaces: Sequence[str],
    now: datetime,
    which: str,
    own_namespace: str = NAMESPACE,
    kinds: Mapping[GroupResource, JobKind] = KINDS,
    gang: str = "none",
) -> list[Check]:
    """`namespaces`: those that the operator serves; empty: all. `which`: how messages name the cluster. `kinds`: those
    that the operator serves. `gang`: its gang scheduler."""
    try:
        version, server_time = _version(transport)
    except OperatorError as error:
        return [
            SUBJECT.failed(
                "reachable",
                f"{error.message} ({which})",
                "start the cluster (`tj up` starts a local one), or choose another with KUBECONFIG",
            )
        ]
    found = [SUBJECT.ok("reachable", f"Kubernetes {version}, of {which}")]
    if server_time is not None:
        # The header has whole seconds.
        ahead_seconds = (server_time - now).total_seconds()
        found.append(SUBJECT.clock(ahead_seconds, 0, "time limits and grace periods will be off"))
    found += [definition(transport, job_kind) for job_kind in kinds.values()]
    return [*found, *permissions(transport, namespaces, own_namespace, kinds, gang)]


def server_now(transport: Transport) -> datetime | None:
    """The API server's own time, to the second; None when it says none."""
    return _version(transport)[1]


def _version(transport: Transport) -> tuple[str, datetime | None]:
    # Needs no right (`system:public-info-viewer`), so a failure is that of the connection or of the credentials.
    answer = transport.request("GET", "/version", timeout_seconds=TIMEOUT_SECONDS)
    if answer.status != 200:
        raise to_error(answer, "get the version")
    date = answer.headers.get("date")
    return str(orjson.loads(answer.body).get("gitVersion", "")), parsedate_to_datetime(date) if date else None


# -- CRDs ------------------------------------------------------------------------------------------
def definition(transport: Transport, job_kind: JobKind) -> Check:
    wanted = crd.build(job_kind)
    name = f"CRD {wanted['metadata']['name']}"
    try:
        answer = transport.request("GET", f"{_CRDS}/{wanted['metadata']['name']}", timeout_seconds=TIMEOUT_SECONDS)
    except OperatorError as error:
        return SUBJECT.failed(name, error.message, "try again")
    if answer.status == 404:
        return Check(SUBJECT, name, _missing(job_kind), "is not installed", _apply(job_kind))
    # Discovery is open to every user (`system:discovery`), and shows at least whether the kind is served.
    if answer.status in NO_PERMISSION:
        return _served(transport, job_kind, name)
    if answer.status != 200:
        return SUBJECT.failed(name, to_error(answer, f"get {name}").message, "look at the API server's log")
    return _compared(name, wanted, orjson.loads(answer.body), _apply(job_kind))


def _apply(job_kind: JobKind) -> str:
    """A kind of another operator's has a folder of its own."""
    if job_kind.guest is None:
        return APPLY_CRDS
    folder = f"k8s/kinds/{job_kind.resource}"
    return f"run `kubectl apply --server-side --force-conflicts -k {folder}`; a local stack installs it when it starts"


def _compared(name: str, wanted: JsonDict, found: JsonDict, apply: str) -> Check:
    conditions = {c["type"]: c for c in (found.get("status") or {}).get("conditions") or []}
    # A CRD that is not Established is not served, whatever its schema. NamesAccepted is False while another CRD has its
    # names.
    if conditions.get("Established", {}).get("status") != "True":
        why = conditions.get("NamesAccepted", {}).get("message", "") or "is not established"
        return SUBJECT.failed(name, why, "`kubectl describe crd` says why; another CRD may have its names")
    if difference := first_difference(wanted["spec"], found.get("spec") or {}, "spec"):
        return SUBJECT.failed(name, f"is not the one of this version: {difference} differs", apply)
    return SUBJECT.ok(name, "is served, with the schema of this version")


def _served(transport: Transport, job_kind: JobKind, name: str) -> Check:
    answer = transport.request("GET", f"/apis/{job_kind.group}/{job_kind.versions[0]}", timeout_seconds=TIMEOUT_SECONDS)
    if answer.status == 200 and any(
        r.get("name") == job_kind.plural for r in orjson.loads(answer.body).get("resources", [])
    ):
        return SUBJECT.ok(name, "is served (this user may not read CRDs, so its schema was not compared)")
    return Check(SUBJECT, name, _missing(job_kind), "is not served", _apply(job_kind))


def _missing(job_kind: JobKind) -> State:
    """One kind may be enough for a cluster."""
    return "warning" if RESOURCES[job_kind.resource].optional else "failed"


def first_difference(wanted: Any, found: Any, path: str) -> str:
    """The first field of `wanted` that `found` has otherwise, '' when there is none. What a server adds is no
    difference."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key, value in wanted.items():
            if key not in found and value not in ({}, [], "", False):  # left out when it says nothing
                return f"{path}.{key}"
            if key in found and (difference := first_difference(value, found[key], f"{path}.{key}")):
                return difference
        return _surplus(wanted, found, path)
    if isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            return path
        pairs = zip(wanted, found, strict=True)
        return next((d for i, (a, b) in enumerate(pairs) if (d := first_difference(a, b, f"{path}[{i}]"))), "")
    return "" if wanted == found else path


def _surplus(wanted: Mapping[str, Any], found: Mapping[str, Any], path: str) -> str:
    """A property that only the cluster's schema has: of a later version, or one that was taken out."""
    if not path.endswith(".properties"):
        return ""
    return next((f"{path}.{key}" for key in found if key not in wanted), "")


# -- RBAC ------------------------------------------------------------------------------------------
_WITHOUT_IT: tuple[State, str] = "warning", "the operator works without; k8s/base/rbac.yaml has the role"
_NEEDS_IT: tuple[State, str] = (
    "failed",
    "apply k8s/base/rbac.yaml (for some namespaces: k8s/namespaced, k8s/served in each), or ask who runs the cluster",
)


def permissions(
    transport: Transport,
    namespaces: Sequence[str],
    own_namespace: str,
    kinds: Mapping[GroupResource, JobKind] = KINDS,
    gang: str = "none",
) -> Iterator[Check]:
    """One check for each row of the table of verbs. In a pod of the operator's own only for what that process uses."""
    who = _who(transport)
    processes = [process for process in PROCESSES if who == user(process, own_namespace)] or PROCESSES
    for row in needed(kinds, gang):
        name, wanted = f"may use {row.name}", _wanted(row, processes)
        if not wanted:
            continue
        try:
            missing = sorted(
                {
                    why
                    for namespace in ((own_namespace,) if row in OWN else _where(row, namespaces))
                    for what, verb in wanted
                    if (why := _refused(transport, row, what, verb, namespace))
                }
            )
        except OperatorError as error:
            yield SUBJECT.skipped(name, f"access could not be reviewed: {error.message}")
            continue
        if not missing:
            yield SUBJECT.ok(name, who)
        else:
            state, advice = _WITHOUT_IT if row.optional else _NEEDS_IT
            yield Check(SUBJECT, name, state, f"{who} may not {', '.join(missing)}", advice)


def _wanted(row: Resource, processes: Sequence[Process]) -> list[tuple[str, str]]:
    """(subresource or '', verb), each once."""
    of = {"": row.verbs, **row.subresources}
    return sorted({(sub, verb) for sub, by in of.items() for process in processes for verb in by.get(process, ())})


def _where(row: Resource, namespaces: Sequence[str]) -> Sequence[str]:
    return namespaces if row.namespaced and namespaces else ("",)


def _refused(transport: Transport, row: Resource, subresource: str, verb: str, namespace: str) -> str:
    """What may not be done, '' when it may."""
    asked = {"group": row.group, "version": row.version, "resource": row.plural, "verb": verb}
    # A review without a namespace asks for the right in all namespaces.
    asked |= {key: value for key, value in (("subresource", subresource), ("namespace", namespace)) if value}
    # A review for each right: a SelfSubjectRulesReview would answer all at once, but may be incomplete where an
    # authorizer other than RBAC decides.
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = transport.request("POST", _REVIEWS, body=orjson.dumps(body), timeout_seconds=TIMEOUT_SECONDS)
    if answer.status >= 300:
        raise to_error(answer, "review access")
    if (orjson.loads(answer.body).get("status") or {}).get("allowed"):
        return ""
    return verb + (f" {subresource}" if subresource else "") + (f" in {namespace}" if namespace else "")


def _who(transport: Transport) -> str:
    body = orjson.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    try:
        answer = transport.request("POST", _WHO, body=body, timeout_seconds=TIMEOUT_SECONDS)
        return str(orjson.loads(answer.body)["status"]["userInfo"]["username"])
    except (OperatorError, orjson.JSONDecodeError, KeyError, TypeError):
        return "this user"
