"""Checks a pod template against the kubernetes package's models: unknown and missing fields, values of a wrong type.

The models come from Kubernetes' OpenAPI document, which has neither the allowed words nor the bounds of a field; this
module lists those of a pod. To import the models takes a moment.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from kubernetes.client import models

from tjworker.api.model import FieldError
from tjworker.api.quantity import milli

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_LIST = re.compile(r"[Ll]ist\[(.+)\]")
_MAP = re.compile(r"[Dd]ict[(\[]str, (.+)[)\]]")
_PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "str": ((str,), "a string"),
}
_QUANTITIES = frozenset({"limits", "requests", "capacity", "allocatedResources"})
"""Maps of quantities, which may be written as numbers."""
_EITHER = frozenset({"port", "target_port", "max_surge", "max_unavailable", "size_limit", "divisor"})
"""Numbers or strings (intstr, quantity), which the models call str or object."""
_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("V1PodSpec", "restartPolicy"): ("Always", "OnFailure", "Never"),
    ("V1PodSpec", "dnsPolicy"): ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    ("V1PodSpec", "preemptionPolicy"): ("PreemptLowerPriority", "Never"),
    ("V1PodOS", "name"): ("linux", "windows"),
    ("V1PodSecurityContext", "fsGroupChangePolicy"): ("OnRootMismatch", "Always"),
    ("V1SeccompProfile", "type"): ("RuntimeDefault", "Unconfined", "Localhost"),
    ("V1Container", "imagePullPolicy"): ("Always", "IfNotPresent", "Never"),
    ("V1Container", "terminationMessagePolicy"): ("File", "FallbackToLogsOnError"),
    ("V1ContainerPort", "protocol"): ("TCP", "UDP", "SCTP"),
    ("V1HTTPGetAction", "scheme"): ("HTTP", "HTTPS"),
    ("V1VolumeMount", "mountPropagation"): ("None", "HostToContainer", "Bidirectional"),
    ("V1HostPathVolumeSource", "type"): (
        *("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"),
    ),
    # Lt and Gt need the feature gate TaintTolerationComparisonOperators. Whether it is on, only the cluster knows.
    ("V1Toleration", "operator"): ("Exists", "Equal", "Lt", "Gt"),
    ("V1Toleration", "effect"): ("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    ("V1NodeSelectorRequirement", "operator"): ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    ("V1LabelSelectorRequirement", "operator"): ("In", "NotIn", "Exists", "DoesNotExist"),
    ("V1TopologySpreadConstraint", "whenUnsatisfiable"): ("DoNotSchedule", "ScheduleAnyway"),
    ("V1TopologySpreadConstraint", "nodeAffinityPolicy"): ("Honor", "Ignore"),
    ("V1TopologySpreadConstraint", "nodeTaintsPolicy"): ("Honor", "Ignore"),
    ("V1PersistentVolumeClaimSpec", "volumeMode"): ("Filesystem", "Block"),
}
# `maxUserID` and `maxGroupID` of k8s.io/apimachinery (util/validation). The API server checks them only for a Pod, so a
# job with a larger number would fail with its first pod.
_MAX_ID = 2**31 - 1
_BOUNDS: dict[tuple[str, str], tuple[int, int]] = {
    ("V1PodSecurityContext", "runAsUser"): (0, _MAX_ID),
    ("V1PodSecurityContext", "runAsGroup"): (0, _MAX_ID),
    ("V1PodSecurityContext", "fsGroup"): (0, _MAX_ID),
    ("V1SecurityContext", "runAsUser"): (0, _MAX_ID),
    ("V1SecurityContext", "runAsGroup"): (0, _MAX_ID),
    ("V1TopologySpreadConstraint", "maxSkew"): (1, _MAX_ID),
    ("V1PreferredSchedulingTerm", "weight"): (1, 100),
    ("V1WeightedPodAffinityTerm", "weight"): (1, 100),
    ("V1SecretVolumeSource", "defaultMode"): (0, 0o777),
    ("V1ConfigMapVolumeSource", "defaultMode"): (0, 0o777),
    ("V1KeyToPath", "mode"): (0, 0o777),
}


def template_errors(template: Any, path: str) -> Iterator[FieldError]:
    yield from _object(template, "V1PodTemplateSpec", path)


def _object(value: Any, model: str, path: str) -> Iterator[FieldError]:
    # The API server takes null for a field that is not there.
    if value is None:
        return
    if not isinstance(value, dict):
        yield FieldError(path, f"{_shown(value)} is not an object")
        return
    known = getattr(models, model)
    names = {json: python for python, json in known.attribute_map.items()}
    for name, part in value.items():
        if name not in names:
            yield unknown_field(f"{path}.{name}", str(name), names)
        elif names[name] not in _EITHER and part is not None:
            yield from _value(part, known.openapi_types[names[name]], f"{path}.{name}")
            yield from _bounds(part, (model, name), f"{path}.{name}")
    for python, field in known.model_fields.items():
        if field.is_required() and value.get(known.attribute_map[python]) is None:
            yield FieldError(f"{path}.{known.attribute_map[python]}", "is missing")


def _bounds(value: Any, field: tuple[str, str], path: str) -> Iterator[FieldError]:
    words = _WORDS.get(field)
    if words is not None and isinstance(value, str) and value not in words:
        yield FieldError(path, f"{_shown(value)}: must be one of {', '.join(filter(None, words))}")
    least, most = _BOUNDS.get(field, (None, None))
    if least is not None and most is not None and isinstance(value, int) and not least <= value <= most:
        yield FieldError(path, f"{value}: must be from {least} to {most}")


def _value(value: Any, type_: str, path: str) -> Iterator[FieldError]:
    if items := _LIST.fullmatch(type_):
        if not isinstance(value, list):
            yield FieldError(path, f"{_shown(value)} is not a list")
            return
        for index, item in enumerate(value):
            yield from _value(item, items[1], f"{path}[{index}]")
    elif values := _MAP.fullmatch(type_):
        if not isinstance(value, dict):
            yield FieldError(path, f"{_shown(value)} is not an object")
            return
        for name, part in value.items():
            if path.rpartition(".")[2] in _QUANTITIES:
                yield from _quantity(part, f"{path}.{name}")
            else:
                yield from _value(part, values[1], f"{path}.{name}")
    elif type_ in _PLAIN:
        types, wanted = _PLAIN[type_]
        # In Python true is a number, too.
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            yield FieldError(path, f"{_shown(value)} is not {wanted}{_quotes(value, type_)}")
    elif hasattr(models, type_):
        yield from _object(value, type_, path)


def _quotes(value: Any, type_: str) -> str:
    if type_ == "str" and isinstance(value, bool | int | float):
        return f"; write it in quotes: '{str(value).lower()}'"
    if type_ in ("int", "float") and isinstance(value, str) and _NUMBER.fullmatch(value):
        return "; write it without quotes"
    return ""


def unknown_field(path: str, name: str, known: Any) -> FieldError:
    close = difflib.get_close_matches(name, list(known), n=1)
    return FieldError(path, f"unknown field{f'; did you mean {close[0]!r}?' if close else ''}")


def _quantity(value: Any, path: str) -> Iterator[FieldError]:
    try:
        milli(value)
    except (ValueError, TypeError):
        yield FieldError(path, f"{_shown(value)} is not a quantity, such as 500m, 2 or 1.5Gi")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
