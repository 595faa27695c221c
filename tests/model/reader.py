"""From the chronicle to lives: what each write tells of whom."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.model.chronicle import Chronicle, Json, Write
from tests.model.contract import DUE_SECONDS, ENDS, GPU_CONDITIONS, GPU_RESOURCES
from tests.model.lives import NEVER, POD_GROUPS, Life, Node, Pod, Thing, Version
from tjworker.api import kinds, labels
from tjworker.api.kinds.base import MEMORY, seen_status
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.naming import counted_names

NAMED = frozenset(f"{of.group}/{of.plural}" for kind in kinds.GUEST_KINDS for of in kind.companions)
"""Buckets of what jobs name in their specs, such as runtimes: a chronicle has them, too."""


class Reader:
    def __init__(self, chronicle: Chronicle, until: float, late_seconds: float) -> None:
        self.lives: dict[str, Life] = {}
        self._pods: dict[str, Pod] = {}
        self._things: dict[str, Thing] = {}
        self._nodes: dict[str, Node] = {}
        self._named: dict[tuple[str, str], Json] = {}
        """By bucket and name: the objects that jobs name in their specs, such as runtimes."""
        self._keeps: dict[str, Life] = {}
        """UID of a ReplicaSet or batch Job -> the job whose it is."""
        for write in chronicle.writes:
            if write.bucket == "pods":
                self._pod(write)
            elif write.bucket in ("services", "apps/replicasets", "batch/jobs", POD_GROUPS):
                self._thing(write)
            elif write.bucket == "nodes":
                self._node(write)
            elif write.bucket in NAMED:
                self._named[write.bucket, write.obj["metadata"]["name"]] = write.obj
            elif (write.bucket.partition("/")[0], write.obj.get("kind")) in kinds.OWNERS:
                self._job(write)
        for life in self.lives.values():
            life.until, life.nodes, life.due_seconds = until, self._nodes, DUE_SECONDS + late_seconds
            same = (one for one in self.lives.values() if (one.kind, one.name) == (life.kind, life.name))
            life.earlier = [one for one in same if one.began_at < life.began_at]

    # -- jobs --------------------------------------------------------------------------------------

    def _job(self, write: Write) -> None:
        meta, raw = write.obj["metadata"], write.obj
        life = self.lives.get(meta["uid"])
        if life is None:
            life = self.lives[meta["uid"]] = Life(meta["uid"], meta["name"], raw["kind"], write.at, [])
        if "deletionTimestamp" in meta and life.asked_at == NEVER:
            life.asked_at, life.asked_by = write.at, write.author
        if write.kind == "DELETED":
            life.gone_at = write.at
            if life.asked_at == NEVER:
                life.asked_at, life.asked_by = write.at, write.author
            return
        status, told = dict(seen_status(raw)), raw.get("status") or {}
        last = life.versions[-1] if life.versions else None
        if last is not None:
            last.until = write.at
            status = last.status if last.status == status else status
        life.versions.append(
            Version(
                write.at,
                write.author,
                self._parsed(write, last),
                status,
                int(meta.get("generation", 0)),
                told=told if MEMORY in told else {},
            )
        )
        if status.get("ending") and life.ending_at == NEVER:
            life.ending_at = write.at
        if status.get("phase") in ENDS and life.ended_at == NEVER:
            life.ended_at = write.at
            life.ending_at = min(life.ending_at, write.at)

    def _parsed(self, write: Write, last: Version | None) -> TrainingJob | None:
        """The same object while nothing that it is made of has changed."""
        raw, was = write.obj, write.before
        if last is not None and was is not None and _made_of(raw) == _made_of(was):
            return last.job
        resource = kinds.OWNERS[write.bucket.partition("/")[0], raw["kind"]]
        job = kinds.parse(resource, raw)
        if isinstance(job, InvalidJob) and job.missing is not None:
            plural, _, group = job.missing.resource.partition(".")
            found = self._named.get((f"{group}/{plural}", job.missing.name))
            job = kinds.parse(resource, kinds.with_companion(resource, raw, found)) if found else job
        return job if isinstance(job, TrainingJob) else None

    # -- pods --------------------------------------------------------------------------------------

    def _pod(self, write: Write) -> None:
        meta, raw = write.obj["metadata"], write.obj
        marks = meta.get("labels") or {}
        life = self.lives.get(marks.get(labels.JOB_UID, ""))
        pod = self._pods.get(meta["uid"])
        if pod is None:
            if life is None or self._owner(meta) is not life:
                return
            pod = self._pods[meta["uid"]] = Pod(
                meta["uid"],
                meta["name"],
                marks.get(labels.REPLICA_NAME, ""),
                write.at,
                write.author,
                _number(marks.get(labels.RESTART_ATTEMPT)) or 0,
                _number(marks.get(labels.REPLICA_INDEX)),
                raw,
                next(one["uid"] for one in meta["ownerReferences"] if one.get("controller")),
            )
            containers = raw["spec"].get("containers") or ()
            pod.gpus = sum(_gpus((one.get("resources") or {}).get("limits")) for one in containers)
            (life.boards if labels.TENSORBOARD_CONFIG in marks else life.pods).append(pod)
            if write.author == "operator":
                life.made.append(write)
        elif pod.index is None:
            pod.index = _number(marks.get(labels.REPLICA_INDEX))
        pod.raw = raw
        _follow(pod, write)

    def _thing(self, write: Write) -> None:
        meta, raw = write.obj["metadata"], write.obj
        thing = self._things.get(meta["uid"])
        if thing is None:
            marks = meta.get("labels") or {}
            life = self._owner(meta)
            if life is None:
                return
            self._keeps[meta["uid"]] = life
            role, index = marks.get(labels.REPLICA_NAME, ""), _number(marks.get(labels.REPLICA_INDEX))
            thing = Thing(write.bucket, meta["name"], meta["uid"], write.at, write.author, raw, index, role)
            self._things[meta["uid"]] = thing
            (life.boards if labels.TENSORBOARD_CONFIG in marks else life.things).append(thing)
            if write.author == "operator":
                life.made.append(write)
        spec = raw.get("spec") or {}
        size = int(spec.get("replicas", spec.get("parallelism", _gang_of(spec))) or 0)
        if not thing.sizes or thing.sizes[-1][1] != size:
            thing.sizes.append((write.at, size))
        thing.raw = raw
        if thing.asked_at == NEVER and ("deletionTimestamp" in meta or write.kind == "DELETED"):
            thing.asked_at = write.at
        if write.kind == "DELETED":
            thing.gone_at, thing.gone_by = write.at, write.author

    def _owner(self, meta: Json) -> Life | None:
        """Whose it is by its controller: the job itself, or a ReplicaSet or batch Job of it. A label proves nothing."""
        for owner in meta.get("ownerReferences") or ():
            if owner.get("controller"):
                return self.lives.get(owner["uid"]) or self._keeps.get(owner["uid"])
        return None

    # -- nodes -------------------------------------------------------------------------------------

    def _node(self, write: Write) -> None:
        node = self._nodes.setdefault(write.name, Node())
        told = {c["type"]: c["status"] for c in (write.obj.get("status") or {}).get("conditions") or ()}
        gone = write.kind == "DELETED"
        _span(node.ill, write.at, gone or told.get("Ready") != "True")
        count = _gpus((write.obj.get("status") or {}).get("allocatable"))
        if not gone and (not node.gpus or node.gpus[-1][1] != count):
            node.gpus.append((write.at, count))
        _span(node.gpu_ill, write.at, not gone and any(told.get(one) == "True" for one in GPU_CONDITIONS))


def _span(spans: list[tuple[float, float]], at: float, lasts: bool) -> None:
    """The last of these begins, goes on or ends."""
    is_open = bool(spans) and spans[-1][1] == NEVER
    if lasts and not is_open:
        spans.append((at, NEVER))
    elif is_open and not lasts:
        spans[-1] = (spans[-1][0], at)


def _made_of(raw: Json) -> Any:
    """What a job is parsed from, but for the rest of its status."""
    meta, status = raw["metadata"], seen_status(raw)
    told = status.get("targets"), status.get("targetsBeside")
    return meta.get("generation"), meta.get("annotations"), meta.get("labels"), told


def _follow(pod: Pod, write: Write) -> None:
    """What this write tells of the pod."""
    meta, status, at = write.obj["metadata"], write.obj.get("status") or {}, write.at
    if not pod.node and (node := (write.obj.get("spec") or {}).get("nodeName")):
        pod.node, pod.bound_at = node, at
    phase = status.get("phase")
    if phase == "Running":
        pod.running_at = min(pod.running_at, at)
    if phase in ("Succeeded", "Failed"):
        if pod.ended_at == NEVER:
            pod.ended_at, pod.succeeded = at, phase == "Succeeded"
        pod.reason = pod.reason or str(status.get("reason", ""))
        pod.exit_codes = pod.exit_codes or _exit_codes(status)
    for condition in status.get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition["status"] == "True":
            pod.disruption = pod.disruption or condition.get("reason", "")
    told = status.get("containerStatuses") or ()
    counted = counted_names([c["name"] for c in told])
    again = sum(int(c.get("restartCount", 0)) for c in told if c["name"] in counted)
    if again and (not pod.restarts or again > pod.restarts[-1][1]):
        pod.restarts.append((at, again))
    if pod.device_ill_at == NEVER and any(_device_ill(c) for c in told):
        pod.device_ill_at = at
    gone = write.kind == "DELETED"
    if pod.asked_at == NEVER and (gone or "deletionTimestamp" in meta):
        pod.asked_at, pod.asked_by = at, write.author
    forced = pod.node and pod.ended_at == NEVER and (gone or meta.get("deletionGracePeriodSeconds") == 0)
    # Who lets a pod go that another has asked to go with grace 0, and that a finalizer held, has not forced it.
    asked = write.before is not None and write.before["metadata"].get("deletionGracePeriodSeconds") == 0
    if pod.forced_at == NEVER and forced and not asked and write.author == "operator":
        pod.forced_at = at
    if gone:
        pod.gone_at = at


def _exit_codes(status: Json) -> tuple[int, ...]:
    """Of the containers that count."""
    told = status.get("containerStatuses") or ()
    counted = counted_names([c["name"] for c in told])
    ended = [c["state"]["terminated"] for c in told if c["name"] in counted and "terminated" in (c.get("state") or {})]
    return tuple(int(one.get("exitCode", 0)) for one in ended)


def _device_ill(container: Json) -> bool:
    return any(
        one.get("health") == "Unhealthy"
        for device in container.get("allocatedResourcesStatus") or ()
        for one in device.get("resources") or ()
    )


def _gang_of(spec: Json) -> int:
    """How many pods of a PodGroup start together; 1 of anything else."""
    return int(((spec.get("schedulingPolicy") or {}).get("gang") or {}).get("minCount", 1))


def _gpus(told: Json | None) -> int:
    return sum(int((told or {}).get(resource, 0)) for resource in GPU_RESOURCES)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def lives(chronicle: Chronicle, until: float, late_seconds: float = 0.0) -> Iterable[Life]:
    """Every job that the chronicle tells of; `until`: when it ends. `late_seconds`: by so much more than usual may be
    late what is due."""
    return Reader(chronicle, until, late_seconds).lives.values()
