"""The operator and a cluster in one process and in virtual time, built for thousands of lives: the real watcher, projection,
queue, workers, beat tasks, reconcile and executor over the in-process local cluster and the in-memory store.

    world = SimWorld(seed=7, fault=Crash(...))
    world.apply(manifest)
    world.live(until=lambda: world.phase() == "Succeed", within_seconds=600)

Time jumps from one thing that is due to the next. Each step of a process passes the world's `fault` and stands in its
`trace`. A process that dies is replaced: a worker at once, the watcher when its leadership has lapsed. A process that waits
(for Redis, or because a fault holds it up) lets everybody else go on. No thread, no socket, no sleep: one seed and one
fault, one history.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, cast

import orjson

from beat_schedule import beat_schedule
from localcluster.client import Client
from localcluster.cluster import LocalCluster
from localcluster.driver import VirtualClock
from localcluster.wire import Encoded, Request, Watch
from tests.inprocess import InProcessStream, InProcessTransport, InProcessWatcher
from tests.lives.world import CRDS, World
from tests.sim.ledger import Ledger
from tests.sim.points import Died, Fault, Kind, Step
from tests.sim.trace import IDLE, Trace
from tjworker import tasks
from tjworker.app import app
from tjworker.autoscaler import Autoscaler
from tjworker.base import JobKey, Terminal, Transient
from tjworker.collector import Collector
from tjworker.executor import Executor
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse, Stream
from tjworker.kube.resources import RESOURCES
from tjworker.publisher import AUTOSCALE
from tjworker.settings import Settings
from tjworker.store.memory import MemoryStore
from tjworker.store.port import Hold, Store, View
from tjworker.telemetry.events import EventRecorder
from tjworker.worker import Worker
from watcher.informer import Informer

Json = dict[str, Any]
BUCKETS = {name: f"{row.group}/{row.plural}" if row.group else row.plural for name, row in RESOURCES.items()}
"""Resource -> where the API server's store keeps its objects."""
TAKE_OVER_SECONDS = 15.0
"""A standby leads this long after the watcher has died (TJ_LEASE_DURATION_SECONDS)."""
LOOK_SECONDS = 10.0
"""The longest jump: a watcher that has nothing to do still writes its progress every now and then."""
NODE_RENEW_SECONDS = 35.0
"""Kubelets renew every 10 s; the cluster gives a node up after 40. Rarer renewals make a life cheaper and change nothing."""


def _without_rules(schema: Any) -> Any:
    """A CRD without its CEL rules: half the cost of a write, and none of the manifests here breaks one."""
    if isinstance(schema, dict):
        return {name: _without_rules(value) for name, value in schema.items() if name != "x-kubernetes-validations"}
    return [_without_rules(value) for value in schema] if isinstance(schema, list) else schema


WITHOUT_RULES = [_without_rules(crd) for crd in CRDS]
_DEFINE = [
    Request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=orjson.dumps(crd))
    for crd in WITHOUT_RULES
]
LEAN: Mapping[str, Any] = {"track_fields": False, "component_events": False, "lease_renew_seconds": NODE_RENEW_SECONDS}
"""Nobody looks at managedFields here, nor at the Events of Kubernetes' own controllers."""


@cache
def _settings(**settings: Any) -> Settings:
    """Read once: it looks through the environment, and nobody can change it."""
    return Settings(write_concurrency=1, **settings)


@contextmanager
def _ports(**ports: object) -> Iterator[None]:
    """The tasks with these in the place of their own: `mock.patch.multiple`, at a tenth of its cost."""
    before = {name: getattr(tasks, name) for name in ports}
    vars(tasks).update(ports)
    try:
        yield
    finally:
        vars(tasks).update(before)


