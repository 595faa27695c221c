"""What a new object needs from the rest of the cluster: a service its address, a pod its priority; and the objects that
every cluster has from its first moment. Reads the store; writes only through the Writer."""

from __future__ import annotations

import ipaddress
import random

from localcluster.apiserver.errors import forbidden, invalid
from localcluster.apiserver.options import WriteOptions
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.writing import Writer
from localcluster.resources import Resource
from localcluster.schema import FieldCause
from localcluster.storage import Store
from localcluster.wire import Json

SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
_NODE_PORTS = range(30000, 32768)
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_CLASSES = "scheduling.k8s.io/priorityclasses"
_STORAGE_CLASSES, _IS_DEFAULT = "storage.k8s.io/storageclasses", "storageclass.kubernetes.io/is-default-class"


class Admission:
    def __init__(self, store: Store, rng: random.Random) -> None:
        self._store = store
        self._rng = rng

    def admit(self, resource: Resource, obj: Json) -> None:
        """Change `obj`, which is about to be created, in place. Raises 403 and 422."""
        if resource.bucket == "services":
            self._assign_addresses(resource, obj)
        elif resource.bucket == "pods":
            self._assign_priority(resource, obj)
        elif resource.bucket == "persistentvolumeclaims":
            self._assign_class(obj["spec"])
        elif resource.bucket == "nodes":
            taints = obj["spec"].setdefault("taints", [])
            # Nothing is scheduled to a new node before the node lifecycle controller has seen it Ready.
            if not any(
                taint.get("key") == _NOT_READY["key"] and taint.get("effect") == _NOT_READY["effect"]
                for taint in taints
            ):
                taints.append(dict(_NOT_READY))

    def _assign_addresses(self, resource: Resource, service: Json) -> None:
        spec = service["spec"]
        # An ExternalName service is a DNS alias and has no address.
        if spec.get("type") == "ExternalName":
            return
        taken = {ip for _, item in self._store.items("services") for ip in item.obj["spec"].get("clusterIPs", ())}
        address = spec.get("clusterIP")
        if not address:
            while not address or address in taken:
                # `calculateRangeOffset`: the first 256 addresses of a large range are left to users who choose one.
                address = str(SERVICE_NETWORK[self._rng.randrange(256, SERVICE_NETWORK.num_addresses - 1)])
        elif address != "None" and address in taken:
            raise invalid(
                resource,
                service["metadata"].get("name", ""),
                [
                    FieldCause(
                        "FieldValueInvalid",
                        f'Invalid value: ["{address}"]: failed to allocate IP {address}: provided IP is already'
                        " allocated",
                        "spec.clusterIPs",
                    )
                ],
            )
        spec["clusterIP"] = address
        spec["clusterIPs"] = [address]
        if spec.get("type") in ("NodePort", "LoadBalancer"):
            used = {
                port.get("nodePort")
                for _, item in self._store.items("services")
                for port in item.obj["spec"].get("ports", ())
            }
            for port in spec.get("ports", ()):
                if not port.get("nodePort"):
                    port["nodePort"] = next(
                        n for n in iter(lambda: self._rng.choice(_NODE_PORTS), None) if n not in used
                    )
                used.add(port["nodePort"])

    def _assign_class(self, claim: Json) -> None:
        """The newest of the default classes, where the claim names none ("" is a name)."""
        marked = [
            item.obj["metadata"]
            for _, item in self._store.items(_STORAGE_CLASSES)
            if (item.obj["metadata"].get("annotations") or {}).get(_IS_DEFAULT) == "true"
        ]
        # `GetDefaultClass`: the newest default wins, so that an administrator can replace one before removing the old.
        if marked and "storageClassName" not in claim:
            claim["storageClassName"] = max(marked, key=lambda found: found["creationTimestamp"])["name"]

    def _assign_priority(self, resource: Resource, pod: Json) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName")
        if name:
            found = self._store.get(_CLASSES, ("", name))
            if found is None:
                raise forbidden(resource, _asked_name(pod), f"no PriorityClass with name {name} was found")
            chosen: Json | None = found.obj
        else:
            # `getDefaultPriorityClass` takes the lowest, should there be several.
            defaults = [item.obj for _, item in self._store.items(_CLASSES) if item.obj.get("globalDefault")]
            chosen = min(defaults, key=lambda found: found["value"], default=None)
        computed = chosen.get("value", 0) if chosen is not None else 0
        # A user who could choose the number could preempt without a PriorityClass.
        if spec.get("priority", computed) != computed:
            raise forbidden(
                resource,
                _asked_name(pod),
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority"
                f" admission controller computed {computed} from the given PriorityClass name",
            )
        spec["priority"] = computed
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
            spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")


def _asked_name(obj: Json) -> str:
    """Admission comes before a name is generated: what it refuses bears the name that was asked for."""
    metadata = obj["metadata"]
    base, name = str(metadata.get("generateName", "")), str(metadata.get("name", ""))
    return base if base and name.startswith(base) and len(name) == len(base) + 5 else name


def first_objects(store: Store, writer: Writer, registry: Registry) -> None:
    """Create what is missing of them; a restarted cluster has them all."""
    options = WriteOptions(manager="kube-apiserver")
    for group, plural, namespace, body in _FIRST:
        resource = registry.find(group, "v1", plural)
        assert resource is not None  # noqa: S101  rows of the built-in table
        if store.get(resource.bucket, (namespace, body["metadata"]["name"])) is None:
            fresh = {
                **body,
                "kind": resource.kind,
                "apiVersion": resource.api_version,
                "metadata": dict(body["metadata"]),
            }
            writer.create(resource, namespace, fresh, options)


_FIRST: list[tuple[str, str, str, Json]] = [
    *(
        ("", "namespaces", "", {"metadata": {"name": name}})
        for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "",
        {
            "metadata": {"name": "system-cluster-critical"},
            "value": 2_000_000_000,
            "description": (
                "Used for system critical pods that must run in the cluster, but can be moved to another node if"
                " necessary."
            ),
        },
    ),
    (
        "scheduling.k8s.io",
        "priorityclasses",
        "",
        {
            "metadata": {"name": "system-node-critical"},
            "value": 2_000_001_000,
            "description": "Used for system critical pods that must not be moved from their current node.",
        },
    ),
    (
        "",
        "services",
        "default",
        {
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            },
        },
    ),
]
