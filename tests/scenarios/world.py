"""A whole system in one process and in virtual time: the real code of watcher, queue, worker, reconcile and executor
over the in-process local cluster and the in-memory store. No thread, no socket, no sleep; one seed, one history.

    world = World(nodes=2)
    world.apply(manifest)
    world.run()                 # until nothing moves any more
    world.advance(30)
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import orjson

from benchmarks.support.in_turn import assemble_in_turn
from benchmarks.support.inprocess import InProcessTransport, InProcessWatcher
from localcluster.cluster import LocalCluster
from localcluster.driver import VirtualClock
from localcluster.kubelet.node import NodeConfig
from tests.scenarios.driver import HOLD
from tests.support import fast_yaml as yaml
from tests.support.clocks import shared
from tests.support.kinds import AITRAININGJOBS, collection_of, resource_of
from tests.support.memory_store import MemoryStore
from tests.support.passes import reconcile_key
from tests.support.paths import ROOT
from tests.support.rights import lacking
from tests.support.seeds import the_seed
from tjworker.api.kinds import KINDS, KNOWN_KINDS
from tjworker.api.resources import EVENTS, POD_GROUPS, PODS, SERVICES
from tjworker.base import GroupResource, JobKey
from tjworker.controllers.jobs import JobReconciler
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse
from tjworker.kube.resources import RESOURCES, Process
from tjworker.settings import Settings
from tjworker.worker.runtime import Runtime

Json = dict[str, Any]
CRDS = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "k8s/crds").glob("*.yaml"))]
CRD = CRDS[0]  # that of AITrainingJob
BUCKETS = {name: f"{row.group}/{row.plural}" if row.group else row.plural for name, row in RESOURCES.items()}
"""Resource -> where the API server's store keeps its objects."""

NODE_RENEW_SECONDS = 35.0
"""Kubelets renew every 10 s; the cluster gives a node up after 40. Rarer renewals make a scenario cheaper and change
nothing."""
LEAN: Mapping[str, Any] = {"track_fields": False, "component_events": False, "lease_renew_seconds": NODE_RENEW_SECONDS}
"""Nothing here reads managedFields, nor the Events of Kubernetes' own controllers."""


@cache
def settings_with(**settings: Any) -> Settings:
    """Kept: to look for all of them in the environment takes 2 ms, and a world begins in some 15."""
    return Settings(write_concurrency=1, **settings)


@cache
def guest_crd(kind: str, file: str = "crd.yaml") -> Json:
    loaded: Json = yaml.safe_load((ROOT / f"k8s/kinds/{kind}/{file}").read_text())
    return loaded


def guest_crds(kind: str) -> list[Json]:
    """With those of the objects that its jobs name."""
    named = (f"{of.plural}.yaml" for of in KNOWN_KINDS[GroupResource(kind)].companions)
    return [guest_crd(kind, file) for file in ("crd.yaml", *named)]


class CountingTransport(InProcessTransport):
    """`counts` has requests by verb and resource."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster.apiserver.handle, user="worker")
        self.counts: Counter[str] = Counter()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        self.counts[f"{method} {_resource(path)}"] += 1
        return super().request(method, path, query=query, body=body, content_type=content_type)


def _resource(path: str) -> str:
    """.../namespaces/default/pods/a/status -> pods/status"""
    parts = path.strip("/").split("/")
    rest = (
        parts[parts.index("namespaces") + 2 :]
        if "namespaces" in parts
        else parts[2:]
        if parts[0] == "api"
        else parts[3:]
    )
    return "/".join([rest[0], *rest[2:]]) if rest else path


class Queue:
    """Celery's place: keys in the order in which they were published."""

    def __init__(self) -> None:
        self.keys: deque[JobKey] = deque()
        self.published: Counter[JobKey] = Counter()

    def publish(self, keys: Iterable[JobKey]) -> int:
        new = list(keys)
        self.keys.extend(new)
        self.published.update(new)
        return len(new)


