"""Row 10 with real processes: many random histories at once (`tests/simulation/histories.py`), each in a namespace of
its own, while the operator's processes, its Redis and the API server die and come back. Then all is calm, and held is:

- each job comes to be as it should be (`tests/simulation/desired.py`) within the time that the simulation gives it:
  Kubernetes makes
  no pod of a batch Job for ten minutes once seven of its pods have died, all at once or one by one;
- then nothing changes any more, and after fifty more passes of every job each object has the resourceVersion that it
  had.

Of the acts of a history all are played that users and pods do. Those of the operator's troubles come as `troubles.py`
has them, for all histories together; a node fails for all, too, twice.
"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from localcluster.client import ApiError, Client
from localcluster.http_client import HttpClient, from_kubeconfig
from localcluster.kubelet.node import FAIL_ANNOTATION
from localcluster.kubelet.play import PREFIX
from tests.chaos.chronicler import Chronicler
from tests.chaos.system import NotInTimeError, System
from tests.chaos.troubles import told, trouble
from tests.model.judge import judge
from tests.simulation.desired import amiss
from tests.simulation.faults.histories import QUIET_SECONDS
from tests.simulation.histories import ACTS, Act, History, make_history
from tests.simulation.place import Json
from tests.simulation.scripts import NAME
from tests.support.kinds import resource_of
from tjworker.api.kinds import KINDS
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource, JobKey, JobName
from tjworker.kube.resources import RESOURCES

BEGIN_EVERY_SECONDS = 0.5
LATE_SECONDS = 900.0
"""By so much later than the model has it may come what is due: as long as troubles come, one after another."""
TROUBLE_EVERY_SECONDS = (8.0, 25.0)
NODE_AWAY_SECONDS = 75.0
"""Kubernetes' own grace is 40 to 50."""
STILL_SECONDS = 65.0
"""So late may come what is late: a watcher's lease, a list that waits its 30 s, a resync."""
STILL_WITHIN_SECONDS = 300.0
SETTLE_SECONDS = 10.0
QUIET_PASSES = 50
PASSES_WITHIN_SECONDS = 600.0
FIRST_ACT_SECONDS = 5.0
ACTORS = 8
BEGIN_TRIES = 240
_CHILDREN = (PODS, SERVICES, REPLICASETS, BATCH_JOBS)


@contextmanager
def suppress_code(code: int) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.code != code:
            raise


