"""Node health: a node whose Lease is old becomes Ready=Unknown and tainted; NoExecute taints evict pods in their time.

Follows kubernetes v1.36 `nodelifecycle` and `tainteviction`: the age of a heartbeat is measured from when this
controller saw the Lease change, on its own clock, so a wrong clock on a node does no harm. Never force-deletes: a pod
on a lost node stays Terminating until the node is back or gone (`podgc.py`). Safe to run twice.
"""

from __future__ import annotations

from localcluster.client import Client, ignoring
from localcluster.controllers.common import delete_pod, patch_pod_status
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import condition, is_ready, is_terminal, seconds_of, timestamp, with_condition
from localcluster.recorder import Recorder
from localcluster.wire import Json

GRACE_SECONDS = 40.0
TOLERATION_SECONDS = 300
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
OWN_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


class NodeLifecycleController(KeyedMachine):
    """Keys: `node:<name>`, `evict:<namespace>/<pod>`."""

    name = "node-lifecycle-controller"

    def __init__(
        self, client: Client, informers: Informers, recorder: Recorder, *, grace_seconds: float = GRACE_SECONDS
    ) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._recorder = recorder
        self._grace_seconds = grace_seconds
        self._nodes = informers.get("/api/v1/nodes")
        self._leases = informers.get(LEASES)
        self._pods = informers.get("/api/v1/pods")
        self._pods.add_index("node", lambda pod: [pod["spec"].get("nodeName", "")])
        self._seen: dict[str, tuple[str, float]] = {}
        """Node -> (heartbeat as written, when it was seen to change)."""
        self._tainted_since: dict[str, float] = {}
        """Pod, by UID -> when a NoExecute taint of its node was first seen: `kubectl taint` writes no time."""
        self._nodes.subscribe(self._node_changed)
        self._leases.subscribe(lambda old, new: self.enqueue(f"node:{(new or old or {})['metadata']['name']}"))
        self._pods.subscribe(self._pod_changed)

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        node = new or old or {}
        name = node["metadata"]["name"]
        if new is None:
            self._seen.pop(name, None)
            self._recorder.normal(_event_target(node), "RemovingNode", f"Removing Node {name} from Controller")
            return
        if old is None:
            self._recorder.normal(
                _event_target(node), "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller"
            )
        self.enqueue(f"node:{name}")
        if _no_execute(old) != _no_execute(new):
            for pod in self._pods.by("node", name):
                if not _no_execute(new):
                    self._tainted_since.pop(pod["metadata"]["uid"], None)
                self.enqueue(f"evict:{key_of(pod)}")

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None and old is not None:
            self._tainted_since.pop(old["metadata"]["uid"], None)
        if (
            new is not None
            and (node := self._nodes.get(new["spec"].get("nodeName", ""))) is not None
            and _no_execute(node)
        ):
            self.enqueue(f"evict:{key_of(new)}")

    def reconcile(self, key: str, now: float) -> None:
        kind, _, name = key.partition(":")
        if kind == "node":
            self._check_node(name, now)
        else:
            self._check_pod(name, now)

    def _check_node(self, name: str, now: float) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        seen_seconds = self._note_heartbeat(node, now)
        ready = condition(node, "Ready")
        if now - seen_seconds > self._grace_seconds:
            node = self._mark_unknown(node, ready, now)
        else:
            self.enqueue_at(f"node:{name}", seen_seconds + self._grace_seconds + 0.001)
        node = self._set_taints(node, now)
        value = (condition(node, "Ready") or {"status": "Unknown"})["status"]
        if value != "True":
            # `MarkPodsNotReady`: services stop sending to these pods minutes before they are evicted.
            for pod in self._pods.by("node", name):
                if is_ready(pod) and not is_terminal(pod):
                    self._mark_pod_not_ready(pod, now)

    def _note_heartbeat(self, node: Json, now: float) -> float:
        name = node["metadata"]["name"]
        lease = self._leases.get(f"kube-node-lease/{name}")
        ready = condition(node, "Ready") or {}
        text = f"{(lease or {}).get('spec', {}).get('renewTime', '')}|{ready.get('lastHeartbeatTime', '')}"
        known = self._seen.get(name)
        # The age of a heartbeat is measured by this controller's clock: the node's may differ.
        if known is None or known[0] != text:
            self._seen[name] = (text, now)
            return now
        return known[1]

    def _mark_unknown(self, node: Json, ready: Json | None, now: float) -> Json:
        # `tryUpdateNodeHealth` has written it already: one transition, one event.
        if ready is not None and ready["status"] == "Unknown":
            return node
        conditions = list((node.get("status") or {}).get("conditions") or ())
        for kind in OWN_CONDITIONS:
            reason, message = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
            if condition(node, kind) is None:
                reason, message = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
            conditions = with_condition(
                conditions, {"type": kind, "status": "Unknown", "reason": reason, "message": message}, timestamp(now)
            )
        name = node["metadata"]["name"]
        changed = self._client.update(
            f"/api/v1/nodes/{name}/status", {**node, "status": {**node["status"], "conditions": conditions}}
        )
        self._recorder.normal(_event_target(node), "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        return changed

    def _set_taints(self, node: Json, now: float) -> Json:
        ready = (condition(node, "Ready") or {"status": "Unknown"})["status"]
        wanted: dict[tuple[str, str], None] = {}
        if ready != "True":
            # `processTaintBaseEviction`: False comes from a kubelet that reports, Unknown from one that is silent.
            key = NOT_READY if ready == "False" else UNREACHABLE
            wanted = {(key, "NoSchedule"): None, (key, "NoExecute"): None}
        if (node.get("spec") or {}).get("unschedulable"):
            wanted[(UNSCHEDULABLE, "NoSchedule")] = None
        have = (node.get("spec") or {}).get("taints") or []
        ours = {(t["key"], t["effect"]) for t in have if t["key"] in (NOT_READY, UNREACHABLE, UNSCHEDULABLE)}
        if ours == set(wanted):
            return node
        # Other taints belong to the user or to another controller.
        kept = [t for t in have if (t["key"], t["effect"]) not in ours - set(wanted)]
        for key, effect in wanted:
            if (key, effect) not in ours:
                added = (
                    {"timeAdded": timestamp(now)} if effect == "NoExecute" or key in (NOT_READY, UNREACHABLE) else {}
                )
                kept.append({"key": key, "effect": effect, **added})
        meta = node["metadata"]
        return self._client.patch(
            f"/api/v1/nodes/{meta['name']}",
            {
                "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
                "spec": {"taints": kept or None},
            },
        )

    def _mark_pod_not_ready(self, pod: Json, now: float) -> None:
        ready = {**(condition(pod, "Ready") or {}), "status": "False"}
        conditions = with_condition(pod["status"]["conditions"], ready, timestamp(now))
        with ignoring(404):
            patch_pod_status(self._client, pod, {"conditions": conditions})
        self._recorder.warning(pod, "NodeNotReady", "Node is not ready")

    def _check_pod(self, key: str, now: float) -> None:
        pod = self._pods.get(key)
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        node = self._nodes.get(pod["spec"].get("nodeName", ""))
        if node is None or not _no_execute(node):
            return
        due = eviction_due(pod, _no_execute(node), self._tainted_since.setdefault(pod["metadata"]["uid"], now))
        if due is None:
            return
        if due > now:
            self.enqueue_at(f"evict:{key}", due)
            return
        self._evict_pod(pod, now)

    def _evict_pod(self, pod: Json, now: float) -> None:
        meta = pod["metadata"]
        self._recorder.normal(
            pod, "TaintManagerEviction", f"Marking for deletion Pod {meta['namespace']}/{meta['name']}"
        )
        # `addConditionAndDeletePod`: the condition goes first, since a deleted pod may be gone at once.
        if not is_terminal(pod):
            disrupted = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
            }
            conditions = with_condition((pod.get("status") or {}).get("conditions") or (), disrupted, timestamp(now))
            patch_pod_status(self._client, pod, {"conditions": conditions})
        with ignoring(404, 409):
            delete_pod(self._client, pod)


