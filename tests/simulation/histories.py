"""Row 10's histories: a job of any shape, and what users, nodes, pods and the operator's own troubles do to it for five
minutes; all drawn from one seed. After that it is quiet: nodes are well, nothing fails.

An act is data, so that a history can be told, played without some of its acts, and cut down to those that matter. What
users and pods do is here, for any cluster; nodes and troubles of a simulated operator are in `busy.py`, those of a real
one in `tests/chaos`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.scenarios.world import job, play, role
from tests.simulation import themes
from tests.simulation.guests import ADDONS, random_guest, restarts_of
from tests.simulation.inputs import POLICIES
from tests.simulation.place import Place
from tests.simulation.scenarios import trainingjob
from tests.simulation.scripts import NAME, Wish
from tests.support.kinds import collection_of, resource_of
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import JobKind

Json = dict[str, Any]
BUSY_SECONDS = 300.0
ROLES = ("ps", "trainer", "worker")
FOR_EVER: Mapping[str, object] = {"start_seconds": 1, "run_seconds": 1_000_000}


@dataclass(frozen=True)
class Act:
    at_seconds: float
    what: str
    number: int = 0
    """Which of those that there are then, or how many."""
    value: Any = None

    def __str__(self) -> str:
        return f"{self.at_seconds:5.1f} s  {self.what} {self.number} {'' if self.value is None else self.value}"


@dataclass(frozen=True)
class History:
    seed: int
    manifest: Json
    acts: tuple[Act, ...]
    gang: bool = False
    """Its pods start together."""

    @property
    def kind(self) -> JobKind:
        return KNOWN_KINDS[resource_of(self.manifest)]

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of an operator that is simulated."""
        kinds = {} if self.kind.guest is None else {"kinds": str(self.kind.resource)}
        return {**kinds, **({"gang_scheduler": "kubernetes"} if self.gang else {})}

    def path(self, place: Place) -> str:
        return collection_of(self.manifest, place.namespace)

    def begin(self, place: Place) -> None:
        place.client.create(self.path(place), self.manifest)

    def __str__(self) -> str:
        return "\n".join([f"history {self.seed}", str(self.manifest), *map(str, self.acts)])


def make_history(seed: int, *, simulated: bool = True) -> History:
    """`simulated`: its cluster has nodes with GPUs, so some jobs ask for them; and what a finalizer holds may stay."""
    rng = random.Random(seed)
    drawn = rng.random()
    make = _with_gpus if simulated and drawn < 0.1 else _aitrainingjob if drawn < 0.65 else _trainingjob
    beside = random.Random(f"{seed}: beside")
    if simulated and make is not _with_gpus and beside.random() < 0.3:
        make = random_guest
    manifest = make(rng)
    if simulated and make is not _trainingjob and beside.random() < 0.15:
        manifest["metadata"]["annotations"] = dict(ADDONS)
    chances = CHANCES if make is not _with_gpus else {**CHANCES, **CHANCES_WITH_GPUS}
    kinds, weights = zip(*chances.items(), strict=True)
    acts = [
        Act(round(rng.uniform(0, BUSY_SECONDS), 1), what, rng.randrange(1000), _value(rng, what))
        for what in rng.choices(kinds, weights, k=rng.randint(4, 16))
    ]
    if simulated and (others := random.Random(f"{seed}: others")).random() < 0.1:  # no other draw hangs on it
        acts.append(Act(round(others.uniform(0, BUSY_SECONDS), 1), "service of before"))
    gang = simulated and make is not _with_gpus and beside.random() < 0.2
    if simulated and (theme := themes.theme_of(seed)):
        manifest, told = theme(beside)
        acts = [*(Act(*one) for one in told), *acts[: beside.randint(0, themes.BESIDE)]]
    return History(seed, manifest, tuple(sorted(acts, key=lambda act: act.at_seconds)), gang)


