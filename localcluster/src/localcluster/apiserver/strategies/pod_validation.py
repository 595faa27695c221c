"""What people get wrong in a pod, in kube-apiserver's words (`pkg/apis/core/validation/validation.go`). Pure.

Not every rule of Kubernetes is here: those that a manifest written by hand breaks are.
"""

from __future__ import annotations

import re
from typing import Any

from localcluster.apiserver import meta
from localcluster.apiserver.errors import Causes
from localcluster.quantity import parse
from localcluster.wire import Json

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RANGE_PORT = "must be between 1 and 65535, inclusive"
POD_UPDATE = (
    "pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def validate_pod_spec(spec: Json, path: str, causes: Causes) -> None:
    volumes = _validate_volumes(spec.get("volumes", ()), f"{path}.volumes", causes)
    names: set[str] = set()
    containers = spec.get("containers", ())
    if not containers:
        causes.required(f"{path}.containers")
    for index, container in enumerate(containers):
        _validate_container(container, f"{path}.containers[{index}]", names, volumes, causes)
        if container.get("restartPolicy"):
            causes.forbidden(f"{path}.containers[{index}].restartPolicy", "may not be set for non-init containers")
    for index, container in enumerate(spec.get("initContainers", ())):
        _validate_container(container, f"{path}.initContainers[{index}]", names, volumes, causes)
    if spec.get("restartPolicy") not in (None, *_RESTART_POLICIES):
        causes.unsupported(f"{path}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
    if (group := spec.get("schedulingGroup")) is not None:
        _validate_group(group, f"{path}.schedulingGroup.podGroupName", causes)
    if spec.get("nodeSelector"):
        meta.validate_labels(spec["nodeSelector"], f"{path}.nodeSelector", causes)
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        effect = toleration.get("effect") or ""
        # `ValidateTolerations`: only NoExecute evicts, so only there can a time run out.
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.invalid(f"{path}.tolerations[{index}].effect", effect, why)


def _validate_group(group: Json, path: str, causes: Causes) -> None:
    if (name := group.get("podGroupName")) is None:
        causes.invalid(path, None, "must specify one of: `podGroupName`")
    else:
        for why in meta.check_subdomain(name):
            causes.invalid(path, name, why)


def _validate_name(name: str, path: str, taken: set[str], causes: Causes) -> None:
    """Validates a name that is a DNS label and unique; adds it to `taken`."""
    if not name:
        causes.required(path)
        return
    for why in meta.check_label(name):
        causes.invalid(path, name, why)
    if name in taken:
        causes.duplicate(path, name)
    taken.add(name)


def _validate_volumes(volumes: Any, path: str, causes: Causes) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        _validate_name(volume.get("name", ""), f"{path}[{index}].name", names, causes)
        if len(volume) < 2:
            causes.required(f"{path}[{index}]", "must specify a volume type")
        elif len(volume) > 2:
            source = sorted(key for key in volume if key != "name")[1]
            causes.forbidden(f"{path}[{index}].{source}", "may not specify more than 1 volume type")
    return names


def _validate_container(container: Json, path: str, names: set[str], volumes: set[str], causes: Causes) -> None:
    _validate_name(container.get("name", ""), f"{path}.name", names, causes)
    image = container.get("image", "")
    if not image:
        causes.required(f"{path}.image")
    _validate_ports(container.get("ports", ()), f"{path}.ports", causes)
    for index, variable in enumerate(container.get("env", ())):
        _validate_variable(variable, f"{path}.env[{index}]", causes)
    mounts: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        _validate_mount(mount, f"{path}.volumeMounts[{index}]", volumes, mounts, causes)
    if container.get("imagePullPolicy") not in (None, "", *_PULL_POLICIES):
        causes.unsupported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES)
    _validate_resources(container.get("resources", {}), f"{path}.resources", causes)


def _validate_ports(ports: Any, path: str, causes: Causes) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if name := port.get("name"):
            for why in _port_name(name):
                causes.invalid(f"{at}.name", name, why)
            if name in names:
                causes.duplicate(f"{at}.name", name)
            names.add(name)
        number = port.get("containerPort")
        if not number:
            causes.required(f"{at}.containerPort")
        elif not 1 <= number <= 65535:
            causes.invalid(f"{at}.containerPort", number, _RANGE_PORT)
        if port.get("protocol") not in ("TCP", "UDP", "SCTP", None):
            causes.unsupported(f"{at}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))


def _port_name(text: str) -> list[str]:
    wrong = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", text):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in text:
        wrong.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


_METADATA_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid")
_HOST_FIELDS = ("spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs")
_FIELDS = (*_METADATA_FIELDS, *_HOST_FIELDS, "status.podIP", "status.podIPs")
_VARIABLE_NAME = re.compile(r"[ -<>-~]+")
"""Printable ASCII without the equals sign."""


def _validate_variable(variable: Json, path: str, causes: Causes) -> None:
    name = variable.get("name", "")
    if not name:
        causes.required(f"{path}.name")
    elif not _VARIABLE_NAME.fullmatch(name):
        causes.invalid(
            f"{path}.name",
            name,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        )
    source = variable.get("valueFrom")
    if source is None:
        return
    if not source:
        causes.invalid(
            f"{path}.valueFrom",
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        )
    elif variable.get("value"):
        causes.invalid(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    field = (source.get("fieldRef") or {}).get("fieldPath")
    if "fieldRef" in source and not field:
        causes.required(f"{path}.valueFrom.fieldRef.fieldPath")
    elif field and field not in _FIELDS and not re.fullmatch(r"metadata\.(labels|annotations)\['[^']+'\]", field):
        causes.invalid(
            f"{path}.valueFrom.fieldRef.fieldPath",
            field,
            f"error converting fieldPath: field label not supported: {field}",
        )


def _validate_mount(mount: Json, path: str, volumes: set[str], taken: set[str], causes: Causes) -> None:
    name = mount.get("name", "")
    if not name:
        causes.required(f"{path}.name")
    elif name not in volumes:
        causes.not_found(f"{path}.name", name)
    target = mount.get("mountPath", "")
    if not target:
        causes.required(f"{path}.mountPath")
    if target in taken:
        causes.invalid(f"{path}.mountPath", target, "must be unique")
    taken.add(target)


def _validate_resources(resources: Json, path: str, causes: Causes) -> None:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, value in limits.items():
        _validate_quantity(name, value, f"{path}.limits", causes)
    for name, value in requests.items():
        _validate_quantity(name, value, f"{path}.requests", causes)
        if name in limits:
            # An extended resource is handed out in whole pieces: its request is its limit (`IsOvercommitAllowed`).
            if "/" in name and parse(value) != parse(limits[name]):
                causes.invalid(f"{path}.requests", value, f"must be equal to {name} limit of {limits[name]}")
            elif parse(value) > parse(limits[name]):
                causes.invalid(
                    f"{path}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}"
                )
        elif "/" in name and not name.startswith("kubernetes.io/"):
            causes.required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _validate_quantity(name: str, value: str, path: str, causes: Causes) -> None:
    number = parse(value)
    if "/" not in name and name not in ("cpu", "memory", "ephemeral-storage") and not name.startswith("hugepages-"):
        causes.invalid(f"{path}[{name}]", name, "must be a standard resource type or fully qualified")
        causes.invalid(f"{path}[{name}]", name, "must be a standard resource for containers")
    if number < 0:
        causes.invalid(f"{path}[{name}]", value, "must be greater than or equal to 0")
    if "/" in name and number != number.to_integral_value():
        causes.invalid(f"{path}[{name}]", value, "must be an integer")


def validate_pod_update(new: Json, old: Json, causes: Causes) -> None:
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return
    for name in ("containers", "initContainers"):
        if len(spec.get(name, ())) != len(before.get(name, ())):
            causes.forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
    if any(toleration not in spec.get("tolerations", ()) for toleration in before.get("tolerations", ())):
        causes.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    # `ValidatePodUpdate` takes the fields that may change out of both specs, and compares what is left.
    if _immutable_part(spec) != _immutable_part(before):
        causes.forbidden("spec", POD_UPDATE)


def _immutable_part(spec: Json) -> Json:
    rest = {
        name: value
        for name, value in spec.items()
        if name not in ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    }
    for name in ("containers", "initContainers"):
        if name in rest:
            rest[name] = [
                {key: value for key, value in container.items() if key != "image"} for container in rest[name]
            ]
    return rest