class RealPlace:
    """The namespace of one history."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    def the_job(self) -> Json | None:
        for job_kind in KINDS.values():
            if found := self.objects(f"{job_kind.group}/{job_kind.plural}").get(NAME):
                return found
        return None

    def pods(self) -> dict[str, Json]:
        return self.objects(PODS)

    def objects(self, bucket: str) -> dict[str, Json]:
        group, _, plural = bucket.rpartition("/")
        resource = GroupResource(f"{plural}.{group}" if group else plural)
        found = self.client.get(RESOURCES[resource].path(self.namespace))
        # The items of a list have neither kind nor apiVersion.
        head = {"kind": found["kind"].removesuffix("List"), "apiVersion": found["apiVersion"]}
        return {item["metadata"]["name"]: {**head, **item} for item in found["items"]}

    def exit_pod(self, name: str, code: int) -> None:
        self.client.patch(
            f"/api/v1/namespaces/{self.namespace}/pods/{name}",
            {"metadata": {"annotations": {f"{PREFIX}exit": str(code)}}},
        )


@dataclass(slots=True)
class Played:
    history: History
    place: RealPlace
    done: int = 0
    refused: int = 0

    @property
    def key(self) -> JobKey:
        return JobName(resource_of(self.history.manifest), self.place.namespace, NAME).key

    def begin(self) -> None:
        """Insists: the API server may be away."""
        for _ in range(BEGIN_TRIES):
            try:
                with suppress_code(409):  # done already, and the answer was lost
                    self.place.client.create("/api/v1/namespaces", {"metadata": {"name": self.place.namespace}})
                with suppress_code(409):
                    self.history.begin(self.place)
                return
            except ApiError as error:
                if error.code in (400, 422):
                    raise AssertionError(f"{self.history}: the API server refuses the job: {error.message}") from error
                time.sleep(0.5)
        raise NotInTimeError(f"{self.place.namespace} could not be begun")

    def act(self, act: Act) -> None:
        try:
            ACTS[act.what](self.place, self.history, act)
            self.done += 1
        except ApiError:  # gone meanwhile, refused by a rule, or the API server is away: so it is for users
            self.refused += 1


class Histories:
    def __init__(self, system: System, rng: random.Random, count: int) -> None:
        self._system = system
        self._rng = rng
        self._client = HttpClient(from_kubeconfig(system.plane.kubeconfig))
        self._prefix = f"history-{rng.randrange(10**6)}-"
        self._all = [
            Played(make_history(seed, simulated=False), RealPlace(self._client, f"{self._prefix}{seed}"))
            for seed in rng.sample(range(10**6), count)
        ]
        self._troubles: Counter[str] = Counter()
        self._calm_seconds = 0.0
        self._nodes = sorted(node["metadata"]["name"] for node in self._client.get("/api/v1/nodes")["items"])

    def play(self) -> tuple[list[str], float, str]:
        """(what was wrong, seconds from calm until each was as it should be, what was done)."""
        try:
            with Chronicler(self._system.plane.kubeconfig, self._prefix) as chronicler:
                self._busy()
                wrong = list(self._calm())
            judged = judge(chronicler.chronicle(), time.time(), LATE_SECONDS)
        finally:
            self._fail(self._nodes[0], None)
            self._client.close()
        done, refused = sum(p.done for p in self._all), sum(p.refused for p in self._all)
        words = (
            f"{done} acts of users and pods ({refused} more refused), {told(self._troubles)}, {QUIET_PASSES} quiet"
            f" passes; {judged.reached.total()} cases of {sum(map(bool, judged.reached.values()))} rules of the model,"
            f" {chronicler.gaps} gaps in what it was told, {len(judged.wrong)} times doubtful:"
            f" {'; '.join(judged.wrong[:5]) or 'nothing'}"
        )
        return wrong, self._calm_seconds, words

    # -- for some minutes --------------------------------------------------------------------------
    def _busy(self) -> None:
        began = time.monotonic()
        agenda = deque(
            sorted(
                (
                    (number * BEGIN_EVERY_SECONDS + at, do)
                    for number, played in enumerate(self._all)
                    for at, do in _agenda(played)
                ),
                key=lambda one: one[0],
            )
        )
        over = agenda[-1][0]
        node_fails = deque([over / 4, over * 3 / 4])
        node_recovers, next_trouble = over, self._rng.uniform(*TROUBLE_EVERY_SECONDS)
        with ThreadPoolExecutor(ACTORS) as actors:
            under_way = []
            while (now := time.monotonic() - began) < over:
                while agenda and agenda[0][0] <= now:
                    under_way.append(actors.submit(agenda.popleft()[1]))
                if now > next_trouble:
                    self._troubles[trouble(self._system, self._rng)] += 1
                    next_trouble = now + self._rng.uniform(*TROUBLE_EVERY_SECONDS)
                if node_fails and now > node_fails[0]:
                    node_fails.popleft()
                    self._fail(self._nodes[0], "NotReady")
                    self._troubles["node that fails"] += 1
                    node_recovers = now + NODE_AWAY_SECONDS
                if now > node_recovers:
                    self._fail(self._nodes[0], None)
                    node_recovers = over
                time.sleep(0.05)
            under_way += [actors.submit(do) for _, do in agenda]
            for one in under_way:
                one.result()

    # -- and then ----------------------------------------------------------------------------------
    def _calm(self) -> Iterator[str]:
        self._fail(self._nodes[0], None)
        began = time.monotonic()
        while True:
            left = self._until_as_they_should_be(self._all, began + QUIET_SECONDS)
            self._calm_seconds = time.monotonic() - began
            before = self._until_still()
            if left or not any(_amiss(played) for played in self._all):
                break
        for played, what in left:
            yield f"{played.place.namespace}: {QUIET_SECONDS:.0f} s of calm, and {'; '.join(what[:3])}"
        self._quiet_passes()
        time.sleep(SETTLE_SECONDS)
        after = self._versions()
        yield from (
            f"{what}: changed by passes that had nothing to do: {before.get(what)}, then {after.get(what)}"
            for what in sorted(before.keys() | after.keys())
            if before.get(what) != after.get(what)
        )
        held = [played for played in self._all if played not in [one for one, _ in left]]
        for played, what in self._until_as_they_should_be(held, time.monotonic()):
            yield f"{played.place.namespace}: no longer as it should be: {'; '.join(what[:3])}"

    def _until_as_they_should_be(self, left: Sequence[Played], deadline: float) -> list[tuple[Played, list[str]]]:
        """Those that are not, and what is amiss."""
        while True:
            found = [(played, _amiss(played)) for played in left]
            left = [played for played, what in found if what]
            if not left or time.monotonic() > deadline:
                return [(played, what) for played, what in found if what]
            time.sleep(1)

    def _until_still(self) -> Mapping[str, tuple[str, str]]:
        deadline, before, since = time.monotonic() + STILL_WITHIN_SECONDS, self._versions(), time.monotonic()
        while time.monotonic() - since < STILL_SECONDS:
            time.sleep(1)
            now = self._versions()
            if now != before:
                before, since = now, time.monotonic()
            if time.monotonic() > deadline:
                raise NotInTimeError(f"after {STILL_WITHIN_SECONDS:.0f} s something changes still")
        return before

    def _versions(self) -> dict[str, tuple[str, str]]:
        """Of every object of every history: its UID and resourceVersion."""
        return {
            f"{meta['namespace']}/{resource}/{meta['name']}": (meta["uid"], meta["resourceVersion"])
            for resource in (*KINDS, *_CHILDREN)
            for meta in (item["metadata"] for item in self._client.get(RESOURCES[resource].path())["items"])
            if meta["namespace"].startswith(self._prefix)
        }

    def _quiet_passes(self) -> None:
        """A key that is taken into the queue again has had the pass before it."""
        passes: Counter[JobKey] = Counter({played.key: 0 for played in self._all})

        def done() -> bool:
            taken = self._system.store.queue.add([key for key, count in passes.items() if count <= QUIET_PASSES])
            self._system.publisher.publish(taken)
            passes.update(taken)
            return all(count > QUIET_PASSES for count in passes.values())

        self._system.until(f"{QUIET_PASSES} passes of each job", done, PASSES_WITHIN_SECONDS)

    def _fail(self, node: str, how: str | None) -> None:
        """None: it is well again. The API server may be away."""
        self._system.until(
            f"{node} is told",
            lambda: bool(
                self._client.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {FAIL_ANNOTATION: how}}})
            ),
            60,
        )


def _agenda(played: Played) -> Iterator[tuple[float, Callable[[], None]]]:
    """Seconds after its beginning -> what to do."""
    yield 0.0, played.begin
    for act in played.history.acts:
        if act.what in ACTS:
            yield FIRST_ACT_SECONDS + act.at_seconds, partial(played.act, act)


def _amiss(played: Played) -> list[str]:
    try:
        return amiss(played.place)
    except ApiError as error:
        return [f"the API server does not tell: {error.message}"]