def _aitrainingjob(rng: random.Random) -> Json:
    roles = {}
    for name in rng.sample(ROLES, rng.randint(1, 3)):
        policies = {
            key: value
            for key, values in POLICIES.items()
            if rng.random() < 0.6 and (value := rng.choice(values)) is not None
        }
        if rng.random() < 0.5:
            # So that not every history ends early.
            scope = rng.choice(("Pod", "Pod", "Replica", "All"))
            policies |= {"restartPolicy": "Always", "restartLimit": 100, "restartScope": scope}
        told = {**FOR_EVER, "start_seconds": rng.choice((1, 1, 1, 40))}
        if rng.random() < 0.2:
            told |= {"failing_attempts": rng.choice((1, 4)), "failing_exit_code": rng.choice((1, 137))}
            told |= {"failing_run_seconds": 20}
        roles[name] = role(rng.randint(1, 3), annotations=play(**told), **policies)
    spec = _limits(rng)
    if len(roles) > 1 and rng.random() < 0.15:
        _fails_as_a_whole(rng, roles)
        spec["failPolicy"] = "All"
    return job(roles, **spec)


def _fails_as_a_whole(rng: random.Random, roles: Json) -> None:
    """Each of its roles fails with its first pod, but for one that has none yet."""
    for one in roles.values():
        one |= {"restartPolicy": "Never", "failPolicy": "Any", "replicas": 1}
    roles[rng.choice(sorted(roles))]["replicas"] = 0


def _limits(rng: random.Random) -> Json:
    """What there is beside the roles, each field in some jobs."""
    spec: Json = {}
    if rng.random() < 0.3:
        spec["cleanPodPolicy"] = rng.choice(("All", "Running", "None"))
    if rng.random() < 0.15:
        spec["timeLimit"] = rng.choice((60, 150, 250))
    if rng.random() < 0.15:
        spec["failPolicy"] = rng.choice(("All", "None"))
    if rng.random() < 0.15:
        spec["completePolicy"] = rng.choice(("Any", "None"))
    if rng.random() < 0.1:
        spec["suspend"] = True
    policy: Json = {
        name: rng.choice(values)
        for name, values in {
            "activeDeadlineSeconds": (60, 150, 250),
            "backoffLimit": (0, 1, 3),
            "ttlSecondsAfterFinished": (0, 30, 100),
        }.items()
        if rng.random() < 0.15
    }
    return {**spec, **({"runPolicy": policy} if policy else {})}


def _with_gpus(rng: random.Random) -> Json:
    """Two roles on a node of four GPUs. The first has done its work soon, and its pods stand there."""
    asks: Json = {"limits": {"nvidia.com/gpu": 1}}
    first = role(2, annotations=play(start_seconds=1, run_seconds=rng.choice((20, 60))), edlPolicy="Never")
    policy = rng.choice(("Always", "Always", "OnNodeFail", "OnFailure"))
    how: Json = {"restartPolicy": policy, "restartScope": "Pod", "edlPolicy": "Never"}
    second = role(2, annotations=play(start_seconds=rng.choice((1, 800)), run_seconds=1_000_000), **how)
    for one in (first, second):
        one["template"]["spec"]["containers"][0]["resources"] = asks
    return job({"ps": first, "trainer": second})


def _trainingjob(rng: random.Random) -> Json:
    wish = Wish(trainers=rng.randint(1, 3), run_seconds=1_000_000, elastic=rng.random() < 0.6)
    return trainingjob(wish, pservers=rng.choice((0, 1, 2)), fault_tolerant=wish.elastic or rng.random() < 0.7)


def _value(rng: random.Random, what: str) -> Any:
    if what == "edit":
        return rng.choice(
            (
                ("restartPolicy", rng.choice(POLICIES["restartPolicy"])),
                ("failPolicy", "None"),
                ("restartScope", rng.choice(POLICIES["restartScope"])),
                ("image", "trainer:2"),
                ("timeLimit", rng.choice((100, 200))),
            )
        )
    values: Mapping[str, tuple[Any, ...]] = {
        "scale": (0, 1, 2, 3, 4),
        "suspend": (True, False),
        "pod deleted": (None, 0, 5),
        "pod exits": (0, 1, 1, 137, 137),
        "role exits": (0, 0, 1, 137),
        "annotated": ("Preempted", "Failed", "NodeFail"),
        "GPUs fall away": (2, 2, 1),
        "node fails": ("NotReady", "gone"),
        "watch lost": (0.0, 5.0, 20.0),
        "requests refused": (5.0, 20.0),
        "Redis away": (3.0, 20.0),
        "tasks lost": (5.0, 30.0),
    }
    return rng.choice(values[what]) if what in values else None


