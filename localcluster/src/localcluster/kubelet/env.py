"""The environment, command and arguments of a container, as a kubelet makes them. Pure: ConfigMaps and Secrets come
through a lookup function.

Follows kubernetes v1.36 `pkg/kubelet/kubelet_pods.go` and `third_party/forked/golang/expansion`. Raises ConfigError
with the kubelet's words (the container then waits with CreateContainerConfigError).
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from localcluster.objects import amount_of, quantity
from localcluster.wire import Json

Lookup = Callable[[str, str, str], Json | None]
"""(resource, namespace or nothing, name) -> the object, None when there is none."""


class ConfigError(Exception):
    """What the container's configuration lacks."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts of the downward API that the pod object does not hold."""

    pod_ip: str
    host_ip: str
    allocatable: Mapping[str, str]


def expand_references(text: str, values: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` by its value when there is one, and `$$(NAME)` by `$(NAME)`. Other text is unchanged."""
    parts = []
    at = 0
    while at < len(text):
        if text[at] != "$" or at + 1 >= len(text):
            parts.append(text[at])
            at += 1
            continue
        following = text[at + 1]
        if following == "$":
            parts.append("$")
            at += 2
        elif following == "(" and (end := text.find(")", at)) >= 0:
            name = text[at + 2 : end]
            parts.append(values.get(name, f"$({name})"))
            at = end + 1
        else:
            parts.append("$")
            at += 1
    return "".join(parts)


def build_environment(pod: Json, container: Json, facts: PodFacts, lookup: Lookup) -> dict[str, str]:
    """Later entries may refer to earlier ones."""
    values: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        for resource, ref in (("configmaps", source.get("configMapRef")), ("secrets", source.get("secretRef"))):
            if ref is not None:
                values.update({source.get("prefix", "") + k: v for k, v in _all_of(pod, resource, ref, lookup).items()})
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            value = _value_from(pod, container, entry["valueFrom"], facts, lookup)
            if value is not None:
                values[entry["name"]] = value
        else:
            values[entry["name"]] = expand_references(entry.get("value", ""), values)
    return values


def data_of(resource: str, obj: Json) -> dict[str, bytes]:
    """The entries of a ConfigMap or Secret."""
    if resource == "secrets":
        return {k: base64.b64decode(v) for k, v in (obj.get("data") or {}).items()}
    binary = {k: base64.b64decode(v) for k, v in (obj.get("binaryData") or {}).items()}
    return {**{k: v.encode() for k, v in (obj.get("data") or {}).items()}, **binary}


def _all_of(pod: Json, resource: str, ref: Json, lookup: Lookup) -> dict[str, str]:
    obj = lookup(resource, pod["metadata"]["namespace"], ref["name"])
    if obj is None:
        if ref.get("optional"):
            return {}
        raise ConfigError(f'{resource[:-1]} "{ref["name"]}" not found')
    return {k: v.decode(errors="replace") for k, v in data_of(resource, obj).items()}


def _value_from(pod: Json, container: Json, source: Json, facts: PodFacts, lookup: Lookup) -> str | None:
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"], facts)
    if "resourceFieldRef" in source:
        return resource_value(pod, container, source["resourceFieldRef"], facts)
    for field, resource, kind in (
        ("configMapKeyRef", "configmaps", "ConfigMap"),
        ("secretKeyRef", "secrets", "Secret"),
    ):
        if field in source:
            return _key_of(pod, resource, kind, source[field], lookup)
    raise ConfigError(f"valueFrom of {sorted(source)} is not supported here")


def _key_of(pod: Json, resource: str, kind: str, ref: Json, lookup: Lookup) -> str | None:
    namespace = pod["metadata"]["namespace"]
    obj = lookup(resource, namespace, ref["name"])
    if obj is None:
        if ref.get("optional"):
            return None
        raise ConfigError(f'{resource[:-1]} "{ref["name"]}" not found')
    value = data_of(resource, obj).get(ref["key"])
    if value is None:
        if ref.get("optional"):
            return None
        raise ConfigError(f"couldn't find key {ref['key']} in {kind} {namespace}/{ref['name']}")
    return value.decode(errors="replace")


def field_value(pod: Json, path: str, facts: PodFacts) -> str:
    """A field of the downward API. Raises ConfigError for one that it does not have."""
    meta, spec = pod["metadata"], pod["spec"]
    subscript = re.fullmatch(r"metadata\.(labels|annotations)\['([^']*)'\]", path)
    if subscript:
        return str((meta.get(subscript[1]) or {}).get(subscript[2], ""))
    plain: dict[str, str] = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
    }
    if path in plain:
        return plain[path]
    if path in ("metadata.labels", "metadata.annotations"):
        return "\n".join(f'{k}="{v}"' for k, v in sorted((meta.get(path.partition(".")[2]) or {}).items()))
    raise ConfigError(f"unsupported fieldPath: {path}")


def resource_value(pod: Json, container: Json, ref: Json, facts: PodFacts) -> str:
    """A request or limit in units of the divisor, rounded up; without a limit, what the node has."""
    named = ref.get("containerName")
    if named:
        container = next((c for c in pod["spec"]["containers"] if c["name"] == named), container)
    side, _, name = ref["resource"].partition(".")
    have = ((container.get("resources") or {}).get(side) or {}).get(name)
    if have is None:
        # A container without a limit may use what the node has.
        have = facts.allocatable.get(name, "0") if side == "limits" else "0"
    divisor = quantity(ref.get("divisor") or "1") or Decimal(1)
    if name == "cpu":
        return str(math.ceil(Decimal(amount_of("cpu", have)) / 1000 / divisor))
    return str(math.ceil(quantity(have) / divisor))


def command_of(container: Json, values: Mapping[str, str]) -> list[str]:
    """Command and arguments. Raises ConfigError when there is no command, as no image is here to have an entrypoint."""
    command = [
        expand_references(part, values) for part in (*(container.get("command") or ()), *(container.get("args") or ()))
    ]
    if not container.get("command"):
        raise ConfigError(
            f"container {container['name']} has no command: images are not pulled here, so the entrypoint of image "
            f'"{container.get("image", "")}" is not known; set spec.containers[].command'
        )
    return command
