"""The jobs that live through it, and what is held against the undisturbed: ends, the pods that were ever made, what is
left.

A `Wave` is a namespace. Jobs of each scenario, of both kinds, begin in it one after another while things are disturbed;
`standing` jobs run from before to after, and not one of their pods may be another one then.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from tests.chaos.served import MPI, PYTORCH, TF
from tests.chaos.watching import PodLog
from tests.e2e.control_plane.api import RefusedError, send
from tests.scenarios.world import job, play, role, training_job
from tests.support.guests import KIND_OF, guest_job
from tests.support.kinds import AITRAININGJOBS, TEST_KINDS, collection_of, resource_of
from tests.support.trainer import RUNTIME_PATH, replicated, runtime, train_job
from tjworker.api.kinds import KINDS
from tjworker.api.kinds.base import seen_status
from tjworker.api.status import END_PHASES
from tjworker.base import GroupResource, JobKey, JobName
from tjworker.kube.transport import KubeTransport

Json = dict[str, Any]
_FLAKY = play(start_seconds=1, failing_attempts=1, failing_exit_code=137, failing_run_seconds=3, run_seconds=5)


def _guest(resource: GroupResource, plays: Mapping[str, Json], **spec: Any) -> Json:
    """Whatever runs on goes with the end."""
    made = guest_job(resource, restart="ExitCode" if resource != MPI else "OnFailure", cleanPodPolicy="All")
    for name, told in plays.items():
        made["spec"][KIND_OF[resource].roles_field][name]["template"]["metadata"] = {"annotations": told}
    made["spec"] |= spec
    return made


DATA = "dataset-initializer"
RUNTIMES = (
    runtime(name="chaos"),
    runtime(
        replicated(DATA, step=DATA), replicated("node", step="trainer", after={DATA: "Complete"}), name="chaos-fetches"
    ),
)
"""Of the TrainJobs, for all namespaces."""


def _train_job(named: str, **plays: Json) -> Json:
    """Of two nodes; `plays`: of the pods of each replicated job, `data` for the initializer."""
    jobs = [
        {
            "name": DATA if job == "data" else job,
            "template": {"spec": {"template": {"metadata": {"annotations": told}}}},
        }
        for job, told in plays.items()
    ]
    patch = {"manager": "example.com/chaos", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    made = train_job(named, trainer={"numNodes": 2}, runtimePatches=[patch])
    del made["metadata"]["namespace"]
    return made


SCENARIOS: Mapping[str, Json] = {
    # The longest first. Kubernetes replaces a failed trainer of a batch Job after ten seconds, and none once another
    # has succeeded: so that one has to run longer than an API server may be away.
    "edl-replaces": training_job(
        least=2,
        fault_tolerant=True,
        play={
            "trainer": {"failing_attempts": 1, "failing_exit_code": 137, "failing_run_seconds": 3, "run_seconds": 35}
        },
    ),
    "succeeds": job({"ps": role(1, completePolicy="None"), "trainer": role(2, annotations=play(run_seconds=5))}),
    "restarts-pods": job({"trainer": role(2, annotations=_FLAKY, restartPolicy="ExitCode", restartScope="Pod")}),
    "restarts-all": job(
        {"ps": role(1, completePolicy="None"), "trainer": role(1, annotations=_FLAKY, restartPolicy="ExitCode")}
    ),
    "fails": job(
        {"ps": role(1, completePolicy="None"), "trainer": role(1, annotations=play(run_seconds=4, exit_code=1))}
    ),
    "keeps-pods": job({"trainer": role(2, annotations=play(run_seconds=4))}, cleanPodPolicy="None"),
    "scales": job({"trainer": role(2, annotations=play(run_seconds=7))}),
    # The controller of ReplicaSets may be ten seconds later than that of Jobs, once the API server has been away.
    "edl-succeeds": training_job(least=2, pservers=1, fault_tolerant=True, play={"trainer": {"run_seconds": 20}}),
    "edl-fails": training_job(
        least=1, pservers=1, play={"trainer": {"failing_attempts": 1, "failing_exit_code": 3, "failing_run_seconds": 4}}
    ),
    # The controller of batch Jobs, too, may look again only half a minute after the API server has come back.
    "edl-scales": training_job(least=2, most=3, fault_tolerant=True, play={"trainer": {"run_seconds": 45}}),
    # One role ends each of them, and the others run on: which of two is done first would be chance.
    "pytorch-restarts": _guest(PYTORCH, {"Master": _FLAKY}),
    "mpi-succeeds": _guest(MPI, {"Launcher": play(run_seconds=5)}),
    "trainjob-restarts": _train_job("chaos", node=_FLAKY),
    "trainjob-fetches": _train_job("chaos-fetches", data=play(run_seconds=3), node=play(run_seconds=4)),
    "tf-fails": _guest(TF, {"PS": play(run_seconds=4, exit_code=1)}),
}
MADE_BY_OTHERS = {
    "edl-fails": {"-trainer": (1, 2), "-pserver": (0, 1)},
    "tf-fails": {"-worker-0": (0, 1), "-worker-1": (0, 1)},
}
"""Scenario -> whose pods -> at least and at most how many in all. The batch Job makes a second trainer ten seconds
after the first has failed, if the operator, who would end it, cannot be reached for so long. The second does not fail,
so there is never a third. And the trainer fails after four seconds, with the ReplicaSet of the servers not yet made, or
not yet seen by its controller, if the API server was away in between. Likewise a TFJob's server: when Redis goes in the
middle of its first pass, the workers may not be made before the server's failure ends the job."""
CHANCE = {
    "scales": ("Scaling",),
    "edl-scales": ("Scaling",),  # a job that is scaled before it has run has never been Scaling
    # Who is killed between seeing a trainer's end and judging it has said Restarting: a pod without number gets it
    # first.
    "edl-fails": ("Restarting",),
    "edl-replaces": ("Restarting",),  # the batch Job's pod may run by the next look: then it has never been Restarting
}
"""Scenario -> conditions that tell, when they are over, of the way and not of the end."""
STANDS: Mapping[str, Json] = {
    **{f"stands-{n}": TEST_KINDS[AITRAININGJOBS].standing() for n in range(2)},
    **{f"stands-{KINDS[resource].short_name}": one.standing() for resource, one in TEST_KINDS.items()},
    "stands-pytorch": guest_job(PYTORCH),
    "stands-trainjob": _train_job("chaos"),
}
_ONE_OF_EACH_KIND = (
    *(one.standing() for one in TEST_KINDS.values()),
    *map(guest_job, (PYTORCH, MPI, TF)),
    SCENARIOS["trainjob-restarts"],
)
MULTI_BYTE = "läuft, 訓練中 🚀"
"""Stands in each job, so that there are characters in its events in which a stream can be cut."""
SCALE_AFTER_SECONDS = 2.0
EVERY_SECONDS = 1.5
MOST_UNFINISHED = 40
"""Beyond that no job begins. An outage of ten minutes would otherwise leave 400 jobs, and how long those take is a
measure of the control plane."""


