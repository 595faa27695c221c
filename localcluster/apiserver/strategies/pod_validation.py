"""What people get wrong in a pod, in kube-apiserver's words (`pkg/apis/core/validation/validation.go`). Pure.

Not every rule of Kubernetes is here: those that a process on this machine could ever meet are.
"""

from __future__ import annotations

import re
from typing import Any

from localcluster.apiserver import meta
from localcluster.apiserver.errors import Causes
from localcluster.apiserver.quantity import parse
from localcluster.wire import Json

_PORT_NAME = re.compile(r"^[a-z0-9]([a-z0-9]*(-[a-z0-9]+)*)$|^[a-z0-9]+(-[a-z0-9]+)*$")
_TEMPLATE_RESTART = ("Always",)
_RANGE_PORT = "must be between 1 and 65535, inclusive"
POD_UPDATE = (
    "pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)


def validate_pod_spec(spec: Json, path: str, causes: Causes) -> None:  # noqa: C901, PLR0912  one branch a rule
    volumes = _validate_volumes(spec.get("volumes", ()), f"{path}.volumes", causes)
    names: set[str] = set()
    containers = spec.get("containers", ())
    if not containers:
        causes.required(f"{path}.containers")
    host_ports: set[tuple[Any, ...]] = set()
    for index, container in enumerate(containers):
        _validate_container(container, f"{path}.containers[{index}]", names, volumes, causes)
        if container.get("restartPolicy"):
            causes.forbidden(f"{path}.containers[{index}].restartPolicy", "may not be set for non-init containers")
        _validate_host_ports(container, f"{path}.containers[{index}]", host_ports, causes)
    for index, container in enumerate(spec.get("initContainers", ())):
        _validate_container(container, f"{path}.initContainers[{index}]", names, volumes, causes)
    for name, allowed in (
        ("restartPolicy", ("Always", "OnFailure", "Never")),
        ("dnsPolicy", ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")),
    ):
        if spec.get(name) and spec[name] not in allowed:
            causes.unsupported(f"{path}.{name}", spec[name], allowed)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        causes.invalid(f"{path}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    for name in ("nodeName", "serviceAccountName", "priorityClassName"):
        for why in meta.subdomain(spec[name]) if spec.get(name) else ():
            causes.invalid(f"{path}.{name}", spec[name], why)
    for name in ("hostname", "subdomain"):
        for why in meta.dns_label(spec[name]) if spec.get(name) else ():
            causes.invalid(f"{path}.{name}", spec[name], why)
    if spec.get("nodeSelector"):
        meta.validate_labels(spec["nodeSelector"], f"{path}.nodeSelector", causes)
    for index, toleration in enumerate(spec.get("tolerations", ())):
        _validate_toleration(toleration, f"{path}.tolerations[{index}]", causes)


def _validate_volumes(volumes: Any, path: str, causes: Causes) -> set[str]:
    names: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            causes.required(f"{path}[{index}].name")
        else:
            for why in meta.dns_label(name):
                causes.invalid(f"{path}[{index}].name", name, why)
        if name in names:
            causes.duplicate(f"{path}[{index}].name", name)
        names.add(name)
        if len(volume) < 2:
            causes.required(f"{path}[{index}]", "must specify a volume type")
        elif len(volume) > 2:
            source = sorted(key for key in volume if key != "name")[1]
            causes.forbidden(f"{path}[{index}].{source}", "may not specify more than 1 volume type")
    return names


def _validate_container(container: Json, path: str, names: set[str], volumes: set[str], causes: Causes) -> None:
    name = container.get("name", "")
    if not name:
        causes.required(f"{path}.name")
    else:
        for why in meta.dns_label(name):
            causes.invalid(f"{path}.name", name, why)
        if name in names:
            causes.duplicate(f"{path}.name", name)
        names.add(name)
    image = container.get("image", "")
    if not image:
        causes.required(f"{path}.image")
    elif image != image.strip():
        causes.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    _validate_ports(container.get("ports", ()), f"{path}.ports", causes)
    for index, variable in enumerate(container.get("env", ())):
        _validate_variable(variable, f"{path}.env[{index}]", causes)
    mounts: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        _validate_mount(mount, f"{path}.volumeMounts[{index}]", volumes, mounts, causes)
    policy = container.get("imagePullPolicy")
    if policy and policy not in ("Always", "IfNotPresent", "Never"):
        causes.unsupported(f"{path}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
    validate_resources(container.get("resources", {}), f"{path}.resources", causes)


def _validate_ports(ports: Any, path: str, causes: Causes) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        if name := port.get("name"):
            for why in port_name(name):
                causes.invalid(f"{at}.name", name, why)
            if name in names:
                causes.duplicate(f"{at}.name", name)
            names.add(name)
        number = port.get("containerPort")
        if not number:
            causes.required(f"{at}.containerPort")
        elif not 1 <= number <= 65535:
            causes.invalid(f"{at}.containerPort", number, _RANGE_PORT)
        if port.get("hostPort") and not 1 <= port["hostPort"] <= 65535:
            causes.invalid(f"{at}.hostPort", port["hostPort"], _RANGE_PORT)
        if port.get("protocol") not in ("TCP", "UDP", "SCTP", None):
            causes.unsupported(f"{at}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))


def _validate_host_ports(container: Json, path: str, taken: set[tuple[Any, ...]], causes: Causes) -> None:
    for index, port in enumerate(container.get("ports", ())):
        if port.get("hostPort"):
            claim = (port.get("protocol"), port.get("hostIP", ""), port["hostPort"])
            if claim in taken:
                causes.duplicate(f"{path}.ports[{index}].hostPort", f"{claim[0]}/{claim[1]}/{claim[2]}")
            taken.add(claim)


def port_name(text: str) -> list[str]:
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


_LABELS = (
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.hostNetwork",
    "status.phase",
    "status.nominatedNodeName",
)


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
    allowed = (
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    )
    if "fieldRef" in source and not field:
        causes.required(f"{path}.valueFrom.fieldRef.fieldPath")
    elif field and field not in allowed and not re.fullmatch(r"metadata\.(labels|annotations)\['[^']+'\]", field):
        if field in _LABELS:
            causes.unsupported(f"{path}.valueFrom.fieldRef.fieldPath", field, allowed)
        else:
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


def validate_resources(resources: Json, path: str, causes: Causes) -> None:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for name, value in limits.items():
        _validate_quantity(name, value, f"{path}.limits", causes)
    for name, value in requests.items():
        _validate_quantity(name, value, f"{path}.requests", causes)
        if name in limits:
            if "/" in name and parse(value) != parse(limits[name]):
                causes.invalid(f"{path}.requests", value, f"must be equal to {name} limit of {limits[name]}")
            elif parse(value) > parse(limits[name]):
                causes.invalid(
                    f"{path}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}"
                )
        elif "/" in name and not name.startswith("kubernetes.io/"):
            causes.required(f"{path}.limits", f"Limit must be set for non overcommitable resources")  # noqa: F541


def _validate_quantity(name: str, value: str, path: str, causes: Causes) -> None:
    number = parse(value)
    if "/" not in name and name not in ("cpu", "memory", "ephemeral-storage") and not name.startswith("hugepages-"):
        causes.invalid(f"{path}[{name}]", name, "must be a standard resource type or fully qualified")
        causes.invalid(f"{path}[{name}]", name, "must be a standard resource for containers")
    if number < 0:
        causes.invalid(f"{path}[{name}]", value, "must be greater than or equal to 0")
    if "/" in name and number != number.to_integral_value():
        causes.invalid(f"{path}[{name}]", value, "must be an integer")


def _validate_toleration(toleration: Json, path: str, causes: Causes) -> None:
    operator = toleration.get("operator", "Equal")
    if not toleration.get("key") and operator != "Exists":
        causes.invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if operator == "Exists" and toleration.get("value"):
        causes.invalid(f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'")
    if operator not in ("Equal", "Exists"):
        causes.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    effect = toleration.get("effect")
    if effect and effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        causes.unsupported(f"{path}.effect", effect, ("NoSchedule", "PreferNoSchedule", "NoExecute"))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        causes.invalid(f"{path}.effect", effect or "", "effect must be 'NoExecute' when `tolerationSeconds` is set")


def validate_pod_update(new: Json, old: Json, causes: Causes) -> None:
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return
    for name in ("containers", "initContainers"):
        if len(spec.get(name, ())) != len(before.get(name, ())):
            causes.forbidden(f"spec.{name}", "pod updates may not add or remove containers")
            return
    deadline, was = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if was is not None and deadline is None:
        causes.invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif was is not None and deadline is not None and deadline > was:
        causes.invalid("spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value")
    if any(toleration not in spec.get("tolerations", ()) for toleration in before.get("tolerations", ())):
        causes.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if _frozen(spec) != _frozen(before):
        causes.forbidden("spec", POD_UPDATE)


def _frozen(spec: Json) -> Json:
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
