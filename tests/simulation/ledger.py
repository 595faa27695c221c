"""Book-keeping at the API server's own store: how often each object was made and deleted, which pods nobody had asked
for, and which times in a status cannot be. Each write is judged at its own moment.

A pod or child has a name of its own from the operator, or a made-up one from a ReplicaSet or Job; the latter are
counted together under `<controller>/*`, as which of them is which means nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from localcluster.storage import Event, Store
from tests.simulation.times import untimely
from tests.simulation.wanted import UNTOLD_SECONDS, size_of, unwanted_pod, unwanted_size
from tests.support.kinds import resource_of
from tjworker.api import kinds, labels
from tjworker.api.kinds.base import MEMORY, seen_status
from tjworker.api.model import TrainingJob
from tjworker.api.timefmt import from_rfc3339
from tjworker.kube.resources import RESOURCES

Json = dict[str, Any]
JOBS = {f"{row.group}/{row.plural}" for row in RESOURCES.values() if row.is_job}
OWNERS = ("apps/replicasets", "batch/jobs")
CHILDREN = ("pods", "services", *OWNERS, "secrets", "scheduling.k8s.io/podgroups")


class Ledger:
    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.creates: Counter[str] = Counter()
        self.deletes: Counter[str] = Counter()
        self.surplus: list[str] = []
        self.untimely: list[str] = []
        self.strangers: set[str] = set()
        """Pods that count for no job, whatever their labels say."""
        self._store = store
        self._clock = clock
        self._statuses: dict[str, Json] = {}
        """UID of a job -> its status as it was written last."""
        self._made_at: dict[str, float] = {}
        """UID of a job -> when."""
        self._sizes: dict[str, int] = {}
        """UID of a ReplicaSet or batch Job -> how many pods it was last told to keep."""
        self._next = store.on_event
        store.on_event = self._see

    def _see(self, event: Event) -> None:
        obj = event.item.obj
        if event.bucket in JOBS:
            self._note_times(obj)
        elif event.bucket in CHILDREN and event.key[1] != "kubernetes":
            name = f"{event.bucket}/{called(obj)}"
            if event.type == "ADDED":
                self.creates[name] += 1
            elif event.type == "DELETED":
                self.deletes[name] += 1
            if event.type != "DELETED":
                self.surplus += [f"{name}: {what}" for what in self._unwanted(event)]
        self._next(event)

    def _note_times(self, job: Json) -> None:
        """Those of our own status, and those that the users of a guest's kind read."""
        meta, told = job["metadata"], job.get("status") or {}
        self._made_at.setdefault(meta["uid"], from_rfc3339(meta["creationTimestamp"]) or 0.0)
        before = self._statuses.setdefault(meta["uid"], {})
        if told != before:
            self._statuses[meta["uid"]] = told
            for was, now in zip(_read_as_two(before), _read_as_two(told), strict=True):
                self.untimely += untimely(was, now, meta["creationTimestamp"], self._clock())

    def _unwanted(self, event: Event) -> Iterator[str]:
        obj = event.item.obj
        if event.bucket == "pods" and event.type == "ADDED" and event.key[1] not in self.strangers:
            uid = (obj["metadata"].get("labels") or {}).get(labels.JOB_UID, "")
            if uid in self._statuses and not self._seen_untold(uid):
                others = [i.obj for (_, name), i in self._store.items("pods") if name not in self.strangers]
                yield from unwanted_pod(obj, self._job(uid), others, self._sizes)
        elif event.bucket in OWNERS and (size := size_of(obj)) is not None:
            before = self._sizes.get(obj["metadata"]["uid"], 0)
            self._sizes[obj["metadata"]["uid"]] = size
            uid = next((o["uid"] for o in obj["metadata"].get("ownerReferences") or ()), "")
            if size > before and uid in self._statuses:
                yield from unwanted_size(obj, size, self._job(uid))

    def _seen_untold(self, uid: str) -> bool:
        """It has gone untold, and so lately that a view may still have it."""
        untold = not self._statuses[uid] and self._clock() - self._made_at[uid] < UNTOLD_SECONDS
        return untold and self._job(uid) is None

    def _job(self, uid: str) -> TrainingJob | str | None:
        """As its user has it at this moment; None when it is gone, or going; why not, when nobody can tell."""
        for bucket in JOBS:
            for _, item in self._store.items(bucket):
                if item.obj["metadata"]["uid"] == uid:
                    if "deletionTimestamp" in item.obj["metadata"]:
                        return None
                    parsed = kinds.parse(resource_of(item.obj), item.obj)
                    return parsed.with_targets() if isinstance(parsed, TrainingJob) else "it is invalid"
        return None


def _read_as_two(status: Json) -> tuple[Json, Json]:
    return dict(seen_status({"status": status})), status if MEMORY in status else {}


def called(obj: Json) -> str:
    meta = obj["metadata"]
    owner: Json = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), {})
    if owner.get("kind") in ("ReplicaSet", "Job"):
        return f"{owner['kind']} {owner['name']}/*"
    return str(meta["name"]).replace(owner.get("uid", " "), "UID")
