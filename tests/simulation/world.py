"""The operator and a cluster in one process and in virtual time, built for thousands of scenarios: the real watcher,
projection, queue, workers, beat tasks, reconcile and executor over the in-process local cluster and the in-memory
store.

    world = SimWorld(seed=7, fault=Crash(...))
    world.apply(manifest)
    world.live(until=lambda: world.phase() == "Succeed", within_seconds=600)

Time jumps from one thing that is due to the next. Each step of a process passes the world's `fault` and stands in its
`trace`. A process that dies is replaced: a worker at once, the watcher when its leadership has lapsed. A process that
waits (for Redis, or because a fault holds it up) lets everybody else go on. No thread, no socket, no sleep: one seed
and one fault, one history.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, cast

import orjson

from beat_schedule import beat_schedule
from benchmarks.support.in_turn import assemble_in_turn
from localcluster.client import Client
from localcluster.cluster import LocalCluster
from localcluster.driver import VirtualClock
from localcluster.kubelet.node import NodeConfig
from localcluster.wire import Request
from tests.scenarios.world import BUCKETS, CRDS, World, guest_crds
from tests.simulation.chronicler import chronicle_of
from tests.simulation.ledger import JOBS, Ledger
from tests.simulation.points import Died, Fault, Kind, Step
from tests.simulation.store import SimQueue, SimStore
from tests.simulation.trace import Trace
from tests.simulation.transport import SimTransport
from tests.simulation.watcher import SimWatcher
from tests.support.memory_store import MemoryStore
from tests.support.passes import reconcile_key
from tjworker.api.kinds import served
from tjworker.api.kinds.base import seen_status
from tjworker.api.resources import POD_GROUPS, PODS, SERVICES
from tjworker.app import app
from tjworker.base import JobKey, JsonDict, Terminal, Transient
from tjworker.clock import ClusterClock
from tjworker.kube.client import KubeClient
from tjworker.publisher import AUTOSCALE
from tjworker.settings import Settings
from tjworker.worker import tasks
from tjworker.worker.child import Failed
from tjworker.worker.runtime import Runtime

GROUPS = BUCKETS[POD_GROUPS]
TAKE_OVER_SECONDS = 15.0
"""A standby leads this long after the watcher has died (TJ_LEASE_DURATION_SECONDS)."""
LOOK_SECONDS = 10.0
"""The longest jump: a watcher that has nothing to do still writes its progress every now and then."""


def _without_rules(schema: Any) -> Any:
    """A CRD without its CEL rules: half the cost of a write, and none of the manifests here breaks one."""
    if isinstance(schema, dict):
        return {name: _without_rules(value) for name, value in schema.items() if name != "x-kubernetes-validations"}
    return [_without_rules(value) for value in schema] if isinstance(schema, list) else schema


WITHOUT_RULES = [_without_rules(crd) for crd in CRDS]


def _define(crd: JsonDict) -> Request:
    return Request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=orjson.dumps(crd))


_DEFINE = [_define(crd) for crd in WITHOUT_RULES]


@cache
def _define_guest(kind: str) -> list[Request]:
    return [_define(_without_rules(crd)) for crd in guest_crds(kind)]


@cache
def _settings(**settings: Any) -> Settings:
    """Read once: it looks through the environment, and it cannot change."""
    return Settings(write_concurrency=1, **settings)


class SimWorld(World):
    namespace = "default"

    def __init__(
        self,
        *,
        seed: int,
        fault: Fault | None = None,
        nodes: int | Sequence[NodeConfig] = 2,
        workers: int = 2,
        autoscaled: bool = False,
        **settings: Any,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.fault = fault or Fault()
        self.trace = Trace()
        self.settings = _settings(**settings)
        self._jobs = {BUCKETS[kind]: kind for kind in served(self.settings.kind_list)}
        # No two seeds have a moment in common, so that every time of a history differs between them.
        self.clock = VirtualClock(1_767_225_600.0 + self.rng.randrange(10**7) + self.rng.random())
        self.began_at = self.clock()
        self.cluster = self._make_cluster(nodes)
        self._applied = {}
        self.ledger = Ledger(self.cluster.apiserver.store, self.clock)
        self.store = self.memory = self.make_store()
        self.steps: Counter[str] = Counter()
        self.requests_made: Counter[str] = Counter()
        self.results: list[str] = []
        self.strangers: set[str] = set()
        """Pods that are none of ours."""
        self.expired: set[str] = set()
        self.blind: dict[str, float] = {}
        """Resource -> until when no watch of it can be opened."""
        self.tasks: deque[tuple[float, JobKey]] = deque()
        self._periods = {
            str(row["task"]): cast(float, row["schedule"])
            for row in beat_schedule.values()
            if autoscaled or row["task"] != AUTOSCALE
        }
        self._beat_due = {
            task: self.clock() + self.rng.uniform(0.2, 1.0) * period for task, period in self._periods.items()
        }
        self._busy: set[str] = set()
        self._turn = 0
        self._token = 0
        self._watcher_due: float | None = None
        self.workers = [self.make_worker(f"worker-{number + 1}") for number in range(workers)]
        self._beat_runtime = self.make_runtime("beat")
        self.start_watcher()
        self.acts: list[Callable[[], bool]] = []
        """What the user does, one after another: each is asked at every moment whether it is time, and says when it is
        done."""

    def _make_cluster(self, nodes: int | Sequence[NodeConfig]) -> LocalCluster:
        cluster = LocalCluster(clock=self.clock, seed=self.seed, nodes=nodes, **self.cluster_options)
        # Every watch of the simulation is opened anew at each look, and must find its history.
        cluster.apiserver._next_compaction = float("inf")
        for define in (*_DEFINE, *chain.from_iterable(map(_define_guest, self.settings.kind_list))):
            cluster.apiserver.handle(define)
        self.chronicle = chronicle_of(cluster, frozenset(JOBS))
        return cluster

    # -- processes ---------------------------------------------------------------------------------

    def make_runtime(self, owner: str) -> Runtime:
        """What it remembers dies with its process. Its machine's clocks are wrong, each by hours."""
        hours = random.Random(owner).sample(range(-12, 13), 2)
        wall, monotonic = (partial(self._clock_ahead, 3600 * ahead) for ahead in hours)
        return assemble_in_turn(
            self.settings,
            SimStore(self, owner),
            KubeClient(SimTransport(self, owner)),
            SimQueue(self, owner),
            owner=owner,
            clock=ClusterClock(wall=wall, monotonic=monotonic),
        )

    def _clock_ahead(self, seconds: float) -> float:
        return self.clock() + seconds

    def make_store(self) -> MemoryStore:
        return MemoryStore(clock=self.clock, broker=self.messages)

    def messages(self) -> int:
        """How many the broker holds; a late one is none yet."""
        return sum(at <= self.clock() for at, _ in self.tasks)

    def start_watcher(self) -> None:
        self._token += 1
        self._watcher_due = None
        self.watcher = SimWatcher(self, self._token)

    def step(self, kind: Kind, actor: str, what: str) -> Step:
        number = self.steps[kind]
        self.steps[kind] += 1
        self.trace.step(self.clock(), kind, number, actor, what)
        return Step(kind, number, actor, what)

    def redis(self, actor: str, what: Callable[[], str], call: Callable[[], Any]) -> Any:
        step = self.step("redis", actor, what())
        self.fault.before(self, step)
        answer = call()
        self.fault.after(self, step)
        return answer

    # -- time --------------------------------------------------------------------------------------

    def live(self, until: Callable[[], bool], *, within_seconds: float) -> bool:
        """Whether it came to that in time."""
        deadline = self.clock() + within_seconds
        while True:
            self.settle()
            if until():
                return True
            if self.clock() >= deadline:
                return False
            self._jump(deadline)

    def advance(self, seconds: float, step_seconds: float = 1.0) -> SimWorld:
        self.live(lambda: False, within_seconds=seconds)
        return self

    def run(self, most: int = 200) -> SimWorld:
        self.settle()
        return self

    def _jump(self, latest: float) -> None:
        now = self.clock()
        due = self.memory.next_due()
        dues = [
            latest,
            now + LOOK_SECONDS,
            *self._beat_due.values(),
            *(at for at, _ in self.tasks),
            self._watcher_due,
            self.cluster.driver.next_due(),
            *(at for at in self.blind.values() if at > now),
            None if due is None else max(due, self.watcher.writer.due_at),
            self.fault.next_due(now),
        ]
        # Never twice the same moment: what cannot be done at it (its process is dead or waits) would be due for ever.
        self.cluster.advance(max(0.01, min(at for at in dues if at is not None) - now))
        self.fault.passes(self)

    def settle(self) -> None:
        """Until nothing moves at this moment."""
        for _ in range(1000):
            before = self._moved()
            self.cluster.run_until_idle()
            self.watch()
            self.work()
            self._beat()
            if self.acts and self.acts[0]():
                self.acts.pop(0)
                self.trace.note(self.clock(), "user", "has done his next act")
            if self._moved() == before:
                return
        raise AssertionError(f"the system does not come to rest; last results {self.results[-5:]}\n{self.trace}")

    def others_go_on(self, waiting: str, seconds: float) -> None:
        """This process does nothing for so long; the others do not wait for it."""
        mine = waiting not in self._busy
        self._busy.add(waiting)
        self.trace.note(self.clock(), waiting, f"stands still for {seconds:.2f} s")
        try:
            self.live(lambda: False, within_seconds=seconds)
        finally:
            if mine:
                self._busy.discard(waiting)

    def _moved(self) -> tuple[int, int, int, int]:
        return self.cluster.apiserver.store.revision, len(self.results), len(self.acts), len(self.tasks)

    def watch(self) -> None:
        if self._watcher_due is not None and self.clock() >= self._watcher_due:
            self.trace.note(self.clock(), "watcher", "another leads")
            self.start_watcher()
        if self._watcher_due is not None or "watcher" in self._busy:
            return
        self._busy.add("watcher")
        try:
            self.watcher.pump()
        except Died:
            self._died("watcher")
            self._watcher_due = self.clock() + TAKE_OVER_SECONDS
        finally:
            self._busy.discard("watcher")

    def enqueue(self, key: JobKey) -> None:
        step = self.step("task", "broker", key)
        for seconds in self.fault.deliver(self, step):
            self.tasks.append((self.clock() + seconds, key))

    def work(self) -> None:
        """Every task that has come, each by the next worker that is free."""
        while True:
            free = [n for n in range(len(self.workers)) if f"worker-{n + 1}" not in self._busy]
            due = next((n for n, (at, _) in enumerate(self.tasks) if at <= self.clock()), None)
            if due is None or not free:
                return
            _, key = self.tasks[due]
            del self.tasks[due]
            number = min(free, key=lambda n: (n - self._turn) % len(self.workers))
            self._turn = number + 1
            self.task(number, key)

    def task(self, number: int, key: JobKey) -> None:
        """One task from its beginning to its end, or to the death of its worker."""
        owner = f"worker-{number + 1}"
        self._busy.add(owner)
        try:
            result = reconcile_key(self.workers[number], key)
        except Died:
            self._died(owner)
            self.workers[number] = self.make_worker(owner)
            result = "died"
        except (Transient, Terminal) as error:  # Celery's beat sends the next one all the same
            result = f"the task failed: {error.message}"
        finally:
            self._busy.discard(owner)
        self.results.append(result)
        self.trace.note(self.clock(), owner, f"{key}: {result}")

    def _beat(self) -> None:
        for name, at in self._beat_due.items():
            if at <= self.clock() and "beat" not in self._busy:
                self._beat_due[name] = self.clock() + self._periods[name]
                self.beat(name)

    def beat(self, name: str) -> None:
        """Run one periodic task now: the real one, with this world's runtime."""
        self._busy.add("beat")
        tasks.use(lambda: self._beat_runtime)
        try:
            result = app.tasks[name].run()
        except Died:
            self._died("beat")
            self._beat_runtime = self.make_runtime("beat")
            result = "died"
        except (Transient, Terminal, Failed) as error:  # Celery's beat sends the next one all the same
            result = f"the task failed: {error}"
        finally:
            self._busy.discard("beat")
        self.trace.note(self.clock(), "beat", f"{name}: {result}")

    def lose(self, seconds: float = 0.0, *resources: str) -> None:
        """The watches of these resources break off, and when they are opened again after so long, their history is
        gone: what has happened shows as the difference of the next list."""
        for resource in resources:
            self.blind[resource] = max(self.blind.get(resource, 0.0), self.clock() + seconds)
            self.expired.add(resource)

    def _died(self, actor: str) -> None:
        self.trace.note(self.clock(), actor, "DIED")

    # -- as users have it --------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        return self.cluster.client

    def exit_pod(self, name: str, code: int) -> None:
        self.cluster.kubelet.exit("default", name, code)

    # -- what there is, read from the store of the API server: no request, no step -----------------

    def forget(self) -> None:
        """It is looked at no more: what it has stored goes at once, and not when the collector comes upon it."""
        self.cluster.apiserver.store._history.clear()
        self.cluster.apiserver.store._objects.clear()

    def objects(self, bucket: str) -> dict[str, JsonDict]:
        return {name: item.obj for (_, name), item in self.cluster.apiserver.store.items(bucket, "default")}

    def pods(self) -> dict[str, JsonDict]:
        """Without those of strangers."""
        return {name: pod for name, pod in self.objects(PODS).items() if name not in self.strangers}

    def services(self) -> list[str]:
        return sorted(name for name in self.objects(SERVICES) if name != "kubernetes")

    def the_job(self, name: str = "digits") -> JsonDict | None:
        """Of whichever kind."""
        return next((found for bucket in self._jobs if (found := self.objects(bucket).get(name)) is not None), None)

    def status(self, name: str = "digits") -> JsonDict:
        """The operator's own, wherever the job's kind has it."""
        return dict(seen_status(self.the_job(name) or {}))

    def keys(self) -> list[JobKey]:
        return [
            JobKey(f"{resource}/default/{name}")
            for bucket, resource in self._jobs.items()
            for name in self.objects(bucket)
        ]
