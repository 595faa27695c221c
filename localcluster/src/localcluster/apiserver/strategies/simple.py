"""The kinds whose rules fit on a page: pods (on top of pod_defaults, pod_validation), services, namespaces, nodes,
config, events, leases. In-place `default` and `prepare`; safe to run twice."""

from __future__ import annotations

import base64
import binascii

from localcluster.apiserver import meta
from localcluster.apiserver.errors import Causes, bad_request
from localcluster.apiserver.strategies import pod_validation
from localcluster.apiserver.strategies.pod_defaults import add_tolerations, admit_pod, default_pod_spec
from localcluster.objects import qos_class
from localcluster.wire import Json

# -- pods ------------------------------------------------------------------------------------------


def default_pod(pod: Json) -> None:
    default_pod_spec(pod.setdefault("spec", {}))
    status = pod.get("status") or {}
    if status.get("podIP") and not status.get("podIPs"):
        status["podIPs"] = [{"ip": status["podIP"]}]


def prepare_pod(pod: Json) -> None:
    admit_pod(pod)
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    # The scheduler does not look at a gated pod, so that only the API server can set this condition.
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def update_pod(new: Json, old: Json) -> None:
    """Fields of admission are the server's: a client that leaves them out does not remove them."""
    spec, before = new["spec"], old["spec"]
    for name in (
        "enableServiceLinks",
        "preemptionPolicy",
        "priority",
        "tolerations",
        "nodeName",
        "serviceAccount",
        "serviceAccountName",
    ):
        if name in before:
            spec.setdefault(name, before[name])
    add_tolerations(spec)


def validate_pod(pod: Json, causes: Causes) -> None:
    pod_validation.validate_pod_spec(pod["spec"], "spec", causes)
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        causes.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


validate_pod_update = pod_validation.validate_pod_update


# -- services --------------------------------------------------------------------------------------
def default_service(service: Json) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4"])
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    service.setdefault("status", {}).setdefault("loadBalancer", {})


def update_service(new: Json, old: Json) -> None:
    # `patchAllocatedValues`: an update without addresses keeps the allocated ones.
    for name in ("clusterIP", "clusterIPs"):
        if name in old["spec"] and new["spec"].get("type") != "ExternalName":
            new["spec"].setdefault(name, old["spec"][name])
    address = new["spec"].get("clusterIP")
    if (
        address != old["spec"].get("clusterIP")
        and new["spec"].get("clusterIPs") == old["spec"].get("clusterIPs")
        and address
    ):
        new["spec"]["clusterIPs"] = [address]