class SimTransport(InProcessTransport):
    """One process's way to the API server."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        super().__init__(world.cluster.apiserver.handle, user=actor)
        self.world = world
        self.actor = actor

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
        world = self.world
        if self.actor.startswith("watcher") or "/events" in path:
            return super().request(method, path, query=query, body=body, content_type=content_type)
        what = f"{method} {path.rpartition('/default/')[2]}"
        if method == "POST" and body is not None:
            what += f"/{orjson.loads(body)['metadata']['name']}"
        step = world.step("read" if method == "GET" else "write", self.actor, what)
        world.fault.before(world, step)
        answer = world.fault.answers(world, step)
        if answer is None:
            answer = super().request(method, path, query=query, body=body, content_type=content_type)
        world.trace.note(world.clock(), self.actor, f"answered {answer.status}")
        if method != "GET":
            world.requests_made[what] += 1
        world.fault.after(world, step)
        return answer

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        resource = path.rpartition("/")[2]
        if resource in self.world.expired:
            self.world.expired.discard(resource)
            gone = {
                "type": "ERROR",
                "object": {
                    "kind": "Status",
                    "status": "Failure",
                    "code": 410,
                    "reason": "Expired",
                    "message": "too old resource version",
                },
            }
            return _Said(orjson.dumps(gone))
        answer = self._handle(Request("GET", path, dict(query), user=self._user))
        return cast(Stream, _Watched(self.world, answer) if isinstance(answer, Watch) else InProcessStream(answer))


class _Said:
    """A watch that says one thing and ends."""

    status = 200

    def __init__(self, line: bytes) -> None:
        self.headers: Mapping[str, str] = {}
        self._line = line

    def lines(self) -> Iterator[list[bytes]]:
        yield [self._line]

    def body(self) -> bytes:
        return b""

    def close(self) -> None: ...


class _Watched:
    """A watch whose events pass the fault one by one."""

    status = 200

    def __init__(self, world: SimWorld, watch: Watch) -> None:
        self.headers: Mapping[str, str] = {}
        self.world = world
        self.watch = watch

    def lines(self) -> Iterator[list[bytes]]:
        while lines := cast(list[Encoded], self.watch.take()):
            arrived = [line.data[:-1] for line in lines if self._arrives(line.obj)]
            if arrived:
                yield arrived

    def _arrives(self, event: Json) -> bool:
        meta = event["object"].get("metadata", {})
        if event["type"] in ("BOOKMARK", "ERROR") or event["object"].get("kind") == "Node":
            return True
        what = f"{event['type']} {event['object'].get('kind')} {meta.get('name')} rv {meta.get('resourceVersion')}"
        step = self.world.step("event", "watcher", what)
        return self.world.fault.arrives(self.world, step)

    def body(self) -> bytes:
        return b""

    def close(self) -> None:
        self.watch.close()


class SimStore:
    """One process's way to Redis: every call of the store is a step."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        self._world = world
        self._actor = actor

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._world.memory, name)

        def step(*args: Any, **more: Any) -> Any:
            return self._world.redis(self._actor, lambda: _said(name, args, more), partial(call, *args, **more))

        setattr(self, name, step)
        return step

    def acquire_view(self, key: JobKey, owner: str, ttl_seconds: float) -> tuple[Hold, View] | None:
        world = self._world
        taken: tuple[Hold, View] | None = world.redis(
            self._actor, lambda: f"acquire_view {key}", partial(world.memory.acquire_view, key, owner, ttl_seconds)
        )
        return taken and (taken[0], world.fault.sees(world, key, taken[1]))


def _said(name: str, args: tuple[Any, ...], more: Mapping[str, Any]) -> str:
    if name == "apply":
        changes = args[1]
        words = [f"{c.resource}/{c.name}{'' if c.record is not None else ' gone'}@{c.rv}" for c in changes]
        return f"apply {' '.join(words) or IDLE}"
    words = [str(getattr(arg, "key", arg)) for arg in args if not isinstance(arg, int | float)]
    words += [f"{key}={value}" for key, value in more.items() if value]
    return f"{name} {' '.join(words)[:160]}".strip()


