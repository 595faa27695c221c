"""metadata of every object: what the server fills in, what users get wrong, and what an update may not touch. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from localcluster import times
from localcluster.apiserver.errors import Causes
from localcluster.resources import Resource
from localcluster.wire import Json

_LABEL_FORM = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN_FORM = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_VALUE_FORM = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric "
    r"character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character "
    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric "
    "character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric "
    "character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or "
    "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
IMMUTABLE = "field is immutable"
_ANNOTATIONS_LIMIT_BYTES = 256 * 1024
_NAME_SUFFIX_LENGTH = 5
SERVER_SIDE_FINALIZERS = ("orphan", "foregroundDeletion")


def check_subdomain(text: str) -> list[str]:
    """What is wrong with it as a DNS subdomain (most objects' names)."""
    wrong = ["must be no more than 253 characters"] if len(text) > 253 else []
    return wrong if _SUBDOMAIN_FORM.fullmatch(text) else [*wrong, SUBDOMAIN]


def check_label(text: str) -> list[str]:
    wrong = ["must be no more than 63 characters"] if len(text) > 63 else []
    if _LABEL_FORM.fullmatch(text):
        return wrong
    return [*wrong, "must not contain dots" if _SUBDOMAIN_FORM.fullmatch(text) else LABEL]


def check_path_segment(text: str) -> list[str]:
    """RBAC names: anything that is one segment of a path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


NAME_RULES: dict[str, Callable[[str], list[str]]] = {
    "namespaces": check_label,
    "services": check_label,
    "rbac.authorization.k8s.io/roles": check_path_segment,
    "rbac.authorization.k8s.io/rolebindings": check_path_segment,
    "rbac.authorization.k8s.io/clusterroles": check_path_segment,
    "rbac.authorization.k8s.io/clusterrolebindings": check_path_segment,
}


def check_qualified_name(text: str) -> list[str]:
    """What is wrong with it as a label key, an annotation key, a finalizer."""
    prefix, slash, name = text.rpartition("/")
    wrong: list[str] = []
    if slash and "/" in prefix:
        return [
            _QUALIFIED.replace("name part must", "a valid label key must")
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong += [f"prefix part {text}" for text in check_subdomain(prefix)]
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name) > 63:
        wrong.append("name part must be no more than 63 bytes")
    if not _NAME_PART.fullmatch(name):
        wrong.append(_QUALIFIED)
    return wrong


@lru_cache(maxsize=4096)
def _is_qualified(key: str) -> bool:
    """Checks an annotation's key. Cached, because every write repeats the same few keys."""
    return not check_qualified_name(key.lower())


def check_label_value(text: str) -> list[str]:
    wrong = ["must be no more than 63 bytes"] if len(text) > 63 else []
    return wrong if _VALUE_FORM.fullmatch(text) else [*wrong, _VALUE]


def parse_time(text: str | None) -> float | None:
    """Unix seconds of an RFC 3339 time, None for none or nonsense."""
    if not text:
        return None
    try:
        return times.seconds_of(text)
    except ValueError:
        return None


_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def generated_name(base: str, pick: Callable[[str], str]) -> str:
    """`base` and five random letters; a long base is cut as Kubernetes cuts it."""
    return base[: 63 - _NAME_SUFFIX_LENGTH] + "".join(pick(_ALPHABET) for _ in range(_NAME_SUFFIX_LENGTH))


_labels_seen: dict[tuple[str, str], bool] = {}


def validate_labels(labels: Json, path: str, causes: Causes) -> None:
    for key, value in labels.items():
        if (key, value) in _labels_seen:
            continue
        before = len(causes.found)
        for why in check_qualified_name(key):
            causes.invalid(path, key, why)
        for why in check_label_value(value):
            causes.invalid(path, value, why)
        # The limit bounds the memory: some labels hold hashes, so that new values never cease to come.
        if len(causes.found) == before and len(_labels_seen) < 50_000:
            _labels_seen[key, value] = True


def validate_meta(resource: Resource, meta: Json, causes: Causes) -> None:
    rule = NAME_RULES.get(resource.bucket, check_subdomain)
    # A prefix may end with a dash, since the server appends letters.
    if "generateName" in meta and "name" not in meta:
        for why in rule(meta["generateName"].rstrip("-") + "a"):
            causes.invalid("metadata.generateName", meta["generateName"], why)
    if not meta.get("name"):
        causes.required("metadata.name", "name or generateName is required")
    else:
        for why in rule(meta["name"]):
            causes.invalid("metadata.name", meta["name"], why)
    if labels := meta.get("labels"):
        validate_labels(labels, "metadata.labels", causes)
    _validate_annotations(meta.get("annotations") or {}, causes)
    _validate_owners(meta.get("ownerReferences", ()), causes)
    _validate_finalizers(resource, meta.get("finalizers", ()), causes)


def _validate_annotations(annotations: Json, causes: Causes) -> None:
    for key in annotations:
        if not _is_qualified(key):
            for why in check_qualified_name(key.lower()):
                causes.invalid("metadata.annotations", key, why)
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT_BYTES:
        causes.too_long("metadata.annotations", _ANNOTATIONS_LIMIT_BYTES)


def _validate_owners(owners: Sequence[Json], causes: Causes) -> None:
    for owner in owners:
        _validate_owner(owner, "metadata.ownerReferences", causes)
    controllers = [f"{owner.get('kind', '')}/{owner.get('name', '')}" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        causes.invalid(
            "metadata.ownerReferences",
            owners,
            f'Only one reference can have Controller set to true. Found "true" in references for {controllers[0]} and '
            f"{controllers[1]}",
        )


def _validate_finalizers(resource: Resource, finalizers: Sequence[str], causes: Causes) -> None:
    for finalizer in finalizers:
        for why in check_qualified_name(finalizer):
            causes.invalid("metadata.finalizers", finalizer, why)
    # The API of custom resources does not have this rule: a CRD itself carries
    # `customresourcecleanup.apiextensions.k8s.io`.
    lenient = resource.custom or resource.group == "apiextensions.k8s.io"
    for index, finalizer in enumerate(() if lenient else finalizers):
        if "/" not in finalizer and finalizer not in ("kubernetes", *SERVER_SIDE_FINALIZERS):
            causes.invalid(
                f"metadata.finalizers[{index}]",
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            )
    if all(name in finalizers for name in SERVER_SIDE_FINALIZERS):
        causes.invalid("metadata.finalizers", finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


_NO_OWNERS = (("v1", "Event"),)


def without_duplicate_owners(meta: Json, warnings: list[str]) -> None:
    """Drops them in place, with a warning, as `dedupOwnerReferences` does: old clients wrote them."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: list[Json] = []
    dropped: list[str] = []
    for owner in owners:
        if owner in kept:
            dropped.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    if dropped:
        meta["ownerReferences"] = kept
        warnings.append(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and"
            " may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed:"
            f" {', '.join(dropped)}"
        )


def _validate_owner(owner: Json, path: str, causes: Causes) -> None:
    if (owner.get("apiVersion"), owner.get("kind")) in _NO_OWNERS:
        group, _, version = owner["apiVersion"].rpartition("/")
        causes.invalid(path, owner, f"{group}/{version}, Kind={owner['kind']} is disallowed from being an owner")
    if not owner.get("apiVersion", "").rpartition("/")[2]:
        causes.invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty")
    for name in ("kind", "name", "uid"):
        if not owner.get(name):
            causes.invalid(f"{path}.{name}", owner.get(name, ""), "must not be empty")


def validate_meta_update(new: Json, old: Json, causes: Causes) -> None:
    """`new` already carries the fields that only the server sets."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if new.get(name) != old.get(name):
            causes.invalid(f"metadata.{name}", new.get(name), IMMUTABLE)
    if old.get("deletionTimestamp"):
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            shown = ", ".join(f'"{name}"' for name in added)
            causes.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, found new finalizers"
                f" []string{{{shown}}}",
            )
