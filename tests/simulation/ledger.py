"""Book-keeping at the API server's own store: how often each object was made and deleted, and whether a pod was ever
too many.

A pod or child has a name of its own from the operator, or a made-up one from a ReplicaSet or Job; the latter are
counted together under `<controller>/*`, as which of them is which means nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from localcluster.storage import Event, Store
from tests.support.kinds import resource_of
from tjworker.api import kinds, labels
from tjworker.api.model import TrainingJob
from tjworker.kube.resources import RESOURCES

Json = dict[str, Any]
JOBS = {f"{row.group}/{row.plural}" for row in RESOURCES.values() if row.is_job}
CHILDREN = ("pods", "services", "apps/replicasets", "batch/jobs")


class Ledger:
    def __init__(self, store: Store) -> None:
        self.creates: Counter[str] = Counter()
        self.deletes: Counter[str] = Counter()
        self.surplus: list[str] = []
        self.strangers: set[str] = set()
        """Pods that count for no job, whatever their labels say."""
        self._store = store
        self._wanted: dict[str, dict[str, int]] = {}
        """UID of a job -> role -> the most replicas it has ever asked for."""
        self._generations: dict[str, int | None] = {}
        self._next = store.on_event
        store.on_event = self._see

    def _see(self, event: Event) -> None:
        if event.bucket in JOBS:
            self._note_wanted(event.item.obj)
        elif event.bucket in CHILDREN and event.key[1] != "kubernetes":
            name = f"{event.bucket}/{called(event.item.obj)}"
            if event.type == "ADDED":
                self.creates[name] += 1
                if event.bucket == "pods":
                    self._check_surplus(event.item.obj)
            elif event.type == "DELETED":
                self.deletes[name] += 1
        self._next(event)

    def _note_wanted(self, job: Json) -> None:
        meta = job["metadata"]
        if self._generations.get(meta["uid"]) == meta.get("generation"):
            return
        self._generations[meta["uid"]] = meta.get("generation")
        parsed = kinds.parse(resource_of(job), job)
        if isinstance(parsed, TrainingJob):
            wanted = self._wanted.setdefault(meta["uid"], {})
            for role in parsed.roles:
                most = role.max_replicas if role.edl_policy == "Auto" else None
                wanted[role.name] = max(wanted.get(role.name, 0), role.replicas, most or 0)

    def _check_surplus(self, pod: Json) -> None:
        marks = pod["metadata"].get("labels") or {}
        uid, role = marks.get(labels.JOB_UID, ""), marks.get(labels.REPLICA_NAME, "")
        most = self._wanted.get(uid, {}).get(role)
        if most is None:
            return
        alive = [
            name
            for (_, name), item in self._store.items("pods")
            if name not in self.strangers and _alive(item.obj, uid, role)
        ]
        if len(alive) > most:
            self.surplus.append(f"{len(alive)} pods of role {role} live, {most} were ever wanted: {' '.join(alive)}")


def called(obj: Json) -> str:
    meta = obj["metadata"]
    owner: Json = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), {})
    return f"{owner['kind']} {owner['name']}/*" if owner.get("kind") in ("ReplicaSet", "Job") else str(meta["name"])


def _alive(pod: Json, uid: str, role: str) -> bool:
    marks = pod["metadata"].get("labels") or {}
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    ours = (marks.get(labels.JOB_UID), marks.get(labels.REPLICA_NAME)) == (uid, role)
    return ours and not ended and "deletionTimestamp" not in pod["metadata"]