def eviction_due(pod: Json, taints: list[Json], seen: float) -> float | None:
    """When the NoExecute taints evict the pod: None for never. Not-ready and unreachable are tolerated for 300 s by a
    pod that says nothing of them (which the admission plug-in DefaultTolerationSeconds writes into the pods of most
    clusters)."""
    dues = []
    for taint in taints:
        since = seconds_of(taint["timeAdded"]) if taint.get("timeAdded") else seen
        tolerations = [t for t in pod["spec"].get("tolerations") or () if tolerates(t, taint)]
        if tolerations:
            limits = [t["tolerationSeconds"] for t in tolerations if t.get("tolerationSeconds") is not None]
            if limits:
                # `getMinTolerationTime`: the shortest toleration counts, and a negative one means at once.
                dues.append(since + max(0, min(limits)))
        elif taint["key"] in (NOT_READY, UNREACHABLE):
            dues.append(since + TOLERATION_SECONDS)
        else:
            dues.append(seen)
    return min(dues, default=None)


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _no_execute(node: Json | None) -> list[Json]:
    return [t for t in ((node or {}).get("spec") or {}).get("taints") or () if t["effect"] == "NoExecute"]


def _event_target(node: Json) -> Json:
    meta = node["metadata"]
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": meta["name"], "uid": meta["uid"]}}
