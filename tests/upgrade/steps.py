"""One upgrade after another, in each order, with the rollbacks between them: what each did to thirty jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from localcluster.client import ApiError
from localcluster.kubelet.play import PREFIX
from tests.upgrade.jobs import AI, EDL, PODS, SAMPLES, Json, make_aitj, replaced
from tests.upgrade.lab import Lab, Version

HOLD_SECONDS = 10.0
"""How long two versions run beside each other."""
MERGE = "application/merge-patch+json"
SPARE = "spare"
"""A job beside the thirty, a pod of which fails in each step."""
PROCESSES = ("watcher", "worker", "beat")


@dataclass(frozen=True, slots=True)
class Row:
    """What one step has done."""

    step: str
    touched: int
    """Pods of healthy jobs that have gone, are being deleted, or are new."""
    healthy: int
    """Pods of healthy jobs at the beginning."""
    new_job_seconds: float | None
    """Until a new job had run to its end; None: it waited for the next step."""
    replaced_seconds: float | None
    """Until a pod that failed was replaced; None as above."""
    lost: tuple[str, ...]
    """Jobs with another phase, other restartCounts, or without a field that their status had."""

    def cells(self) -> Iterator[str]:
        yield self.step
        yield f"{self.touched} of {self.healthy}"
        for seconds in (self.new_job_seconds, self.replaced_seconds):
            yield "waits" if seconds is None else f"{seconds:.1f} s"
        yield ", ".join(self.lost) or "none"


HEADER = ("step", "pods touched", "a new job has run", "a failed pod is replaced", "phases and status lost")


def table(rows: Sequence[Row]) -> Iterator[str]:
    """In the columns of the table in docs/upgrading.md."""
    yield f"| {' | '.join(HEADER)} |"
    yield "|---" * len(HEADER) + "|"
    for row in rows:
        yield f"| {' | '.join(row.cells())} |"


class Upgrades:
    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.rows: list[Row] = []
        self._pods: dict[str, str] = {}
        self._statuses: dict[str, Json] = {}
        self._owed: list[tuple[str, str]] = []
        """(new job, pod of SPARE that failed) of steps in which no pass ran: due in the next step that has them."""
        self._probes = 0

    # -- thirty jobs -------------------------------------------------------------------------------
    def make_jobs(self) -> None:
        """Returns when each is in its phase and nothing changes any more."""
        lab = self._lab
        for sample in SAMPLES:
            lab.api.create(sample.path, sample.manifest)
        lab.api.create(AI, make_aitj(SPARE, 2, **replaced()))
        begin = [sample for sample in SAMPLES if sample.fails_once or sample.spec or sample.annotations]
        lab.until("they run", lambda: all(self._phase(sample.name) == "Running" for sample in begin))
        for sample in begin:
            if sample.spec:
                lab.api.patch(f"{sample.path}/{sample.name}", {"spec": sample.spec}, MERGE)
            if sample.annotations:
                lab.api.patch(f"{sample.path}/{sample.name}", {"metadata": {"annotations": sample.annotations}}, MERGE)
            if sample.fails_once:
                self._fail(f"{sample.name}-trainer-0")
        lab.until("each job is in its phase, scaled and restarted", self._settled)
        self._pods, self._statuses = self._healthy_pods(), self._read()

    def _settled(self) -> bool:
        statuses = self._read()
        for sample in SAMPLES:
            status = statuses[sample.name]
            if status.get("phase") not in sample.phases or (sample.fails_once and not status.get("restartCounts")):
                return False
        jobs = list(self._healthy_pods().values())
        if any(jobs.count(sample.name) != sample.pods for sample in SAMPLES if sample.pods):
            return False
        return all(
            pod["status"].get("phase") == "Running" for pod in self._lab.pods() if self._job(pod) in self._running()
        )

    @staticmethod
    def _running() -> set[str]:
        return {sample.name for sample in SAMPLES if sample.phases == ("Running",)}

    def _read(self) -> dict[str, Json]:
        return self._lab.statuses(AI, EDL)

    def _phase(self, job: str) -> str:
        return str(self._read()[job].get("phase") or "")

    @staticmethod
    def _job(pod: Json) -> str:
        labels = pod["metadata"].get("labels") or {}
        return str(labels.get("job-name") or labels.get("paddle-job") or "")

    def _healthy_pods(self) -> dict[str, str]:
        """UID -> job, of pods that nobody deletes."""
        healthy = {sample.name for sample in SAMPLES if sample.healthy}
        return {
            pod["metadata"]["uid"]: self._job(pod)
            for pod in self._lab.pods()
            if self._job(pod) in healthy and not pod["metadata"].get("deletionTimestamp")
        }

    def _fail(self, pod: str) -> str:
        """Its UID."""
        patch = {"metadata": {"annotations": {f"{PREFIX}exit": "1"}}}
        return str(self._lab.api.patch(f"{PODS}/{pod}", patch, MERGE)["metadata"]["uid"])

    # -- one step ----------------------------------------------------------------------------------
    def note(self, step: str, *, serves: bool) -> None:
        """Look at what has become of the jobs. `serves`: passes must run now; else two versions run beside each other,
        for HOLD_SECONDS."""
        new, failed = self._begin_probe()
        began = time.monotonic()
        found: list[float | None] = [None, None]

        def look() -> bool:
            for which, done in enumerate((self._ended(new), self._replaced(failed))):
                if found[which] is None and done:
                    found[which] = time.monotonic() - began
            return None not in found

        if serves:
            self._lab.until(f"a new job and a failed pod are served: {step}", look)
            self._lab.until(
                "what waited has been served", lambda: all(self._ended(j) and self._replaced(p) for j, p in self._owed)
            )
            self._owed.clear()
            self._lab.until("phases are as before", lambda: not self._lost())
        else:
            self._lab.until("the time is over", lambda: look() or time.monotonic() - began > HOLD_SECONDS)
            if None in found:
                self._owed.append((new, failed))
        pods = self._healthy_pods()
        touched = len(self._pods.keys() ^ pods.keys())
        self.rows.append(Row(step, touched, len(self._pods), found[0], found[1], self._lost()))
        self._pods = pods

    def _begin_probe(self) -> tuple[str, str]:
        self._probes += 1
        new = f"new{self._probes}"
        self._lab.api.create(AI, make_aitj(new, plays={"run-seconds": "1"}))
        # Each pod of SPARE fails in its turn, so that one that waits is not asked again.
        for index in (self._probes % 2, (self._probes + 1) % 2):
            pod = self._pod(f"{SPARE}-trainer-{index}")
            if pod and pod["status"].get("phase") == "Running":
                return new, self._fail(pod["metadata"]["name"])
        return new, self._owed[-1][1]

    def _pod(self, name: str) -> Json | None:
        with suppress(ApiError):
            return self._lab.api.get(f"{PODS}/{name}")
        return None

    def _ended(self, job: str) -> bool:
        return self._phase(job) == "Succeed"

    def _replaced(self, uid: str) -> bool:
        pods = [pod for pod in self._lab.pods() if self._job(pod) == SPARE]
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return len(running) == 2 and all(pod["metadata"]["uid"] != uid for pod in running)

    def _lost(self) -> tuple[str, ...]:
        """Jobs whose status has lost something since the beginning."""
        now = self._read()
        return tuple(sorted(filter(None, (self._loss(name, status, now) for name, status in self._statuses.items()))))

    @staticmethod
    def _loss(name: str, before: Json, statuses: dict[str, Json]) -> str:
        sample = next((sample for sample in SAMPLES if sample.name == name), None)
        status = statuses.get(name)
        if sample is None:
            return ""
        if status is None:
            return f"{name}: gone"
        if status.get("phase") not in sample.phases:
            return f"{name}: {status.get('phase')}"
        if missing := sorted(before.keys() - status.keys()) if sample.healthy else []:
            return f"{name}: without {' '.join(missing)}"
        if sample.healthy and status.get("restartCounts") != before.get("restartCounts"):
            return f"{name}: restartCounts {before.get('restartCounts')} -> {status.get('restartCounts')}"
        return ""

    # -- changes of version ------------------------------------------------------------------------
    def roll_back_by_the_procedure(self, version: Version) -> None:
        """Of a version whose watcher cannot read today's records: everything stops, and Redis is emptied."""
        self._lab.stop(*PROCESSES)
        self._lab.empty_redis()
        self._lab.apply_crds(version)
        self._lab.run(version)


