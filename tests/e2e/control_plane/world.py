"""The real world of a scenario: a namespace of its own on the real control plane, the operator's real processes, real
seconds."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from localcluster.kubelet.node import FAIL_ANNOTATION
from tests.e2e.control_plane.api import RefusedError, open_transport, send
from tests.e2e.control_plane.operator import Operator
from tests.scenarios.driver import HOLD, Json
from tests.scenarios.world import play
from tests.support.kinds import collection_of
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.api.kinds import KINDS
from tjworker.api.resources import POD_GROUPS, PODS
from tjworker.base import GroupResource
from tjworker.kube import rbac
from tjworker.kube.resources import RESOURCES

_KINDS = {job_kind.kind: job_kind.api_versions[0] for job_kind in KINDS.values()}
_LOOK_SECONDS = 0.2
_QUIET_SECONDS = 2.0
_QUIET_WITHIN_SECONDS = 120.0
_numbers = itertools.count(1)


class RealWorld:
    """`with` it: the namespace is made, and deleted again (without waiting for it)."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.namespace = f"scenario-{os.getpid()}-{next(_numbers)}"
        self._transport = open_transport(operator.plane.kubeconfig)
        self._core = f"/api/v1/namespaces/{self.namespace}"
        self._kinds: dict[str, str] = {}

    def __enter__(self) -> RealWorld:
        self.operator.lives += 1
        self._send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # One that an earlier world has failed may not be back yet.
        self.until("the nodes take pods", lambda: len(self._nodes_that_take_pods()) >= self.operator.nodes)
        return self

    def __exit__(self, *_: object) -> None:
        self._send("DELETE", self._core)
        self._transport.close()

    # -- the user's hands --------------------------------------------------------------------------
    def apply(self, manifest: Json) -> object:
        self._kinds[manifest["metadata"]["name"]] = manifest["kind"]
        return self._send("POST", collection_of(manifest, self.namespace), manifest)

    def patch_job(self, name: str, patch: Json) -> object:
        return self._send("PATCH", self._job(name), patch)

    def scale(self, name: str, replicas: int) -> object:
        return self._send("PATCH", f"{self._job(name)}/scale", {"spec": {"replicas": replicas}})

    def delete(self, name: str) -> object:
        return self._send("DELETE", self._job(name), {"propagationPolicy": "Background"})

    def delete_pod(self, name: str) -> object:
        return self._send("DELETE", f"{self._core}/pods/{name}")

    def end_pod(self, name: str, exit_code: int = 0) -> object:
        return self._send("PATCH", f"{self._core}/pods/{name}", {"metadata": {"annotations": play(exit=exit_code)}})

    def delete_pod_group(self, name: str) -> object:
        return self._send("DELETE", RESOURCES[POD_GROUPS].path(self.namespace, name))

    def hold_pod(self, name: str, *, held: bool = True) -> object:
        finalizers = HOLD if held else None
        return self._send("PATCH", f"{self._core}/pods/{name}", {"metadata": {"finalizers": finalizers}})

    def create_pod(self, manifest: Json) -> object:
        return self.create(PODS, manifest)

    def create(self, resource: GroupResource, manifest: Json) -> Json:
        return self._send("POST", RESOURCES[resource].path(self.namespace), manifest)

    def release(self, resource: GroupResource, name: str) -> object:
        path = RESOURCES[resource].path(self.namespace, name)
        return self._send("PATCH", path, {"metadata": {"finalizers": None}})

    def token(self, pod: str, audience: str) -> str:
        """As a kubelet asks for it: bound to this pod, of the account `default`."""
        bound = {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": self.pods()[pod]["metadata"]["uid"]}
        spec = {"audiences": [audience], "expirationSeconds": 600, "boundObjectRef": bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self._send("POST", f"{self._core}/serviceaccounts/default/token", body)["status"]["token"])

    def fail_node(self, name: str, how: str = "NotReady") -> object:
        return self._send("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"annotations": {FAIL_ANNOTATION: how}}})

    def taint_node(self, name: str, key: str) -> object:
        taints = [{"key": key, "effect": "NoExecute"}] if key else []
        return self._send("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})

    def recover_node(self, name: str) -> object:
        return self._send("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"annotations": {FAIL_ANNOTATION: None}}})

    # -- the administrator's -----------------------------------------------------------------------
    def label_namespace(self, **labels: str) -> object:
        return self._send("PATCH", self._core, {"metadata": {"labels": labels}})

    def set_quota(self, name: str, **hard: str) -> object:
        """Made, or changed."""
        path, body = f"{self._core}/resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard}}
        try:
            return self._send("POST", path, body)
        except RefusedError as error:
            if error.status != 409:
                raise
            return self._send("PATCH", f"{path}/{name}", body)

    # -- time --------------------------------------------------------------------------------------
    def until(self, what: str, condition: Callable[[], bool], *, within_seconds: float = PATIENCE_SECONDS) -> None:
        # A scenario's own limit is a promise in virtual time. Here it would measure the machine.
        within_seconds = max(within_seconds, PATIENCE_SECONDS)
        deadline = time.monotonic() + within_seconds
        while not condition():
            if time.monotonic() > deadline:
                self.operator.check()
                raise AssertionError(f"not within {within_seconds:.0f} s: {what}\n{self._picture()}")
            time.sleep(_LOOK_SECONDS)

    def now(self) -> float:
        return time.time()

    def late_seconds(self) -> float:
        return 30.0

    def stays(self, what: str, condition: Callable[[], bool], *, for_seconds: float) -> None:
        deadline = time.monotonic() + for_seconds
        while time.monotonic() < deadline:
            assert condition(), f"no longer: {what}\n{self._picture()}"
            time.sleep(_LOOK_SECONDS)

    def quiet(self) -> None:
        """No request about this namespace for some seconds."""
        last, since = self.requests(), time.monotonic()
        deadline = since + _QUIET_WITHIN_SECONDS
        while time.monotonic() - since < _QUIET_SECONDS:
            assert time.monotonic() < deadline, f"the operator does not come to rest\n{self._picture()}"
            time.sleep(_LOOK_SECONDS)
            if (now := self.requests()) != last:
                last, since = now, time.monotonic()

    # -- what there is -----------------------------------------------------------------------------
    def status(self, name: str = "digits") -> Json:
        found: Json = self._send("GET", self._job(name)).get("status") or {}
        return found

    def phase(self, name: str = "digits") -> str:
        return str(self.status(name).get("phase", ""))

    def condition(self, type_: str, name: str = "digits") -> Json:
        return next((c for c in self.status(name).get("conditions", ()) if c["type"] == type_), {})

    def jobs(self) -> list[str]:
        return sorted(j["metadata"]["name"] for kind in _KINDS for j in self._items(self._all(kind)))

    def owner_references(self) -> list[Json]:
        """To its jobs, as far as an API server wants them."""
        made = [(api_version, kind, j) for kind, api_version in _KINDS.items() for j in self._items(self._all(kind))]
        return [
            {"apiVersion": api_version, "kind": kind, "name": j["metadata"]["name"], "uid": j["metadata"]["uid"]}
            for api_version, kind, j in made
        ]

    def pods(self) -> dict[str, Json]:
        return {p["metadata"]["name"]: p for p in self._items(f"{self._core}/pods")}

    @property
    def is_alone(self) -> bool:
        """No pod of another world is left in the cluster."""
        others = {p["metadata"]["namespace"] for p in self._items("/api/v1/pods")} - {self.namespace}
        return not any(namespace.startswith("scenario-") for namespace in others)

    def uids(self) -> dict[str, str]:
        return {n: p["metadata"]["uid"] for n, p in self.pods().items()}

    def owners(self, resource: GroupResource) -> dict[str, Json]:
        return {o["metadata"]["name"]: o for o in self._items(RESOURCES[resource].path(self.namespace))}

    def services(self) -> list[str]:
        return sorted(s["metadata"]["name"] for s in self._items(f"{self._core}/services"))

    def events(self) -> dict[str, int]:
        found = self._items(f"{self._core}/events")
        return {e["reason"]: e["count"] for e in found if e["involvedObject"]["kind"] in _KINDS}

    def node_condition(self, node: str, type_: str) -> Json:
        conditions = self._send("GET", f"/api/v1/nodes/{node}")["status"]["conditions"]
        return next((c for c in conditions if c["type"] == type_), {})

    def _nodes_that_take_pods(self) -> list[str]:
        return [
            node["metadata"]["name"]
            for node in self._items("/api/v1/nodes")
            if not node["spec"].get("taints")
            and any((c["type"], c["status"]) == ("Ready", "True") for c in node["status"].get("conditions", ()))
        ]

    def requests(self) -> Counter[str]:
        found = self.operator.plane.audit_requests(rbac.user("worker"), namespace=self.namespace)
        return Counter({f"{verb} {resource}": n for (verb, resource), n in found.items()})

    def most_status_writes(self, pods: int) -> int:
        return 3 + 2 * pods  # each starts and ends at a moment of its own

    # -- how ---------------------------------------------------------------------------------------
    def _all(self, kind: str) -> str:
        return collection_of({"apiVersion": _KINDS[kind], "kind": kind}, self.namespace)

    def _job(self, name: str) -> str:
        return f"{self._all(self._kinds.get(name, 'AITrainingJob'))}/{name}"

    def _items(self, path: str) -> list[Json]:
        return list(self._send("GET", path)["items"])

    def _send(self, method: str, path: str, body: Any = None) -> Json:
        return send(self._transport, method, path, body)

    def _picture(self) -> str:
        pods = {n: (p["status"].get("phase"), p["metadata"].get("deletionTimestamp")) for n, p in self.pods().items()}
        jobs = [json.dumps(j.get("status"), indent=1) for kind in _KINDS for j in self._items(self._all(kind))]
        head = f"namespace {self.namespace}, pods {pods}, services {self.services()}"
        return "\n".join([head, *jobs, self.operator.last_words()])