class Wave:
    def __init__(
        self,
        transport: KubeTransport,
        log: PodLog,
        namespace: str,
        every_seconds: float = EVERY_SECONDS,
        *,
        without: Collection[str] = (),
    ) -> None:
        """`without` these scenarios."""
        self.namespace = namespace
        self._scenarios = [scenario for scenario in SCENARIOS if scenario not in without]
        self._every_seconds = every_seconds
        self._transport = transport
        self._log = log
        self._core = f"/api/v1/namespaces/{namespace}"
        self._stopping = threading.Event()
        self._feeder = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self.begun: dict[str, str] = {}
        """Job -> its scenario."""

    # -- the user's hands --------------------------------------------------------------------------
    def begin(self) -> None:
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for named in RUNTIMES:
            self.insist(lambda named=named: self.send("POST", RUNTIME_PATH, named))
        for name, manifest in STANDS.items():
            self.apply(manifest, name)

    def stand(self) -> bool:
        phases = self._phases()
        return all(phases.get(name) == "Running" for name in STANDS)

    def keys(self) -> tuple[JobKey, ...]:
        """Of the jobs that stand."""
        return tuple(JobName(resource_of(m), self.namespace, name).key for name, m in STANDS.items())

    def feed(self) -> None:
        """Begin one job after another, until `fed`."""
        self._feeder.start()

    def fed(self) -> None:
        """At least one of each of its scenarios has begun by then."""
        self._stopping.set()
        if self._feeder.is_alive():
            self._feeder.join(180)

    def _feed(self) -> None:
        number = 0
        while not self._stopping.is_set() or number < len(self._scenarios):
            if number >= len(self._scenarios) and not self._has_room():
                self._stopping.wait(self._every_seconds)
                continue
            scenario = self._scenarios[number % len(self._scenarios)]
            name = f"{scenario}-{number}"
            if self.insist(lambda name=name, scenario=scenario: self.apply(SCENARIOS[scenario], name)):
                self.begun[name] = scenario
                if scenario.endswith("scales"):
                    self._stopping.wait(SCALE_AFTER_SECONDS)
                    scale = f"{self._path(SCENARIOS[scenario])}/{name}/scale"
                    self.insist(lambda scale=scale: self.send("PATCH", scale, {"spec": {"replicas": 3}}))
                number += 1
            self._stopping.wait(self._every_seconds)

    def _has_room(self) -> bool:
        try:
            return len(self.unfinished()) < MOST_UNFINISHED
        except Exception:  # noqa: BLE001  the API server is away
            return False

    def insist(self, do: Any, done_already: int = 409) -> bool:
        """A user whose kubectl fails tries again."""
        for _ in range(240):
            try:
                do()
                return True
            except RefusedError as error:
                if error.status == done_already:  # and the answer was lost
                    return True
            except Exception:  # noqa: BLE001, S110  the API server is away, or slow
                pass
            threading.Event().wait(0.5)
        return False

    def apply(self, manifest: Json, name: str) -> None:
        metadata = manifest["metadata"]
        named = {
            **metadata,
            "name": name,
            "annotations": {**metadata.get("annotations", {}), "example.com/note": MULTI_BYTE},
        }
        self.send("POST", self._path(manifest), {**manifest, "metadata": named})

    def delete(self, name: str) -> None:
        path = f"{self._path(SCENARIOS[self.begun[name]])}/{name}"
        self.insist(lambda: self.send("DELETE", path, {"propagationPolicy": "Background"}), done_already=404)

    # -- what there is -----------------------------------------------------------------------------
    def statuses(self) -> dict[str, Json]:
        jobs = [job for manifest in _ONE_OF_EACH_KIND for job in self._items(self._path(manifest))]
        return {j["metadata"]["name"]: {**seen_status(j), "told": _told(j)} for j in jobs}

    def ended(self) -> bool:
        phases = self._phases()
        return all(phases.get(name) in END_PHASES for name in self.begun)

    def unfinished(self) -> dict[str, str]:
        phases = self._phases()
        return {name: phases.get(name, "gone") for name in self.begun if phases.get(name) not in END_PHASES}

    def unfinished_words(self) -> str:
        try:
            return str(self.unfinished())
        except Exception as error:  # noqa: BLE001  the cluster is still away: that is told, too
            return f"not known: {error}"

    def version(self) -> int:
        return int(self.send("GET", f"{self._core}/pods")["metadata"]["resourceVersion"])

    def ends(self, jobs: Iterable[str]) -> dict[str, Json]:
        """Of each of these jobs: how it ended, what was made for it and what is left. No times, UIDs, nodes or
        words."""
        pods, services = self._items(f"{self._core}/pods"), self._items(f"{self._core}/services")
        made, statuses = self._log.made(self.namespace), self.statuses()
        return {name: _end(name, self.begun[name], statuses[name], pods, services, made) for name in jobs}

    def standing_uids(self) -> dict[str, set[str]]:
        return {name: uids for name, uids in self._log.uids(self.namespace).items() if name.startswith("stands-")}

    def close(self) -> None:
        with suppress(Exception):
            self.send("DELETE", self._core)

    # -- how ---------------------------------------------------------------------------------------
    def _path(self, manifest: Json) -> str:
        return collection_of(manifest, self.namespace)

    def _phases(self) -> dict[str, str]:
        return {name: status.get("phase", "") for name, status in self.statuses().items()}

    def _items(self, path: str) -> list[Json]:
        return list(self.send("GET", path)["items"])

    def send(self, method: str, path: str, body: Any = None) -> Json:
        return send(self._transport, method, path, body, timeout_seconds=10)