class World:
    crds: Sequence[Json] = CRDS
    cluster_options: Mapping[str, Any] = LEAN

    def __init__(
        self,
        *,
        nodes: int | Sequence[NodeConfig] = 2,
        seed: int | None = None,
        beside: World | None = None,
        **settings: Any,
    ) -> None:
        """`beside`: another operator, in whose cluster this one works, too."""
        self.seed = the_seed() if seed is None else seed
        self.settings = settings_with(**settings)
        self.clock: VirtualClock = VirtualClock() if beside is None else beside.clock
        self.cluster: LocalCluster
        if beside is not None:
            self.cluster = beside.cluster
        else:
            self.cluster = LocalCluster(clock=self.clock, seed=self.seed, nodes=nodes, **self.cluster_options)
            for crd in (*self.crds, *(crd for kind in self.settings.kind_list for crd in guest_crds(kind))):
                self.cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        self._applied: dict[str, GroupResource] = {}
        self.store = self.make_store()
        self.queue = Queue()
        self.results: list[str] = []
        self._judged: dict[Process, tuple[InProcessTransport | None, int]] = {}
        """Process -> its transport, and how many of that one's requests `_judge_rights` has seen."""
        self.transport = self.make_transport()
        self.api = KubeClient(self.transport)
        self.worker = self.make_worker("worker-1")
        self._token = 0
        self.start_watcher()

    def make_store(self) -> MemoryStore:
        return MemoryStore(clock=self.clock)

    def make_transport(self) -> CountingTransport:
        return CountingTransport(self.cluster)

    def make_worker(self, owner: str) -> JobReconciler:
        return self.make_runtime(owner).jobs

    def make_runtime(self, owner: str) -> Runtime:
        return assemble_in_turn(self.settings, self.store, self.api, self.queue, owner=owner, clock=shared(self.clock))

    def start_watcher(self) -> None:
        """A watcher that begins with nothing, as after a crash."""
        self._token += 1
        self.watcher = InProcessWatcher(
            self.cluster.apiserver.handle,
            self.store,
            self.queue.publish,
            now=self.clock,
            token=self._token,
            seed=self.seed,
            settings=self.settings,
            newest=self.newest,
        )

    def newest(self, resource: GroupResource) -> int:
        """resourceVersion of the newest change of that resource. An empty history may have lost one."""
        return self.cluster.apiserver.store.newest(BUCKETS[resource])

    # -- time --------------------------------------------------------------------------------------

    def run(self, most: int = 200) -> World:
        """Until nothing moves at this moment."""
        for _ in range(most):
            before = self._revision(), len(self.results)
            self.cluster.run_until_idle()
            self.watch()
            self.work()
            if (self._revision(), len(self.results)) == before and not self.queue.keys:
                self._judge_rights()
                return self
        raise AssertionError(f"seed {self.seed}: the system does not come to rest; last results {self.results[-5:]}")

    def _judge_rights(self) -> None:
        """A refusal would not show: events and log tails are best effort, and this API server refuses nobody."""
        transports: dict[Process, InProcessTransport] = {"worker": self.transport, "watcher": self.watcher.transport}
        for process, transport in transports.items():
            before, seen = self._judged.get(process, (None, 0))
            requests = transport.requests[seen if before is transport else 0 :]
            lacks = lacking(process, requests, self.settings.kind_list, self.settings.gang_scheduler)
            assert not lacks, f"seed {self.seed}: k8s/base/rbac.yaml does not let the {process} {sorted(lacks)}"
            self._judged[process] = transport, len(transport.requests)

    def watch(self) -> None:
        self.watcher.pump()

    def work(self) -> None:
        while self.queue.keys:
            self.results.append(reconcile_key(self.worker, self.queue.keys.popleft()))

    def advance(self, seconds: float, step_seconds: float = 1.0) -> World:
        """Let time pass, in steps, with everything running."""
        left = seconds
        while left > 0:
            self.cluster.advance(min(step_seconds, left))
            left -= step_seconds
            self.run()
        return self

    def until(self, what: str, condition: Callable[[], bool], *, within_seconds: float = 60) -> None:
        self.run()
        deadline = self.clock() + within_seconds
        while not condition():
            assert self.clock() < deadline, (
                f"seed {self.seed}: not within {within_seconds:.0f} s: {what}; "
                f"{[j for resource in KINDS for j in self.get(resource)['items']]}"
            )
            self.advance(1)

    def stays(self, what: str, condition: Callable[[], bool], *, for_seconds: float) -> None:
        for _ in range(int(for_seconds)):
            assert condition(), f"seed {self.seed}: no longer: {what}"
            self.advance(1)

    def quiet(self) -> None:
        self.run()

    def _revision(self) -> int:
        return self.cluster.apiserver.store.revision

    # -- the user's hands --------------------------------------------------------------------------

    def apply(self, manifest: Json) -> World:
        namespace, name = manifest["metadata"].get("namespace", "default"), manifest["metadata"]["name"]
        self._applied[name] = resource_of(manifest)
        self.cluster.client.create(collection_of(manifest, namespace), manifest)
        return self

    def patch_job(self, name: str, patch: Json) -> World:
        self.cluster.client.patch(self._job(name), patch)
        return self

    def scale(self, name: str, replicas: int) -> World:
        self.cluster.client.patch(f"{self._job(name)}/scale", {"spec": {"replicas": replicas}})
        return self

    def delete(self, name: str) -> World:
        self.cluster.client.delete(self._job(name))
        return self

    def delete_pod(self, name: str, grace_seconds: int | None = None) -> World:
        options = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        self.cluster.client.delete(f"{_PODS}/{name}", options or None)
        return self

    def end_pod(self, name: str, exit_code: int = 0) -> World:
        return self.patch_pod(name, {"metadata": {"annotations": play(exit=exit_code)}})

    def delete_pod_group(self, name: str) -> World:
        self.cluster.client.delete(RESOURCES[POD_GROUPS].path("default", name))
        return self

    def create(self, resource: GroupResource, manifest: Json) -> World:
        self.cluster.client.create(RESOURCES[resource].path("default"), manifest)
        return self

    def hold_pod(self, name: str, *, held: bool = True) -> World:
        self.cluster.client.patch(f"{_PODS}/{name}", {"metadata": {"finalizers": HOLD if held else None}})
        return self

    def create_pod(self, manifest: Json) -> World:
        self.cluster.client.create(_PODS, manifest)
        return self

    def fail_node(self, name: str, how: str = "NotReady") -> World:
        self.cluster.fail_node(name, how)
        return self

    def taint_node(self, name: str, key: str) -> World:
        taints = [{"key": key, "effect": "NoExecute"}] if key else []
        self.cluster.client.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
        return self

    def recover_node(self, name: str) -> World:
        self.cluster.recover_node(name)
        return self

    def now(self) -> float:
        return self.clock()

    def late_seconds(self) -> float:
        return 0.0

    def patch_pod(self, name: str, patch: Json) -> World:
        self.cluster.client.patch(f"{_PODS}/{name}", patch)
        return self

    def _job(self, name: str) -> str:
        """The path of a job of either kind."""
        return RESOURCES[self._applied.get(name, AITRAININGJOBS)].path("default", name)

    # -- what there is -----------------------------------------------------------------------------

    def get(self, resource: GroupResource, name: str = "") -> Json:
        return self.cluster.client.get(RESOURCES[resource].path("default", name))

    def status(self, name: str = "digits") -> Json:
        status: Json = self.cluster.client.get(self._job(name)).get("status") or {}
        return status

    def phase(self, name: str = "digits") -> str:
        return str(self.status(name).get("phase", ""))

    def jobs(self) -> list[str]:
        return sorted(j["metadata"]["name"] for resource in KINDS for j in self.get(resource)["items"])

    def requests(self) -> Counter[str]:
        """As the API server's audit names them."""
        return Counter(
            {
                f"{_VERBS[method]} {resource}": n
                for (method, resource), n in ((key.split(), n) for key, n in self.transport.counts.items())
            }
        )

    def most_status_writes(self, pods: int) -> int:
        return 4  # with two events: three requests above the floor, whatever the number of pods

    def pods(self) -> dict[str, Json]:
        return {p["metadata"]["name"]: p for p in self.get(PODS)["items"]}

    def uids(self) -> dict[str, str]:
        return {n: p["metadata"]["uid"] for n, p in self.pods().items()}

    def owners(self, resource: GroupResource) -> dict[str, Json]:
        """REPLICASETS or BATCH_JOBS, by name."""
        return {o["metadata"]["name"]: o for o in self.get(resource)["items"]}

    def services(self) -> list[str]:
        return sorted(
            s["metadata"]["name"] for s in self.get(SERVICES)["items"] if s["metadata"]["name"] != "kubernetes"
        )

    def events(self) -> dict[str, int]:
        """Events on jobs: reason -> how often."""
        items = self.get(EVENTS)["items"]
        return {e["reason"]: e["count"] for e in items if e["involvedObject"]["kind"] in _JOB_KINDS}

    def condition(self, type_: str, name: str = "digits") -> Json:
        return next((c for c in self.status(name).get("conditions", ()) if c["type"] == type_), {})


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_JOB_KINDS = {job_kind.kind for job_kind in KINDS.values()}
_PODS = "/api/v1/namespaces/default/pods"


