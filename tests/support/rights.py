"""What the shipped roles (`k8s/base/rbac.yaml`) let a process do, as a judge of the requests that it sends.

The API servers of scenarios and simulation know no RBAC, and many a refusal would go unseen: events and log tails are
best effort.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tjworker.kube import rbac
from tjworker.kube.resources import Process
from tjworker.reconcile.gangs import GANGS

Right = tuple[str, str, str]
"""(API group, resource or resource/subresource, verb)"""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "WATCH": "watch"}


@cache
def granted(process: Process, kinds: Sequence[str] = (), gang: str = "none") -> frozenset[Right]:
    """`kinds`: those of other operators that are installed, by their CRDs. `gang`: the gang scheduler."""
    rights = _granted("k8s/base/rbac.yaml", rbac.role(process))
    if gang != "none":
        resource = GANGS[gang].resource
        rights |= _granted(f"k8s/gangs/{gang}/rbac.yaml", rbac.role(process, resource))
    return rights.union(*(_granted(f"k8s/kinds/{kind}/rbac.yaml", rbac.role(process, kind)) for kind in kinds))


def _granted(path: str, role: str) -> frozenset[Right]:
    documents = yaml.safe_load_all((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(
        (group, resource, verb)
        for document in documents
        if document["metadata"]["name"] == role
        for rule in document.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def right(method: str, path: str) -> Right | None:
    """The right that a request needs; None for one that needs none (`/version`). WATCH is a watch's method."""
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return None
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = _VERBS.get(method) or ("get" if name else "list")
    return group, f"{resource}/{subresource}" if subresource else resource, verb


def lacking(
    process: Process, requests: Iterable[tuple[str, str]], kinds: tuple[str, ...] = (), gang: str = "none"
) -> set[Right]:
    """Rights that these requests, (method, path), need and the process has not."""
    return {needed for one in set(requests) if (needed := right(*one)) is not None} - granted(process, kinds, gang)