def _end(
    name: str, scenario: str, status: Json, pods: list[Json], services: list[Json], made: Mapping[str, int]
) -> Json:
    def mine(found: str) -> bool:
        return found.startswith(f"{name}-")

    def seat(found: str) -> str:
        """Kubernetes draws the end of a name that it makes; what it belongs to is told by the rest."""
        rest = found.removeprefix(name)
        return rest.rpartition("-")[0] if scenario.startswith("edl-") else rest

    counted: Counter[str] = Counter()
    for pod, count in made.items():
        if mine(pod):
            counted[seat(pod)] += count
    attempts = status.get("attempts") or {}
    roles = {role: _attempts(scenario, told) for role, told in (attempts.get("roles") or {}).items()}
    return {
        "phase": status.get("phase"),
        "told": status.get("told"),
        "restarts": status.get("restartCounts"),
        "attempts": {
            "job": attempts.get("job"),
            "roles": {role: told for role, told in roles.items() if any(told.values())},
        },
        "conditions": sorted(
            (c["type"], c["status"], _how_it_was_over(c))
            for c in status.get("conditions", ())
            if c["status"] == "True" or c["type"] not in CHANCE.get(scenario, ())
        ),
        "replicas": {
            r: (s.get("succeeded"), s.get("failed")) for r, s in (status.get("replicaStatuses") or {}).items()
        },
        "failures": len(status.get("failures", ())),
        "made": _made(scenario, counted),
        "left": sorted(
            (seat(p["metadata"]["name"]), p["status"].get("phase")) for p in pods if mine(p["metadata"]["name"])
        ),
        "services": sorted(s["metadata"]["name"].removeprefix(name) for s in services if mine(s["metadata"]["name"])),
    }


def _told(job: Json) -> list[tuple[str, str]]:
    """What users read of an end, of our own kinds and of others'."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return sorted((c["type"], c["status"]) for c in conditions if c["type"] in ("Succeeded", "Complete", "Failed"))


def _how_it_was_over(condition: Json) -> str:
    """A restart is over when all pods run again, or with the job: which of the two is chance where no pass looked in
    between."""
    over = condition["type"] == "Restarting" and condition["status"] == "False"
    return "over" if over and condition["reason"] in ("Restarted", "Completed") else condition["reason"]


def _made(scenario: str, counted: Counter[str]) -> Json:
    bounds = MADE_BY_OTHERS.get(scenario, {})
    chance = {what: f"{least} to {most}" for what, (least, most) in bounds.items() if least <= counted[what] <= most}
    return {**counted, **chance}


def _attempts(scenario: str, told: Json) -> Json:
    """Without `ran`: it is kept only while the job is not Running, and a scenario that ends while it is restarted may
    keep it."""
    kept = {what: value for what, value in told.items() if what != "ran"}
    if scenario.startswith("edl-"):
        # Trainers are numbered as they come to run, so which number the one has that fails is chance.
        kept["pods"] = sorted(told.get("pods", {}).values())
    return kept
