"""Row 13: a job with a field edited while it runs, beside a fresh job with that spec, through the same events.

Both run, have every pod replaced (`spec.replicaSpecs.<role>.template` and its like hold for pods that are made from
then on), lose a pod of each role to a failure, and have what is left succeed. At each stage the two must look alike, or
the field was refused with a reason: by the API server, or in the job's condition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from localcluster.client import ApiError
from tests.scenarios.world import World
from tests.simulation.schemawalk import UNSET, Field, Json, fields, put
from tests.support.guests import whole_guest
from tests.support.kinds import TEST_KINDS, TRAININGJOBS, collection_of
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.api.kinds.base import seen_status
from tjworker.api.resources import SERVICES
from tjworker.api.status import END_PHASES
from tjworker.base import GroupResource

SECONDS_A_STAGE = 12
"""Long enough for a replacement, shorter than the rest of a replica that crashes again and again."""
AS_APPLIED = "as it was first: "
"""Refused, or at its end, before it came to the edit."""
GUESTS = tuple(map(GroupResource, ("mpijobs.kubeflow.org", "pytorchjobs.kubeflow.org", "tfjobs.training.kubedl.io")))
"""Of other operators' kinds those whose pods are kept in ways of their own."""
BASES = {
    **{resource: made.whole() for resource, made in TEST_KINDS.items()},
    **{resource: whole_guest(resource) for resource in GUESTS},
}


@dataclass(frozen=True)
class Seen:
    """What came of a job: refused, with whose words, or how it stood at each stage."""

    refused: str = ""
    stages: tuple[Json, ...] = ()


class Watched:
    """One world with one job."""

    def __init__(self, resource: GroupResource, manifest: Json) -> None:
        self.resource = resource
        kinds: dict[str, Any] = {"kinds": str(resource)} if resource in GUESTS else {}
        self.world = World(seed=1, **kinds)
        self.jobs = collection_of(manifest)
        self.world.cluster.client.create(self.jobs, manifest)
        self.settle()

    def settle(self) -> None:
        self.world.run().advance(SECONDS_A_STAGE, step_seconds=2)
        bugs = [r for r in self.world.results if r.startswith("bug") or "next try in 300 s" in r]
        assert not bugs, bugs[0]

    def edit(self, path: tuple[str | int, ...], value: Any) -> None:
        live = self.world.cluster.client.get(f"{self.jobs}/digits")
        self.world.cluster.client.update(f"{self.jobs}/digits", put(live, path, value))

    def through_its_stages(self) -> Iterator[Json]:
        self.settle()
        for pod in sorted(self.world.pods()):
            self.world.delete_pod(pod)
        self.settle()
        yield self.look()
        for role, code in self._fail():
            self._exit(sorted(pod for pod in self.world.pods() if pod.startswith(f"digits-{role}"))[:1], code)
            self.settle()
            yield self.look()
        self._exit(sorted(self.world.pods()), 0)
        self.settle()
        yield self.look()

    def _fail(self) -> Sequence[tuple[str, int]]:
        """Roles of which a pod fails, one after another, and how."""
        if self.resource not in GUESTS:
            return (("trainer", 137), ("ps", 1))
        kind = KNOWN_KINDS[self.resource]
        others = sorted(BASES[self.resource]["spec"][kind.roles_field].keys() - {kind.scale_role})
        return ((kind.scale_role.lower(), 137), *((role.lower(), 1) for role in others))

    def _exit(self, pods: list[str], code: int) -> None:
        seen = self.world.pods()
        for pod in pods:
            if seen.get(pod, {}).get("status", {}).get("phase") == "Running":
                self.world.cluster.kubelet.exit("default", pod, code)

    def job(self) -> Json | None:
        found = self.world.cluster.client.get(self.jobs)["items"]
        return found[0] if found else None

    def ended(self) -> bool:
        return seen_status(self.job() or {}).get("phase") in END_PHASES

    def _pods(self) -> Json:
        """By name; those of a ReplicaSet or Job, whose names are made up and whose template is fixed, by role and
        phase."""
        pods = self.world.pods()
        if self.resource != TRAININGJOBS:
            return {name: _plain(pod) for name, pod in pods.items()}
        return dict(
            Counter(f"{p['metadata']['labels'].get('replica-name')} {p['status'].get('phase')}" for p in pods.values())
        )

    def refused(self) -> str:
        for condition in seen_status(self.job() or {}).get("conditions", ()):
            if condition["reason"] in ("InvalidSpec", "FailedCreate"):
                return str(condition["message"])
        return ""

    def look(self) -> Json:
        job = self.job()
        if job is None:
            return {"job": "gone", "pods": sorted(self.world.pods())}
        status = seen_status(job)
        return {
            "spec": job["spec"],
            "phase": status.get("phase"),
            "conditions": {
                c["type"]: (c["status"], c["reason"])
                for c in status.get("conditions", ())
                if c["type"] not in ("Scaling", "Suspended", "Restarting")
            },
            "restarts": status.get("restartCounts"),
            "pods": self._pods(),
            # Names of ports are not in the projection: a service keeps them when only they change.
            "services": {
                s["metadata"]["name"]: sorted(p["port"] for p in s["spec"].get("ports", ()))
                for s in self.world.get(SERVICES)["items"]
                if s["metadata"]["name"] != "kubernetes"
            },
        }


