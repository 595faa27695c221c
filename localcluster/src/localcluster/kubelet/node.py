"""What every kubelet does: register its Nodes, renew their Leases, and fail on request.

A Node fails by the annotation `localcluster/fail` on it, or by `fail`/`recover` in process; removing the annotation
mends it. What that does to pods is in `troubles`:

| annotation | the node |
|---|---|
| NotReady | falls silent: no heartbeats, no work on its pods |
| gone | the same, and the Node object is deleted, as when a machine is taken away |
| Flapping | is not Ready, and Ready again, at every other heartbeat; it works on pods while it is Ready |
| NodeShutdown | shuts down in order: not Ready, its pods end, new ones are turned away |
| DevicePlugin | has no GPU to give (`allocatable` is 0) while its device plugin restarts; what runs goes on |
| Reject=REASON | turns new pods away: UnexpectedAdmissionError, TopologyAffinityError, OutOfcpu ... |
| SilentLogs | accepts requests for logs and never answers |
| ClockSkew=-1.5 | writes times of a clock that is so many seconds ahead |

Subclasses give `reconcile_pod`. Safe to run twice; a kubelet that restarts finds its Nodes and goes on.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from localcluster.client import ApiError, Client, ignoring
from localcluster.controllers.common import delete_pod, pods_path
from localcluster.informer import Informers, key_of
from localcluster.kubelet import troubles
from localcluster.kubelet.admission import Room
from localcluster.kubelet.troubles import Ending
from localcluster.machine import KeyedMachine
from localcluster.objects import is_ready, micro_timestamp, timestamp, with_condition
from localcluster.recorder import Recorder
from localcluster.wire import Json, Response, Watch

log = logging.getLogger("localcluster")

LogSource = Callable[[str, str, str, Mapping[str, str]], Response | Watch]
FAIL_ANNOTATION = "localcluster/fail"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION_SECONDS = 40
RENEW_SECONDS = 10.0
KUBELET_VERSION = "v1.36.3"


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One Node that a kubelet plays. Quantities as Kubernetes writes them."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    max_pods: int = 110
    address: str = "127.0.0.1"
    kubelet_port: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    runtime: str = "fake://1.0"

    def capacity(self) -> dict[str, str]:
        resources = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.max_pods), "ephemeral-storage": "100Gi"}
        if self.gpus:
            resources[self.gpu_resource] = str(self.gpus)
        return resources


class Kubelet(KeyedMachine):
    """Keys: `node:<name>` and `pod:<namespace>/<name>`."""

    name = "kubelet"

    def __init__(
        self,
        client: Client,
        informers: Informers,
        clock: Callable[[], float],
        nodes: Sequence[NodeConfig],
        *,
        renew_seconds: float = RENEW_SECONDS,
    ) -> None:
        super().__init__(informers.pump)
        self.client = client
        self.clock = clock
        self.configs: dict[str, NodeConfig] = {}
        self.recorders: dict[str, Recorder] = {}
        self._renew_seconds = renew_seconds
        self._failing: dict[str, tuple[str, str]] = {}
        """Node -> (a word of `troubles`, its value)."""
        self._beats: dict[str, int] = {}
        self._rooms: dict[str, Room] = {}
        self._taken_away: set[str] = set()
        self._lease_due: dict[str, float] = {}
        self.nodes = informers.get("/api/v1/nodes")
        self.pods = informers.get("/api/v1/pods")
        self.pods.add_index("node", lambda pod: [pod["spec"].get("nodeName", "")])
        self.nodes.subscribe(self._node_changed)
        self.pods.subscribe(self._pod_changed)
        self.add_nodes(nodes)

    def add_nodes(self, nodes: Sequence[NodeConfig]) -> None:
        for node in nodes:
            self.configs[node.name] = node
            self._rooms[node.name] = Room(node.name)
            self.recorders[node.name] = Recorder(self.client, self.clock, "kubelet", node.name)
            self.enqueue(f"node:{node.name}")
            for pod in self.pods.by("node", node.name):
                self._rooms[node.name].see(pod)
                self.enqueue(f"pod:{key_of(pod)}")

    # --- failing ---------------------------------------------------------------------------------------------------

    def fail(self, name: str, how: str = troubles.NOT_READY) -> None:
        kind, _, value = how.partition("=")
        if kind not in troubles.KNOWN:
            log.warning("node %s: %s=%s is none of %s", name, FAIL_ANNOTATION, how, ", ".join(troubles.KNOWN))
            return
        self._failing[name] = kind, value
        self._look_again(name)

    def recover(self, name: str) -> None:
        self._failing.pop(name, None)
        self._taken_away.discard(name)
        self._look_again(name)

    def _look_again(self, name: str) -> None:
        self.enqueue(f"node:{name}")
        for pod in self.pods.by("node", name):
            self.enqueue(f"pod:{key_of(pod)}")

    def trouble(self, name: str) -> tuple[str, str]:
        return self._failing.get(name, ("", ""))

    def alive(self, name: str) -> bool:
        """It sends heartbeats."""
        return name in self.configs and self.trouble(name)[0] not in troubles.SILENT and name not in self._taken_away

    def _is_flapped_down(self, name: str) -> bool:
        return self.trouble(name)[0] == troubles.FLAPPING and self._beats.get(name, 0) % 2 == 0

    def _skew_seconds(self, name: str) -> float:
        kind, value = self.trouble(name)
        return float(value) if kind == troubles.CLOCK_SKEW else 0.0

    def logs(self, source: LogSource) -> LogSource:
        """`source`, but nothing ever comes from a node that is silent about logs."""

        def answer(namespace: str, pod: str, container: str, query: Mapping[str, str]) -> Response | Watch:
            found = self.pods.get(f"{namespace}/{pod}")
            node = found["spec"].get("nodeName", "") if found is not None else ""
            silent = self.trouble(node)[0] == troubles.SILENT_LOGS
            return Watch("text/plain") if silent else source(namespace, pod, container, query)

        return answer

    # --- events ----------------------------------------------------------------------------------------------------

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if name not in self.configs:
            return
        failure = _fail_annotation(new)
        if failure != _fail_annotation(old):
            if failure:
                self.fail(name, failure)
            elif new is not None:
                self.recover(name)
        self.enqueue(f"node:{name}")

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new or old or {}
        room = self._rooms.get(pod["spec"].get("nodeName", ""))
        if room is not None:
            # Before the pod is looked at: admission must count what the API server shows by now.
            room.leave(pod) if new is None else room.see(pod)
            self.enqueue(f"pod:{key_of(pod)}")

    # --- work ------------------------------------------------------------------------------------------------------

    def reconcile(self, key: str, now: float) -> None:
        kind, _, name = key.partition(":")
        if kind == "node":
            self._reconcile_node(name, now)
            return
        pod = self.pods.get(name)
        node = pod["spec"].get("nodeName", "") if pod is not None else ""
        # A silent node does not act. A pod that is gone from the API is different: its processes must end.
        if pod is not None and (not self.alive(node) or self._is_flapped_down(node)):
            return
        self.reconcile_pod(name, pod, now)

    def reconcile_pod(self, key: str, pod: Json | None, now: float) -> None:
        """Brings the pod nearer to what it shall be; `pod` is None when it is gone from the API."""
        raise NotImplementedError

    def take_away(self, name: str) -> None:
        """The machine of this node is gone: subclasses end what runs on it."""

    def _reconcile_node(self, name: str, now: float) -> None:
        if self.trouble(name)[0] == troubles.GONE and name not in self._taken_away:
            self._taken_away.add(name)
            self.take_away(name)
            self._delete_node(name)
        if not self.alive(name):
            return
        node = self.nodes.get(name)
        if node is None:
            # Unlike here, a real kubelet registers its node only when it starts, and not after `kubectl delete node`.
            node = self._register_node(name, now)
        beats = now >= self._lease_due.get(name, 0.0)
        self._beats[name] = self._beats.get(name, 0) + beats
        status = self._build_status(self.configs[name], node.get("status") or {}, now)
        # The Lease is the heartbeat, so that a status that differs only in its times needs no write.
        if _comparable_part(status) != _comparable_part(node["status"]):
            node = self._write_status(name, node, status)
            self._look_again(name)  # a flapping node's pods wait for it
        if beats:
            self._renew_lease(name, node, now)
            self._lease_due[name] = now + self._renew_seconds
        self.enqueue_at(f"node:{name}", self._lease_due[name])

    def _delete_node(self, name: str) -> None:
        with ignoring(404):
            self.client.delete(f"/api/v1/nodes/{name}")

    def _register_node(self, name: str, now: float) -> Json:
        config = self.configs[name]
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _architecture(),
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": _architecture(),
            **config.labels,
        }
        if config.gpus:
            labels.setdefault("accelerator", "gpu")
        body: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": self._build_status(config, {}, now),
        }
        try:
            return self.client.create("/api/v1/nodes", body)
        except ApiError as error:
            # The node exists already when a kubelet restarts.
            if error.code != 409:
                raise
            return self.client.get(f"/api/v1/nodes/{name}")

    def _ready_condition(self, name: str) -> tuple[str, str, str]:
        """kubelet/nodestatus/setters.go, `ReadyCondition`."""
        if self.trouble(name)[0] == troubles.SHUTDOWN:
            return "False", "KubeletNotReady", "node is shutting down"
        if self._is_flapped_down(name):
            why = "PLEG is not healthy: pleg was last seen active 3m0.5s ago; threshold is 3m0s"
            return "False", "KubeletNotReady", why
        return "True", "KubeletReady", "kubelet is posting ready status"

    def _build_status(self, config: NodeConfig, old: Json, now: float) -> Json:
        when = timestamp(now + self._skew_seconds(config.name))
        allocatable = config.capacity()
        if config.gpus and self.trouble(config.name)[0] == troubles.DEVICE_PLUGIN:
            allocatable[config.gpu_resource] = "0"  # cm/devicemanager/manager.go, `GetCapacity`
        conditions: list[Json] = list(old.get("conditions") or ())
        for kind, value, reason, message in (
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ("Ready", *self._ready_condition(config.name)),
        ):
            conditions = with_condition(
                conditions,
                {"type": kind, "status": value, "reason": reason, "message": message, "lastHeartbeatTime": when},
                when,
            )
        status: Json = {
            **old,
            "capacity": config.capacity(),
            "allocatable": allocatable,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": config.address},
                {"type": "Hostname", "address": config.name},
            ],
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": platform.release(),
                "osImage": "localcluster",
                "containerRuntimeVersion": config.runtime,
                "kubeletVersion": KUBELET_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": _architecture(),
            },
        }
        if config.kubelet_port:
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": config.kubelet_port}}
        return status

    def _write_status(self, name: str, node: Json, status: Json) -> Json:
        changed = self.client.update(f"/api/v1/nodes/{name}/status", {**node, "status": status})
        target = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "uid": node["metadata"]["uid"]}}
        what = "NodeReady" if is_ready(changed) else "NodeNotReady"
        if is_ready(changed) != is_ready(node):
            self.recorders[name].normal(target, what, f"Node {name} status is now: {what}")
        return changed

    def _renew_lease(self, name: str, node: Json, now: float) -> None:
        base = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_DURATION_SECONDS,
            "renewTime": micro_timestamp(now + self._skew_seconds(name)),
        }
        with ignoring(404):
            self.client.patch(f"{base}/{name}", {"spec": spec})
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        body: Json = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "spec": spec,
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        }
        try:
            self.client.create(base, body)
        except ApiError as error:
            # kube-apiserver makes this namespace soon after its start; a kubelet may come first.
            if error.code != 404:
                raise
            self.client.create(
                "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
            )
            self.client.create(base, body)

    # --- what subclasses write -------------------------------------------------------------------------------------

    def write_pod_status(self, pod: Json, status: Json) -> bool:
        """Writes the status if it differs; returns whether it did. Raises ApiError with 409 when the pod has changed in
        between: the machine looks again."""
        if skew := self._skew_seconds(pod["spec"]["nodeName"]):
            status = troubles.skew_times(status, pod.get("status"), skew)
        if status == pod.get("status"):
            return False
        meta = pod["metadata"]
        path = pods_path(meta["namespace"], meta["name"], "status")
        with ignoring(404):
            self.client.update(path, {**pod, "status": status})
        return True

    def turned_away(self, pod: Json, now: float) -> bool:
        """Refuses a pod that the node has no place for, and writes why into its status; returns whether it did."""
        # The kubelet admits a pod once; a restarted one must not turn away what runs.
        name = pod["spec"]["nodeName"]
        # A pod that was admitted keeps its place, even if the node has less room since.
        if (pod.get("status") or {}).get("startTime"):
            return False
        config, node = self.configs[name], self.nodes.get(name)
        found = troubles.find_refusal(self.trouble(name), pod, config.capacity(), config.gpu_resource)
        if found is None and node is not None:
            found = self._rooms[name].refusal(pod, node)
        if found is None:
            # Counted now: the next pod may come before the API server shows that this one has started.
            self._rooms[name].admit(pod)
            return False
        self.recorders[name].warning(pod, *found)
        self.write_pod_status(pod, troubles.rejected_status(pod, found, now))
        return True

    def ending(self, pod: Json) -> Ending | None:
        """Why the kubelet itself ends the pod."""
        if self.trouble(pod["spec"]["nodeName"])[0] == troubles.SHUTDOWN:
            return troubles.SHUTTING_DOWN
        return troubles.find_eviction(pod)

    def confirm_deletion(self, pod: Json) -> None:
        """The last word of a kubelet: nothing of the pod is left on the node."""
        with ignoring(404, 409):
            delete_pod(self.client, pod, gracePeriodSeconds=0)


def _fail_annotation(node: Json | None) -> str:
    return str(((node or {}).get("metadata") or {}).get("annotations", {}).get(FAIL_ANNOTATION) or "")


def _comparable_part(status: Json) -> Json:
    """The conditions and resources in a Node's status, without the times."""
    said = {c["type"]: (c["status"], c.get("reason")) for c in status.get("conditions") or ()}
    return {"said": said, "capacity": status.get("capacity"), "allocatable": status.get("allocatable")}


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