# -- what users do ---------------------------------------------------------------------------------


def _scale(place: Place, history: History, act: Act) -> None:
    if history.kind.guest is not None:
        _patch_worker(place, history, {"replicas": max(1, act.value)})
    elif history.manifest["spec"].get("replicaSpecs") is not None:
        _patch_role(place, history, act.number, {"replicas": act.value})
    elif "max-instance" in history.manifest["spec"]["trainer"]:  # else the CRD's rules refuse it: not in every world
        place.client.patch(f"{history.path(place)}/{NAME}/scale", {"spec": {"replicas": max(1, act.value)}})


def _edit(place: Place, history: History, act: Act) -> None:
    field, value = act.value
    if history.kind.guest is not None:
        if field == "timeLimit":
            _patch(place, history, history.kind.with_run_policy({"activeDeadlineSeconds": value}))
        elif field == "image":
            _patch_worker(place, history, {"template": {"metadata": {"labels": {"edited": "yes"}}}})
        else:
            _patch_worker(place, history, {"restartPolicy": restarts_of(history.kind.kind)[act.number % 3]})
    elif "replicaSpecs" not in history.manifest["spec"]:
        _patch(place, history, {"spec": {"image": "trainer:2"}})
    elif field == "timeLimit":
        _patch(place, history, {"spec": {field: value}})
    elif field == "image":
        _patch_role(place, history, act.number, {"template": {"metadata": {"labels": {"edited": "yes"}}}})
    else:
        _patch_role(place, history, act.number, {field: value})


def _suspend(place: Place, history: History, act: Act) -> None:
    body: Any = act.value
    for step in reversed(history.kind.suspend_path):
        body = {step: body}
    _patch(place, history, body)


def _annotate(place: Place, history: History, act: Act) -> None:
    _patch(place, history, {"metadata": {"annotations": {act.value: "as asked"}}})


def _again(place: Place, history: History, act: Act) -> None:
    if place.the_job() is not None:
        place.client.delete(f"{history.path(place)}/{NAME}")
    history.begin(place)


def _patch_role(place: Place, history: History, number: int, body: Json) -> None:
    names = sorted(history.manifest["spec"]["replicaSpecs"])
    _patch(place, history, {"spec": {"replicaSpecs": {names[number % len(names)]: body}}})


def _patch_worker(place: Place, history: History, body: Json) -> None:
    _patch(place, history, {"spec": {history.kind.roles_field: {history.kind.scale_role: body}}})


def _patch(place: Place, history: History, body: Json) -> None:
    place.client.patch(f"{history.path(place)}/{NAME}", body)


# -- what happens to pods and other objects --------------------------------------------------------


def _delete_pod(place: Place, history: History, act: Act) -> None:
    if pod := _one(sorted(place.pods()), act.number):
        place.client.delete(_pod(place, pod), None if act.value is None else {"gracePeriodSeconds": act.value})


def _exit(place: Place, history: History, act: Act) -> None:
    running = sorted(name for name, pod in place.pods().items() if pod["status"].get("phase") == "Running")
    if pod := _one(running, act.number):
        place.exit_pod(pod, act.value)


def _exit_all(place: Place, history: History, act: Act) -> None:
    """Every pod of a role that runs, at once."""
    running = {name: pod for name, pod in place.pods().items() if pod["status"].get("phase") == "Running"}
    of = {name: pod["metadata"].get("labels", {}).get("replica-name", "") for name, pod in running.items()}
    role = _one(sorted({*of.values()}), act.number)
    for name in sorted(name for name in running if of[name] == role):
        place.exit_pod(name, act.value)