def _plain(pod: Json) -> Json:
    """Without what no two worlds have in common, and without the number of the attempt."""
    meta, spec = pod["metadata"], dict(pod["spec"])
    for kind in ("containers", "initContainers"):
        spec[kind] = [
            {**c, "env": [e for e in c.get("env", ()) if e["name"] != "TRAININGJOB_REPLICA_RESTARTCOUNT"]}
            for c in spec.get(kind, ())
        ]
    labels = {
        k: v
        for k, v in meta.get("labels", {}).items()
        if k not in ("restart-attempt", "elasticdeeplearning.ai/job-uid")
    }
    return {
        "spec": {k: v for k, v in spec.items() if k not in ("nodeName", "volumes")},
        "labels": labels,
        "annotations": meta.get("annotations"),
        "phase": pod["status"].get("phase"),
    }


def live(resource: GroupResource, first: Json, path: tuple[str | int, ...] = (), value: Any = None) -> Seen:
    """Apply `first`, and if there is a `path`, then edit that field."""
    early = AS_APPLIED if path else ""
    try:
        watched = Watched(resource, first)
        if path and watched.refused():
            return Seen(early + watched.refused())
        if path and watched.ended():
            return Seen(early + "it had ended")
        early = ""
        if path:
            watched.edit(path, value)
    except ApiError as error:
        if error.code >= 500 or not error.message:
            raise
        return Seen(early + error.message)
    stages = tuple(watched.through_its_stages())
    refused = watched.refused()
    return Seen(refused) if refused else Seen("", stages)


@cache
def all_fields() -> Mapping[str, Field]:
    return {str(field): field for resource, base in BASES.items() for field in fields(resource, base)}


def with_value(name: str, index: int | None) -> Json:
    """The base manifest with the field's value of that number; None: as it is."""
    field = all_fields()[name]
    if index is None:
        return BASES[field.resource]
    value = field.values[index]
    base = put(BASES[field.resource], field.path, value)
    if field.path[-1] == "replicas" and isinstance(value, int) and value > 100:
        base = put(base, KNOWN_KINDS[field.resource].suspend_path, True)  # ten thousand pods need not run
    return base


@cache
def fresh(name: str, index: int) -> Seen:
    return live(all_fields()[name].resource, with_value(name, index))


def edited(name: str, old: int | None, new: int) -> Seen:
    field, target = all_fields()[name], with_value(name, new)
    first = with_value(name, old)
    if field.path[-1] == "replicas":
        path = KNOWN_KINDS[field.resource].suspend_path
        first = put(first, path, reduce(lambda at, step: at.get(step, {}), path, target) or UNSET)
    return live(field.resource, first, field.path, field.values[new])


def differences(mine: Seen, want: Seen, before: Seen | None = None) -> list[str]:
    """Between an edited job and a fresh one of that spec; `before`: a fresh one of the spec that was edited. One that
    does not run (it is suspended, or its scheduler does not exist) says other things of itself when it has run
    before."""
    objects: tuple[str, ...] = ("spec", "pods", "services")
    never_runs = bool(want.stages) and want.stages[0].get("phase") in ("Pending", "Creating", "Suspended")
    if any(
        " Pending" in str(pod)
        for seen in (before or want, want)
        for stage in seen.stages
        for pod in stage.get("pods", ())
    ):
        # An owner keeps the template it was made with: its pods go on where a new one waits, and wait where it goes on.
        objects = ("spec", "services")
        never_runs = True
    return [
        f"stage {number}, {what}: edited {stage.get(what)}, fresh {wanted.get(what)}"
        for number, (stage, wanted) in enumerate(zip(mine.stages, want.stages, strict=True))
        for what in sorted(stage.keys() | wanted.keys())
        if stage.get(what) != wanted.get(what) and (what in objects or not never_runs)
    ]