class SimQueue:
    """One process's Publisher: what could not be sent stays with the process and goes with the next call."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        self._world = world
        self._actor = actor
        self._waiting: dict[JobKey, None] = {}

    def publish(self, keys: Iterable[JobKey]) -> int:
        self._waiting.update(dict.fromkeys(keys))
        sent = list(self._waiting)
        if sent:
            self._world.redis(self._actor, lambda: f"publish {' '.join(sent)}", partial(self._send, sent))
        return len(sent)

    def _send(self, keys: list[JobKey]) -> None:
        self._waiting.clear()
        for key in keys:
            self._world.enqueue(key)


class _Stopped(threading.Event):
    """What a writer waits on while Redis is away: everybody else goes on meanwhile."""

    def __init__(self, world: SimWorld, actor: str) -> None:
        super().__init__()
        self._world = world
        self._actor = actor

    def wait(self, timeout: float | None = None) -> bool:
        self._world.others_go_on(self._actor, timeout or 0.0)
        return False


class SimWatcher(InProcessWatcher):
    """Steps only informers whose resource has news."""

    def __init__(self, world: SimWorld, token: int, actor: str = "watcher") -> None:
        self._world = world
        super().__init__(
            world.cluster.apiserver.handle,
            cast(Store, SimStore(world, actor)),
            SimQueue(world, actor).publish,
            now=world.clock,
            token=token,
            seed=world.seed,
            transport=SimTransport(world, actor),
            stopped=_Stopped(world, actor),
        )
        self._shown: dict[Informer, int] = {}

    def pump(self) -> None:
        self._lead()
        self._run_ahead()
        for informer in self.informers:
            self._step(informer)
        self._drain()

    def _step(self, informer: Informer) -> None:
        world = self._world
        newest = world.newest(informer.resource)
        if self._shown.get(informer) == newest and informer.resource not in world.expired and not informer._list_again:
            return
        if world.blind.get(informer.resource, 0.0) > world.clock():
            return
        self._shown.pop(informer, None)
        for _ in range(3):
            informer.step()
            if not informer._needs_list or informer.vitals.state in ("missing", "forbidden"):
                self._shown[informer] = newest
                return


class SimWorld(World):
    namespace = "default"
    cluster_options = LEAN

    def __init__(
        self,
        *,
        seed: int,
        fault: Fault | None = None,
        nodes: int = 2,
        workers: int = 2,
        autoscaled: bool = False,
        **settings: Any,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.fault = fault or Fault()
        self.trace = Trace()
        self.settings = _settings(**settings)
        # No two seeds have a moment in common, so that every time of a history differs between them.
        self.clock = VirtualClock(1_767_225_600.0 + self.rng.randrange(10**7) + self.rng.random())
        self.began_at = self.clock()
        self.cluster = LocalCluster(clock=self.clock, seed=seed, nodes=nodes, **self.cluster_options)
        # Every watch of the simulation is opened anew at each look, and must find its history.
        self.cluster.apiserver._next_compaction = float("inf")
        for define in _DEFINE:
            self.cluster.apiserver.handle(define)
        self._applied = {}
        self.ledger = Ledger(self.cluster.apiserver.store)
        self.memory = self.make_store()
        self.store = self.memory
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
        self._deaths = 0
        self._turn = 0
        self._token = 0
        self._watcher_due: float | None = None
        self.workers = [self.make_worker(f"worker-{number + 1}") for number in range(workers)]
        self._beat_store, self._beat_api = SimStore(self, "beat"), KubeClient(SimTransport(self, "beat"))
        self.autoscaler = self.make_autoscaler()
        self.start_watcher()
        self.acts: list[Callable[[], bool]] = []
        """What the user does, one after another: each is asked at every moment whether it is time, and says when it is done."""

    # -- processes ------------------------------------------------------------------------------------------------------

    def make_worker(self, owner: str) -> Worker:
        api = KubeClient(SimTransport(self, owner))
        events = EventRecorder(api, clock=self.clock, background=False)
        executor = Executor(api, events, self.settings)
        return Worker(
            cast(Store, SimStore(self, owner)),
            api,
            executor,
            SimQueue(self, owner),
            self.settings,
            owner=owner,
            clock=self.clock,
            monotonic=self.clock,
        )

    def make_autoscaler(self) -> Autoscaler:
        """It remembers from run to run what it has read, so it dies with its process."""
        api = KubeClient(SimTransport(self, "beat"))
        return Autoscaler(
            cast(Store, SimStore(self, "beat")), api, self.settings, clock=self.clock, monotonic=self.clock
        )

    def make_store(self) -> MemoryStore:
        return MemoryStore(clock=self.clock)

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

    def newest(self, resource: str) -> int:
        """resourceVersion of the newest change of that resource."""
        history = self.cluster.apiserver.store._history[BUCKETS[resource]]
        return history[-1].revision if history else 0

    # -- time -----------------------------------------------------------------------------------------------------------

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
            None if due is None else max(due, self.watcher.writer._due_at),
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
            result = self.workers[number].handle(key)
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
        """Run one periodic task now: the real one, with this world's ports."""
        self._busy.add("beat")
        try:
            with _ports(
                _store=lambda: self._beat_store,
                _publisher=lambda: SimQueue(self, "beat"),
                _kube=lambda: self._beat_api,
                _autoscaler=lambda: self.autoscaler,
                load_settings=lambda: self.settings,
                Collector=partial(Collector, clock=self.clock),
            ):
                result = app.tasks[name].run()
        except Died:
            self._died("beat")
            self.autoscaler = self.make_autoscaler()
            result = "died"
        except (Transient, Terminal) as error:  # Celery's beat sends the next one all the same
            result = f"the task failed: {error.message}"
        finally:
            self._busy.discard("beat")
        self.trace.note(self.clock(), "beat", f"{name}: {result}")

    def lose(self, seconds: float = 0.0, *resources: str) -> None:
        """The watches of these resources break off, and when they are opened again after so long, their history is gone: what
        has happened shows as the difference of the next list."""
        for resource in resources:
            self.blind[resource] = max(self.blind.get(resource, 0.0), self.clock() + seconds)
            self.expired.add(resource)

    def _died(self, actor: str) -> None:
        self._deaths += 1
        self.trace.note(self.clock(), actor, "DIED")

    # -- as users have it ----------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        return self.cluster.client

    def exit_pod(self, name: str, code: int) -> None:
        self.cluster.agent.exit("default", name, code)

    # -- what there is, read from the store of the API server: no request, no step ----------------------------------------

    def forget(self) -> None:
        """It is looked at no more: what it has stored goes at once, and not when the collector comes upon it."""
        self.cluster.apiserver.store._history.clear()
        self.cluster.apiserver.store._objects.clear()

    def objects(self, bucket: str) -> dict[str, Json]:
        return {name: item.obj for (_, name), item in self.cluster.apiserver.store.items(bucket, "default")}

    def pods(self) -> dict[str, Json]:
        """Without those of strangers."""
        return {name: pod for name, pod in self.objects("pods").items() if name not in self.strangers}

    def services(self) -> list[str]:
        return sorted(name for name in self.objects("services") if name != "kubernetes")

    def the_job(self, name: str = "digits") -> Json | None:
        """Of whichever kind."""
        for row in RESOURCES.values():
            if row.is_job and (found := self.objects(f"{row.group}/{row.plural}").get(name)) is not None:
                return found
        return None

    def status(self, name: str = "digits") -> Json:
        status: Json = (self.the_job(name) or {}).get("status") or {}
        return status

    def keys(self) -> list[JobKey]:
        return [
            JobKey(f"{row.plural}/default/{name}")
            for row in RESOURCES.values()
            if row.is_job
            for name in self.objects(f"{row.group}/{row.plural}")
        ]