def _preempt(place: Place, history: History, act: Act) -> None:
    """As the scheduler does, for a pod of higher priority: it says so, and the pod ends."""
    if pod := _one(_alive(place), act.number):
        told = place.pods()[pod]["status"].get("conditions") or []
        why = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for room"}
        place.client.patch(f"{_pod(place, pod)}/status", {"status": {"phase": "Failed", "conditions": [*told, why]}})


def _alive(place: Place) -> list[str]:
    return sorted(name for name, pod in place.pods().items() if pod["status"].get("phase") in ("Pending", "Running"))


def _evict(place: Place, history: History, act: Act) -> None:
    if pod := _one(_alive(place), act.number):
        place.client.patch(
            f"{_pod(place, pod)}/status",
            {"status": {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}},
        )


def _delete_other(place: Place, history: History, act: Act) -> None:
    """A service, a ReplicaSet, a batch Job or a PodGroup, by hand."""
    roots = {"services": "/api/v1", "apps/replicasets": "/apis/apps/v1", "batch/jobs": "/apis/batch/v1"}
    roots |= {"scheduling.k8s.io/podgroups": "/apis/scheduling.k8s.io/v1alpha2"} if history.gang else {}
    found = sorted((bucket, name) for bucket in roots for name in place.objects(bucket) if name != "kubernetes")
    if found:
        bucket, name = found[act.number % len(found)]
        plural = bucket.rpartition("/")[2]
        place.client.delete(
            f"{roots[bucket]}/namespaces/{place.namespace}/{plural}/{name}", {"propagationPolicy": "Background"}
        )


def _service_of_before(place: Place, history: History, act: Act) -> None:
    """What an earlier job of this name has left: a load balancer's finalizer holds its service."""
    owner = {"apiVersion": history.manifest["apiVersion"], "kind": history.manifest["kind"], "name": NAME}
    meta = {
        "name": f"{NAME}-of-before",
        "ownerReferences": [{**owner, "uid": "5e1f0000-0000-4000-8000-000000000000", "controller": True}],
        "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 80}]}}
    place.client.create(f"/api/v1/namespaces/{place.namespace}/services", service)


def _pod(place: Place, name: str) -> str:
    return f"/api/v1/namespaces/{place.namespace}/pods/{name}"


def _one(names: list[str], number: int) -> str:
    return names[number % len(names)] if names else ""


ACTS: Mapping[str, Callable[[Place, History, Act], None]] = {
    "scale": _scale,
    "edit": _edit,
    "suspend": _suspend,
    "deleted and created again": _again,
    "pod deleted": _delete_pod,
    "pod exits": _exit,
    "role exits": _exit_all,
    "pod evicted": _evict,
    "pod preempted": _preempt,
    "annotated": _annotate,
    "object deleted": _delete_other,
    "service of before": _service_of_before,
}
"""May raise ApiError: the cluster refuses it."""
CHANCES: Mapping[str, int] = {
    "scale": 12,
    "edit": 6,
    "suspend": 8,
    "deleted and created again": 2,
    "pod deleted": 10,
    "pod exits": 10,
    "role exits": 4,
    "pod evicted": 5,
    "pod preempted": 3,
    "annotated": 1,
    "object deleted": 6,
    "node fails": 6,
    "node recovers": 6,
    "worker dies": 8,
    "watcher dies": 4,
    "Redis wiped": 4,
    "watch lost": 8,
    "requests refused": 6,
    "Redis away": 4,
    "tasks lost": 6,
}
"""How often each is drawn."""
CHANCES_WITH_GPUS: Mapping[str, int] = {
    "GPUs ail": 30,
    "GPUs fall away": 30,
    "scale": 2,
    "suspend": 2,
    "role exits": 1,
    "pod exits": 4,
    "edit": 2,
    "node fails": 2,
    "annotated": 0,
    "deleted and created again": 0,
}
"""A GPU must ail for minutes under a pod that waits for its start: little else may end the job before."""