def _validate_port(port: Json, path: str, causes: Causes) -> None:
    number, target = port.get("port", 0), port.get("targetPort")
    if not 1 <= number <= 65535:
        causes.invalid(f"{path}.port", number, "must be between 1 and 65535, inclusive")
    if port["protocol"] not in ("TCP", "UDP", "SCTP"):
        causes.unsupported(f"{path}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
    if isinstance(target, int) and not 1 <= target <= 65535:
        causes.invalid(f"{path}.targetPort", target, "must be between 1 and 65535, inclusive")


def validate_service(service: Json, causes: Causes) -> None:
    spec = service["spec"]
    headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports", ())
    if not ports and not headless and spec["type"] != "ExternalName":
        causes.required("spec.ports")
    names: set[str] = set()
    taken: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, name, number = f"spec.ports[{index}]", port.get("name", ""), port.get("port", 0)
        if not name and len(ports) > 1:
            causes.required(f"{path}.name")
        for why in meta.check_label(name) if name else ():
            causes.invalid(f"{path}.name", name, why)
        if name and name in names:
            causes.duplicate(f"{path}.name", name)
        names.add(name)
        _validate_port(port, path, causes)
        if (port["protocol"], number) in taken:
            shown = {"Name": "", "Protocol": port["protocol"], "AppProtocol": None, "Port": number}
            causes.duplicate(path, {**shown, "TargetPort": 0, "NodePort": 0})
        taken.add((port["protocol"], number))
    for name, allowed in (
        ("type", ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")),
        ("sessionAffinity", ("ClientIP", "None")),
    ):
        if spec.get(name) not in allowed:
            causes.unsupported(f"spec.{name}", spec.get(name), allowed)
    if spec.get("selector"):
        meta.validate_labels(spec["selector"], "spec.selector", causes)
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        causes.required("spec.externalName")


def validate_service_update(new: Json, old: Json, causes: Causes) -> None:
    address, before = new["spec"].get("clusterIPs"), old["spec"].get("clusterIPs")
    if (
        before
        and address != before
        and new["spec"].get("type") != "ExternalName"
        and old["spec"].get("type") != "ExternalName"
    ):
        causes.invalid("spec.clusterIPs[0]", address or [], "may not change once set")


# -- namespaces and nodes --------------------------------------------------------------------------
def default_namespace(namespace: Json) -> None:
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = namespace["metadata"].get("name", "")


def prepare_namespace(namespace: Json) -> None:
    spec = namespace.setdefault("spec", {})
    # The namespace controller takes it away once the namespace is empty.
    if "kubernetes" not in spec.setdefault("finalizers", []):
        spec["finalizers"].append("kubernetes")
    namespace["status"] = {"phase": "Active"}


def default_node(node: Json) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "capacity" in status:
        status.setdefault("allocatable", dict(status["capacity"]))


# -- configuration ---------------------------------------------------------------------------------
def validate_configmap(obj: Json, causes: Causes) -> None:
    total = 0
    for name in ("data", "binaryData"):
        for key, value in obj.get(name, {}).items():
            _validate_key(key, f"{name}[{key}]", causes)
            if name == "binaryData" and key in obj.get("data", {}):
                causes.invalid(f"data[{key}]", key, f"duplicate of key present in binaryData")  # noqa: F541
            total += len(value)
    if total > 1 << 20:
        causes.too_long("", 1 << 20)


def _validate_key(key: str, path: str, causes: Causes) -> None:
    import re

    if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
        causes.invalid(
            path,
            key,
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', "
            "regex used for validation is '[-._a-zA-Z0-9]+')",
        )
    if len(key) > 253:
        causes.invalid(path, key, "must be no more than 253 bytes")


def validate_immutable_data(new: Json, old: Json, causes: Causes) -> None:
    if old.get("immutable"):
        if not new.get("immutable"):
            causes.forbidden("immutable", "field is immutable when `immutable` is set")
        for name in ("data", "binaryData"):
            if new.get(name) != old.get(name):
                causes.forbidden(name, "field is immutable when `immutable` is set")
    if old.get("kind") == "Secret" and new.get("type") != old.get("type"):
        causes.invalid("type", new.get("type"), meta.IMMUTABLE)


def default_secret(secret: Json) -> None:
    secret.setdefault("type", "Opaque")


def prepare_secret(secret: Json) -> None:
    text = secret.pop("stringData", None)
    if text:
        secret.setdefault("data", {}).update(
            {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
        )


def validate_secret(secret: Json, causes: Causes) -> None:
    if "stringData" in secret:
        prepare_secret(secret)
    for key, value in secret.get("data", {}).items():
        _validate_key(key, f"data[{key}]", causes)
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            raise bad_request(
                'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0'
            ) from None


# -- events, leases, classes -----------------------------------------------------------------------
def default_event(event: Json) -> None:
    event.setdefault("involvedObject", {})
    event.setdefault("source", {})
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(name, None)
    for name in ("reportingComponent", "reportingInstance"):
        event.setdefault(name, "")


def validate_event(event: Json, causes: Causes) -> None:
    involved = event["involvedObject"].get("namespace", "")
    home = event["metadata"].get("namespace", "")
    if involved != home and not (not involved and home == "default"):
        causes.invalid("involvedObject.namespace", involved, "does not match event.namespace")


def default_priority(obj: Json) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)


def validate_priority_update(new: Json, old: Json, causes: Causes) -> None:
    if new.get("value") != old.get("value"):
        causes.forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        causes.invalid("preemptionPolicy", new.get("preemptionPolicy"), meta.IMMUTABLE)


def validate_lease(lease: Json, causes: Causes) -> None:
    spec = lease.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


def default_slice(obj: Json) -> None:
    obj.setdefault("endpoints", None)
    obj.setdefault("ports", None)
    for port in obj["ports"] or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")
