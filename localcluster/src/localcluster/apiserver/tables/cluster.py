"""Rows of nodes, namespaces, services and endpoints, events, leases and classes. Pure."""

from __future__ import annotations

from typing import Any

from localcluster.apiserver.tables.base import NONE, Printer, Row, age_of, labels_text, make_columns
from localcluster.apiserver.tables.durations import age_since
from localcluster.wire import Json

_SHOWN = 3


def _list_few(texts: list[str]) -> str:
    """The first three, and how many more."""
    if not texts:
        return NONE
    if len(texts) <= _SHOWN:
        return ",".join(texts)
    return f"{','.join(texts[:_SHOWN])} + {len(texts) - _SHOWN} more..."


def _service_row(obj: Json, now: float) -> tuple[Row, Any]:
    spec = obj.get("spec", {})
    ports = [
        f"{p['port']}:{p['nodePort']}/{p['protocol']}" if p.get("nodePort") else f"{p['port']}/{p['protocol']}"
        for p in spec.get("ports", ())
    ]
    addresses = spec.get("clusterIPs") or [NONE]
    return [
        obj["metadata"]["name"],
        spec.get("type", ""),
        addresses[0],
        _external_addresses(obj),
        ",".join(ports) or NONE,
        age_of(obj, now),
        labels_text(spec.get("selector")),
    ], None


def _external_addresses(obj: Json) -> str:
    spec = obj.get("spec", {})
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    return ",".join(spec.get("externalIPs", ())) or ("<pending>" if spec.get("type") == "LoadBalancer" else NONE)


def _endpoints_row(obj: Json, now: float) -> tuple[Row, Any]:
    texts: list[str] = []
    for subset in obj.get("subsets") or ():
        hosts = [address["ip"] for address in subset.get("addresses", ())]
        texts += (
            [f"{host}:{port['port']}" for port in subset["ports"] for host in hosts] if subset.get("ports") else hosts
        )
    return [obj["metadata"]["name"], _list_few(texts), age_of(obj, now)], None


def _unset_few(texts: list[str]) -> str:
    return _list_few(texts) if texts else "<unset>"


def _slice_row(obj: Json, now: float) -> tuple[Row, Any]:
    ports = [str(port.get("port", port.get("name") or "*")) for port in obj.get("ports") or ()]
    hosts = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses", ())]
    return [
        obj["metadata"]["name"],
        obj.get("addressType", ""),
        _unset_few(ports),
        _unset_few(hosts),
        age_of(obj, now),
    ], None


def _node_address(node: Json, kind: str) -> str:
    return next((a["address"] for a in node.get("status", {}).get("addresses") or () if a.get("type") == kind), NONE)


def _node_row(obj: Json, now: float) -> tuple[Row, Any]:
    status = obj.get("status", {})
    info = status.get("nodeInfo", {})
    ready = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        obj["metadata"]["name"],
        ",".join(words),
        _node_roles(obj),
        age_of(obj, now),
        info.get("kubeletVersion", ""),
        _node_address(obj, "InternalIP"),
        _node_address(obj, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ], None


def _node_roles(node: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    found = set()
    for key, value in node["metadata"].get("labels", {}).items():
        if key.startswith(prefix) and key != prefix:
            found.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role" and value:
            found.add(value)
    return ",".join(sorted(found)) or NONE


def _namespace_row(obj: Json, now: float) -> tuple[Row, Any]:
    return [obj["metadata"]["name"], obj.get("status", {}).get("phase", ""), age_of(obj, now)], None


def _event_row(obj: Json, now: float) -> tuple[Row, Any]:
    first = age_since(obj.get("firstTimestamp") or obj.get("eventTime"), now)
    last = age_since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else first
    count = obj.get("count") or 1
    if obj.get("series"):
        last, count = age_since(obj["series"].get("lastObservedTime"), now), obj["series"].get("count", 0)
    involved, source = obj.get("involvedObject", {}), obj.get("source") or {}
    target = involved.get("kind", "").lower() + (f"/{involved['name']}" if involved.get("name") else "")
    component = source.get("component") or obj.get("reportingComponent", "")
    host = source.get("host") or obj.get("reportingInstance", "")
    return [
        last,
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        obj.get("message", "").strip(),
        first,
        count,
        obj["metadata"]["name"],
    ], None


def _lease_row(obj: Json, now: float) -> tuple[Row, Any]:
    return [obj["metadata"]["name"], (obj.get("spec") or {}).get("holderIdentity", ""), age_of(obj, now)], None


def _priority_class(obj: Json, now: float) -> tuple[Row, Any]:
    return [
        obj["metadata"]["name"],
        obj.get("value", 0),
        obj.get("globalDefault", False),
        age_of(obj, now),
        obj.get("preemptionPolicy", ""),
    ], None


def _pod_group(obj: Json, now: float) -> tuple[Row, Any]:
    policy = "Gang" if ((obj.get("spec") or {}).get("schedulingPolicy") or {}).get("gang") else "Basic"
    conditions = {c["type"]: c for c in (obj.get("status") or {}).get("conditions") or ()}
    status = "Pending"
    if scheduled := conditions.get("PodGroupScheduled"):
        status = "Scheduled" if scheduled["status"] == "True" else "Unschedulable"
    if disrupted := conditions.get("DisruptionTarget"):
        status = disrupted["reason"]
    return [obj["metadata"]["name"], policy, NONE, status, age_of(obj, now)], None


SERVICE = Printer(
    make_columns("Name:name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector+"), _service_row
)
ENDPOINTS = Printer(make_columns("Name:name", "Endpoints", "Age"), _endpoints_row)
ENDPOINT_SLICE = Printer(make_columns("Name:name", "AddressType", "Ports", "Endpoints", "Age"), _slice_row)
NODE = Printer(
    make_columns(
        *("Name:name", "Status", "Roles", "Age", "Version", "Internal-IP+", "External-IP+", "OS-Image+"),
        *("Kernel-Version+", "Container-Runtime+"),
    ),
    _node_row,
)
NAMESPACE = Printer(make_columns("Name:name", "Status", "Age"), _namespace_row)
EVENT = Printer(
    make_columns(
        *("Last Seen", "Type", "Reason", "Object", "Subobject+", "Source+", "Message", "First Seen+", "Count+"),
        "Name+:name",
    ),
    _event_row,
)
LEASE = Printer(make_columns("Name:name", "Holder", "Age"), _lease_row)
PRIORITY_CLASS = Printer(
    make_columns("Name:name", "Value#", "Global-Default?", "Age", "PreemptionPolicy"), _priority_class
)
POD_GROUP = Printer(make_columns("Name:name", "Policy", "Workload", "Status", "Age"), _pod_group)