def play(**annotations: object) -> dict[str, str]:
    """Annotations by which the fake kubelet plays a pod: `play(run_seconds=5, exit_code=1)`."""
    return {f"fake.localcluster/{name.replace('_', '-')}": str(value) for name, value in annotations.items()}


def training_job(
    name: str = "digits",
    *,
    least: int = 2,
    most: int | None = None,
    pservers: int = 0,
    play: Mapping[str, Mapping[str, object]] | None = None,
    **spec: Any,
) -> Json:
    """A TrainingJob. `play`: by container (`trainer`, `pserver`, `master`) what its pods do, as in `play(...)`."""
    annotations = {
        f"{container}.fake.localcluster/{key.replace('_', '-')}": str(value)
        for container, told in (play or {}).items()
        for key, value in told.items()
    }
    bounds = {"min-instance": least, **({} if most is None else {"max-instance": most})}
    kind = {} if pservers else {"frame_work": {"name": "paddle", "type": "nccl2"}}
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "image": "trainer:1",
            "trainer": {"entrypoint": "train", **bounds},
            **({"pserver": {"min-instance": pservers}} if pservers else {}),
            **kind,
            **spec,
        },
    }


def role(
    replicas: int = 1, *, annotations: Mapping[str, str] | None = None, ports: Sequence[int] = (7164,), **fields: Any
) -> Json:
    container: Json = {"name": "aitj-main", "image": "trainer:1", "command": ["train"]}
    if ports:
        container["ports"] = [{"name": f"aitj-{p}", "containerPort": p} for p in ports]
    template = {"metadata": {"annotations": dict(annotations or {})}, "spec": {"containers": [container]}}
    return {"replicas": replicas, "template": template, **fields}


def job(roles: Mapping[str, Json], name: str = "digits", **spec: Any) -> Json:
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": dict(roles), **orjson.loads(orjson.dumps(spec))},
    }
