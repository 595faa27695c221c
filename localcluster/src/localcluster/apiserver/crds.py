"""CustomResourceDefinitions: what a definition serves, its conditions, and the end of its objects.

Pure; a schema is compiled once. The store is changed by the server, never here.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from typing import Any

import orjson

from localcluster.apiserver import jsonpath
from localcluster.apiserver.errors import Causes
from localcluster.apiserver.meta import DNS1035, check_label, check_subdomain
from localcluster.apiserver.registry import Custom
from localcluster.patch import Shape, crd_shape
from localcluster.resources import BUILTIN, Resource
from localcluster.schema import compiled
from localcluster.wire import Json

_log = logging.getLogger(__name__)
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def served_rows(definition: Json) -> list[tuple[Resource, Custom]]:
    """The rows of a definition, one for each served version."""
    spec = definition["spec"]
    names = spec["names"]
    storage = next(
        (version["name"] for version in spec["versions"] if version.get("storage")), spec["versions"][0]["name"]
    )
    rows = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        sub = version.get("subresources") or {}
        raw = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        selectable = tuple(field["jsonPath"].lstrip(".") for field in version.get("selectableFields", ()))
        resource = Resource(
            spec["group"],
            version["name"],
            names["kind"],
            names["plural"],
            spec.get("scope") == "Namespaced",
            tuple(names.get("shortNames", ())),
            tuple(names.get("categories", ())),
            tuple(sorted(name for name in ("status", "scale") if name in sub)),
            selectable,
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            custom=True,
        )
        warning = (
            version.get("deprecationWarning") or f"{spec['group']}/{version['name']} {names['kind']} is deprecated"
        )
        rows.append(
            (
                resource,
                Custom(
                    definition["metadata"]["name"],
                    compiled(raw) if raw else None,
                    raw,
                    _shape_of(orjson.dumps(raw)),
                    _readable_columns(definition["metadata"]["name"], version),
                    sub.get("scale"),
                    "status" in sub,
                    storage,
                    warning if version.get("deprecated") else "",
                    int(definition["metadata"].get("resourceVersion", "0")),
                ),
            )
        )
    return rows


def _readable_columns(name: str, version: Json) -> tuple[Json, ...]:
    """Returns the columns before the first unreadable one. kube-apiserver leaves out the rest as well, and logs it."""
    found: list[Json] = []
    for column in version.get("additionalPrinterColumns", ()):
        try:
            jsonpath.compile_path(column["jsonPath"])
        except jsonpath.PathError as error:
            _log.warning("CRD %s, version %s: no column from %s on: %s", name, version["name"], column["name"], error)
            break
        found.append(column)
    return tuple(found)


@lru_cache(maxsize=32)
def _shape_of(schema: bytes) -> Shape:
    """Made once for each schema, as `localcluster.schema.compiled` is."""
    return crd_shape(orjson.loads(schema))


def default(definition: Json) -> None:
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.setdefault("names", {})
    # `SetDefaults_CustomResourceDefinitionSpec` derives these names from the kind.
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions", ()):
        for column in version.get("additionalPrinterColumns", ()):
            # Go leaves an integer of 0 out of the JSON (`omitempty`).
            if column.get("priority") == 0:
                del column["priority"]


def prepare_create(definition: Json) -> None:
    definition["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": [
            version["name"] for version in definition.get("spec", {}).get("versions", ()) if version.get("storage")
        ],
    }


def prepare_update(new: Json, old: Json) -> None:
    status = new.get("status") or old.get("status") or {}
    stored = list(status.get("storedVersions", ()))
    for version in new.get("spec", {}).get("versions", ()):
        # A version stays in storedVersions: objects may still be stored in it.
        if version.get("storage") and version["name"] not in stored:
            stored.append(version["name"])
    new["status"] = {**status, "storedVersions": stored}


def established_status(definition: Json, now: str, clash: str = "") -> Json:
    """`status` of a definition that has been looked at; `clash` says why its names cannot be used."""
    names = definition["spec"]["names"]
    if clash:
        conditions = [
            _make_condition(
                "NamesAccepted", "False", now, "KindConflict" if "kind" in clash else "PluralConflict", clash
            ),
            _make_condition("Established", "False", now, "NotAccepted", "not all names are accepted"),
        ]
        return {**definition["status"], "conditions": conditions}
    conditions = [
        _make_condition("NamesAccepted", "True", now, "NoConflicts", "no conflicts found"),
        _make_condition("Established", "True", now, "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    return {**definition["status"], "conditions": conditions, "acceptedNames": names}


def pending_deletion_status(definition: Json, now: str) -> Json:
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    conditions = [
        *(definition["status"].get("conditions") or ()),
        _make_condition("Terminating", "True", now, "InstanceDeletionPending", message),
    ]
    return {**definition["status"], "conditions": conditions}


def terminating_status(definition: Json, now: str) -> Json:
    conditions = [c for c in definition["status"].get("conditions") or () if c["type"] != "Terminating"]
    conditions.append(
        _make_condition(
            "Terminating", "True", now, "InstanceDeletionInProgress", "CustomResource deletion is in progress"
        )
    )
    return {**definition["status"], "conditions": conditions}


def _make_condition(kind: str, status: str, now: str, reason: str, message: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}


def clash_of(definition: Json, rows: list[Resource]) -> str:
    """Why the names are taken by another resource of the group, empty when they are free."""
    spec = definition["spec"]
    names = spec["names"]
    others = [
        row
        for row in rows
        if row.group == spec["group"] and f"{row.plural}.{row.group}" != definition["metadata"]["name"]
    ]
    for other in others:
        if names["kind"] == other.kind:
            return f'"{names["kind"]}" is already in use'
        if names["plural"] == other.plural or names["plural"] in other.short_names:
            return f'"{names["plural"]}" is already in use'
        for short in names.get("shortNames", ()):
            if short in other.short_names or short in (other.plural, other.singular_name):
                return f'"{short}" is already in use'
    return ""


def validate(definition: Json, causes: Causes) -> None:
    """In the order in which Kubernetes reports."""
    spec = definition.get("spec")
    if not spec:
        causes.required("spec")
        return
    names, name = spec.get("names", {}), definition["metadata"].get("name", "")
    if name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        causes.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    _validate_group(spec.get("group", ""), causes)
    if not spec.get("scope"):
        causes.required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        causes.unsupported("spec.scope", spec["scope"], ["Cluster", "Namespaced"])
    _validate_versions(spec.get("versions") or [], names, causes)
    if spec.get("conversion", {}).get("strategy") not in ("None", None):
        causes.unsupported("spec.conversion.strategy", spec["conversion"]["strategy"], ["None"])


def _validate_group(group: str, causes: Causes) -> None:
    if not group:
        causes.required("spec.group")
    elif len(group.split(".")) < 2:
        causes.invalid("spec.group", group, "should be a domain with at least one dot")
    elif why := check_subdomain(group):
        causes.invalid("spec.group", group, ",".join(why))
    elif any(row.group == group for row in BUILTIN):
        where = "metadata.annotations[api-approved.kubernetes.io]"
        causes.invalid(where, "", "protected groups must have approval annotation")


def _validate_versions(versions: list[Json], names: Json, causes: Causes) -> None:
    seen: set[str] = set()
    # One schema for all versions is, inside Kubernetes, a schema of the definition and not of its versions.
    shared = bool(versions) and all(version.get("schema") == versions[0].get("schema") for version in versions)
    for index, version in enumerate(versions):
        _validate_version(version, f"spec.versions[{index}]", names, seen, causes, shared=shared)
    storage = [version["name"] for version in versions if version.get("storage")]
    if len(storage) != 1:
        shown = [_summarize_version(version) for version in versions]
        causes.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    _validate_names(names, causes, stored=bool(storage) or not versions)


def _validate_names(names: Json, causes: Causes, *, stored: bool) -> None:
    for name in ("plural", "singular", "kind", "listKind"):
        _validate_name(names, name, causes)
    if not stored:
        causes.invalid("status.storedVersions", None, "must have at least one stored version")
    for index, short in enumerate(names.get("shortNames", ())):
        if not _DNS1035.fullmatch(short):
            why = check_label(short)[0] if check_label(short) else "must be a DNS-1035 label"
            causes.invalid(f"spec.names.shortNames[{index}]", short, why)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        causes.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _validate_name(names: Json, name: str, causes: Causes) -> None:
    value = names.get(name, "")
    if not value:
        if name != "singular":
            causes.required(f"spec.names.{name}")
    elif not _DNS1035.fullmatch(value.lower()) or (name in ("plural", "singular") and value != value.lower()):
        causes.invalid(
            f"spec.names.{name}",
            value,
            "may have mixed case, but should otherwise match: " + DNS1035 if name in ("kind", "listKind") else DNS1035,
        )


def _summarize_version(version: Json) -> Any:
    return {
        "name": version.get("name", ""),
        "served": version.get("served", False),
        "storage": version.get("storage", False),
    }


def _validate_version(version: Json, path: str, names: Json, seen: set[str], causes: Causes, *, shared: bool) -> None:
    name = version.get("name", "")
    if name in seen:
        causes.invalid("spec.versions", name, "must contain unique version names")
    seen.add(name)
    if not _DNS1035.fullmatch(name):
        causes.invalid(f"{path}.name", name, DNS1035)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        causes.required(f"{path}.schema.openAPIV3Schema")
    else:
        structural = compiled(schema)
        where = "spec.validation.openAPIV3Schema" if shared else f"{path}.schema.openAPIV3Schema"
        if not shared or path.endswith("[0]"):
            causes.extend(structural.check(where))
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        _validate_scale(scale, f"{path}.subresources.scale", causes)
    for index, column in enumerate(version.get("additionalPrinterColumns", ())):
        _validate_column(column, f"{path}.additionalPrinterColumns[{index}]", causes)


def _validate_scale(scale: Json, path: str, causes: Causes) -> None:
    for name, start in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(name, "")
        if not value:
            causes.required(f"{path}.{name}")
        elif not value.startswith(start):
            causes.invalid(f"{path}.{name}", value, f"should be a json path under {start[:-1]}")
    selector = scale.get("labelSelectorPath")
    if selector and not selector.startswith((".status.", ".spec.")):
        causes.invalid(f"{path}.labelSelectorPath", selector, "should be a json path under either .status or .spec")


def _validate_column(column: Json, path: str, causes: Causes) -> None:
    if not column.get("name"):
        causes.required(f"{path}.name")
    kind = column.get("type", "")
    kinds = ["integer", "number", "string", "boolean", "date"]
    if not kind:
        causes.required(f"{path}.type", f"must be one of {','.join(sorted(kinds))}")
    elif kind not in kinds:
        causes.invalid(f"{path}.type", kind, f"must be one of {','.join(sorted(kinds))}")
    if not column.get("jsonPath"):
        causes.required(f"{path}.jsonPath")


def validate_scale_values(obj: Json, scale: Json, causes: Causes) -> None:
    """The replica counts of an object must be whole numbers wherever the scale subresource reads them."""
    for name in ("specReplicasPath", "statusReplicasPath"):
        path = scale.get(name, "")
        value: Any = obj
        for part in path.strip(".").split("."):
            if value is not None and not isinstance(value, dict):
                causes.invalid(
                    path,
                    0,
                    f"{path} accessor error: {jsonpath.show(value)} is of the type "
                    f"{_GO_TYPES.get(type(value), 'int64')}, expected "
                    "map[string]interface{}",
                )
                value = None
            value = value.get(part) if value is not None else None
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            causes.invalid(
                path,
                0,
                f"{path} accessor error: {jsonpath.show(value)} is of the type "
                f"{_GO_TYPES.get(type(value), 'interface')}, expected int64",
            )
        elif value < 0:
            causes.invalid(path, value, "should be a non-negative integer")
        elif value > 2**31 - 1:
            causes.invalid(path, value, f"should be less than or equal to {2**31 - 1}")


_GO_TYPES = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}