def play(lab: Lab, old: Version, this: Version, later: Version) -> list[Row]:
    """Every order. `old` has no sealed records; `later` seals and packs otherwise than `this`."""
    upgrades = Upgrades(lab)
    lab.apply_crds(old)
    lab.run(old)
    upgrades.make_jobs()
    upgrades.note("the old version alone", serves=True)
    lab.apply_crds(this)
    upgrades.note("new CRDs, the old version", serves=True)
    lab.replace(this, "worker")
    upgrades.note("new workers, the old watcher", serves=False)
    lab.replace(this, "watcher", "beat")
    upgrades.note("this version (workers first)", serves=True)
    upgrades.roll_back_by_the_procedure(old)
    upgrades.note("rolled back: all stopped, Redis emptied, the old version", serves=True)
    lab.apply_crds(this)
    lab.replace(this, "watcher", "beat")
    upgrades.note("the new watcher, old workers", serves=False)
    lab.replace(this, "worker")
    upgrades.note("this version (watcher first)", serves=True)
    upgrades.roll_back_by_the_procedure(old)
    upgrades.note("rolled back again", serves=True)
    lab.apply_crds(this)
    lab.replace(this, *PROCESSES)
    upgrades.note("this version (all at once)", serves=True)
    lab.replace(later, "worker")
    upgrades.note("workers of a later version, this watcher", serves=False)
    lab.replace(later, "watcher", "beat")
    upgrades.note("the later version", serves=True)
    lab.replace(this, "watcher", "beat")
    upgrades.note("rolled back in place: this watcher, later workers", serves=False)
    lab.replace(this, "worker")
    upgrades.note("rolled back in place: this version", serves=True)
    return upgrades.rows
