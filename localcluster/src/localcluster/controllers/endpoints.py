"""EndpointSlices and Endpoints of services with a selector: where the pods of a service are, ready ones and others.

One write when the picture changes, none otherwise. Never touches slices of services without selector, nor slices that
another manager made. Safe to run twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from localcluster.client import Client, ignoring
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import is_ready, is_terminal, matches, timestamp
from localcluster.wire import Json

SLICE_SIZE = 100
MANAGER = "endpointslice-controller.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


class EndpointsController(KeyedMachine):
    name = "endpoint-slice-controller"

    def __init__(self, client: Client, informers: Informers) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._services = informers.get("/api/v1/services")
        self._pods = informers.get("/api/v1/pods")
        self._slices = informers.get(SLICES)
        self._endpoints = informers.get("/api/v1/endpoints")
        self._slices.add_index("service", _service_of_slice)
        self._services.add_index("namespace", lambda s: [s["metadata"]["namespace"]])
        self._pods.add_index("namespace", lambda p: [p["metadata"]["namespace"]])
        self._services.subscribe(lambda old, new: self.enqueue(key_of(new or old or {})))
        self._pods.subscribe(self._pod_changed)

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        # Most writes to a pod's status change nothing that an endpoint shows.
        if old is not None and new is not None and _relevant_fields(old) == _relevant_fields(new):
            return
        for pod in (p for p in (old, new) if p is not None):
            labels = pod["metadata"].get("labels") or {}
            for service in self._services.by("namespace", pod["metadata"]["namespace"]):
                selector = service["spec"].get("selector")
                if selector and selector.items() <= labels.items():
                    self.enqueue(key_of(service))

    def reconcile(self, key: str, now: float) -> None:
        service = self._services.get(key)
        existing = [
            s
            for s in self._slices.by("service", key)
            if s["metadata"]["labels"].get("endpointslice.kubernetes.io/managed-by") == MANAGER
        ]
        if service is None or "deletionTimestamp" in service["metadata"]:
            if service is None:
                self._remove_all(key, existing)
            return
        selector = service["spec"].get("selector")
        if not selector:
            return
        pods = [
            p
            for p in self._pods.by("namespace", service["metadata"]["namespace"])
            if matches({"matchLabels": selector}, p["metadata"].get("labels"))
            and p.get("status", {}).get("podIP")
            and not is_terminal(p)
        ]
        pods.sort(key=key_of)
        self._write_slices(service, pods, existing)
        self._write_endpoints(service, pods, now)

    def _remove_all(self, key: str, slices: list[Json]) -> None:
        for each in slices:
            self._delete(_slice_path(each["metadata"]["namespace"], each["metadata"]["name"]))
        # Garbage collection would take the slices, but an Endpoints object has no owner reference.
        if self._endpoints.get(key) is not None:
            namespace, _, name = key.partition("/")
            self._delete(f"/api/v1/namespaces/{namespace}/endpoints/{name}")

    def _write_slices(self, service: Json, pods: list[Json], existing: list[Json]) -> None:
        namespace = service["metadata"]["namespace"]
        existing = sorted(existing, key=key_of)
        # A service without pods has one empty slice, the reconciler's placeholder.
        for number in range(max(1, -(-len(pods) // SLICE_SIZE))):
            chunk = pods[number * SLICE_SIZE : (number + 1) * SLICE_SIZE]
            wanted = _build_slice(service, chunk)
            # A slice is refilled and not replaced, so that watchers of large services see few changes.
            have = existing.pop(0) if existing else None
            if have is None:
                self._client.create(_slice_path(namespace), wanted)
            elif {f: have.get(f) for f in ("endpoints", "ports")} != {f: wanted.get(f) for f in ("endpoints", "ports")}:
                body = {**wanted, "metadata": {**have["metadata"], "labels": wanted["metadata"]["labels"]}}
                self._client.update(_slice_path(namespace, have["metadata"]["name"]), body)
        for surplus in existing:
            self._delete(_slice_path(namespace, surplus["metadata"]["name"]))

    def _write_endpoints(self, service: Json, pods: list[Json], now: float) -> None:
        meta = service["metadata"]
        ready: list[Json] = []
        waiting: list[Json] = []
        for pod in pods:
            # `ShouldPodBeInEndpoints`: unlike a slice, an Endpoints object cannot mark a pod as terminating.
            if "deletionTimestamp" in pod["metadata"] and not service["spec"].get("publishNotReadyAddresses"):
                continue
            address = {
                "ip": pod["status"]["podIP"],
                "nodeName": pod["spec"].get("nodeName"),
                "targetRef": _target_reference(pod),
                **({"hostname": pod["spec"]["hostname"]} if pod["spec"].get("hostname") else {}),
            }
            # publishNotReadyAddresses is for peers that must find each other before they can become ready.
            (ready if is_ready(pod) or service["spec"].get("publishNotReadyAddresses") else waiting).append(address)
        subsets: list[Json] = []
        if ready or waiting:
            subsets = [
                {
                    k: v
                    for k, v in (
                        ("addresses", ready),
                        ("notReadyAddresses", waiting),
                        ("ports", _endpoint_ports(service, pods)),
                    )
                    if v
                }
            ]
        labels = {**(meta.get("labels") or {}), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        if service["spec"].get("clusterIP") == "None":
            labels["service.kubernetes.io/headless"] = ""
        have = self._endpoints.get(key_of(service))
        path = f"/api/v1/namespaces/{meta['namespace']}/endpoints"
        body: Json = {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": meta["name"], "labels": labels},
            **({"subsets": subsets} if subsets else {}),
        }
        if have is None:
            body["metadata"]["annotations"] = {"endpoints.kubernetes.io/last-change-trigger-time": timestamp(now)}
            self._client.create(path, body)
        elif (have.get("subsets") or []) != subsets:
            self._client.update(f"{path}/{meta['name']}", {**body, "metadata": {**have["metadata"], "labels": labels}})

    def _delete(self, path: str) -> None:
        with ignoring(404):
            self._client.delete(path)


def _service_of_slice(each: Json) -> Iterable[str]:
    name = (each["metadata"].get("labels") or {}).get(SERVICE_LABEL)
    return [f"{each['metadata']['namespace']}/{name}"] if name else []


def _slice_path(namespace: str, name: str = "") -> str:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    return f"{path}/{name}" if name else path


def _relevant_fields(pod: Json) -> tuple[object, ...]:
    meta, status = pod["metadata"], pod.get("status") or {}
    return (
        status.get("podIP"),
        is_ready(pod),
        is_terminal(pod),
        "deletionTimestamp" in meta,
        meta.get("labels"),
        pod["spec"].get("nodeName"),
    )


def _target_reference(pod: Json) -> Json:
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def _build_slice(service: Json, pods: list[Json]) -> Json:
    meta, spec = service["metadata"], service["spec"]
    endpoints = []
    for pod in pods:
        terminating = "deletionTimestamp" in pod["metadata"]
        serving = is_ready(pod)
        endpoint = {
            "addresses": [pod["status"]["podIP"]],
            "nodeName": pod["spec"].get("nodeName", ""),
            "targetRef": _target_reference(pod),
            # `podToEndpoint`: a terminating pod still serves, but is not ready for new connections.
            "conditions": {
                "ready": bool(spec.get("publishNotReadyAddresses")) or (serving and not terminating),
                "serving": serving,
                "terminating": terminating,
            },
        }
        # `ShouldSetHostname`: the DNS name HOSTNAME.SERVICE belongs to pods that name the service as their subdomain.
        if pod["spec"].get("hostname") and pod["spec"].get("subdomain") == meta["name"]:
            endpoint["hostname"] = pod["spec"]["hostname"]
        endpoints.append(endpoint)
    labels = {
        **(meta.get("labels") or {}),
        SERVICE_LABEL: meta["name"],
        "endpointslice.kubernetes.io/managed-by": MANAGER,
    }
    if spec.get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": _endpoint_ports(service, pods),
        "metadata": {
            "generateName": f"{meta['name']}-",
            "namespace": meta["namespace"],
            "labels": labels,
            "ownerReferences": [owner],
        },
    }


def _endpoint_ports(service: Json, pods: list[Json]) -> list[Json]:
    ports = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _named_port(target, pods)
        if number:
            ports.append({"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")})
    return ports


def _named_port(name: str, pods: list[Json]) -> int:
    # Kubernetes makes a slice for each number that the pods give a named port. Here all pods of a service are taken
    # to give it the same.
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for port in container.get("ports") or ():
                if port.get("name") == name:
                    return int(port["containerPort"])
    return 0
