"""The jobs that live through it, and what is held against the undisturbed: ends, the pods that were ever made, what is left.

A `Wave` is a namespace. Jobs of each life begin in it one after another while things are disturbed; `standing` jobs run from
before to after, and not one of their pods may be another one then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.chaos.watching import PodLog
from tests.lives.world import job, play, role
from tjworker.api.status import END_PHASES
from tjworker.kube.transport import KubeTransport

Json = dict[str, Any]
_FLAKY = play(start_seconds=1, failing_attempts=1, failing_exit_code=137, failing_run_seconds=3, run_seconds=5)
LIVES: Mapping[str, Json] = {
    "succeeds": job({"ps": role(1, completePolicy="None"), "trainer": role(2, annotations=play(run_seconds=5))}),
    "restarts-pods": job({"trainer": role(2, annotations=_FLAKY, restartPolicy="ExitCode", restartScope="Pod")}),
    "restarts-all": job({
        "ps": role(1, completePolicy="None"), "trainer": role(1, annotations=_FLAKY, restartPolicy="ExitCode"),
    }),
    "fails": job({"ps": role(1, completePolicy="None"), "trainer": role(1, annotations=play(run_seconds=4, exit_code=1))}),
    "keeps-pods": job({"trainer": role(2, annotations=play(run_seconds=4))}, cleanPodPolicy="None"),
    "scales": job({"trainer": role(2, annotations=play(run_seconds=7))}),
}
STANDING = 3
SCALE_AFTER_SECONDS = 2.0
EVERY_SECONDS = 2.0
_STAND = job({"ps": role(1), "trainer": role(2)})


class Wave:
    def __init__(self, transport: KubeTransport, log: PodLog, namespace: str) -> None:
        self.namespace = namespace
        self._transport = transport
        self._log = log
        self._core = f"/api/v1/namespaces/{namespace}"
        self._jobs = f"/apis/elasticdeeplearning.ai/v1/namespaces/{namespace}/aitrainingjobs"
        self._stopping = threading.Event()
        self._feeder = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self.begun: dict[str, str] = {}
        """Job -> its life."""

    # -- the user's hands ----------------------------------------------------------------------------------------------
    def begin(self) -> None:
        self.send("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for number in range(STANDING):
            self.apply(_STAND, f"stands-{number}")

    def stand(self) -> bool:
        return all(self.status(f"stands-{n}").get("phase") == "Running" for n in range(STANDING))

    def feed(self) -> None:
        """Begin a job every other second, until `fed`."""
        self._feeder.start()

    def fed(self) -> None:
        """At least one of each life has begun by then."""
        self._stopping.set()
        if self._feeder.is_alive():
            self._feeder.join(180)

    def _feed(self) -> None:
        number = 0
        while not self._stopping.is_set() or number < len(LIVES):
            life = list(LIVES)[number % len(LIVES)]
            name = f"{life}-{number}"
            if self._insist(lambda name=name, life=life: self.apply(LIVES[life], name)):
                self.begun[name] = life
                if life == "scales":
                    self._stopping.wait(SCALE_AFTER_SECONDS)
                    self._insist(lambda name=name: self.send("PATCH", f"{self._jobs}/{name}/scale", {"spec": {"replicas": 3}}))
                number += 1
            self._stopping.wait(EVERY_SECONDS)

    def _insist(self, do: Any) -> bool:
        """A user whose kubectl fails tries again."""
        for _ in range(240):
            try:
                do()
                return True
            except Exception as error:  # noqa: BLE001  the API server is away, or slow, or has done it already
                if "409" in str(error):
                    return True
                threading.Event().wait(0.5)
        return False

    def apply(self, manifest: Json, name: str) -> None:
        self.send("POST", self._jobs, {**manifest, "metadata": {"name": name}})

    def delete(self, name: str) -> None:
        self.send("DELETE", f"{self._jobs}/{name}", {"propagationPolicy": "Background"})

    # -- what there is -------------------------------------------------------------------------------------------------
    def status(self, name: str) -> Json:
        found: Json = self.send("GET", f"{self._jobs}/{name}").get("status") or {}
        return found

    def ended(self) -> bool:
        found = {j["metadata"]["name"]: (j.get("status") or {}).get("phase") for j in self._items(self._jobs)}
        return all(found.get(name) in END_PHASES for name in self.begun)

    def unfinished(self) -> dict[str, str]:
        with suppress(Exception):
            found = {j["metadata"]["name"]: (j.get("status") or {}).get("phase", "") for j in self._items(self._jobs)}
            return {name: found.get(name, "gone") for name in self.begun if found.get(name) not in END_PHASES}
        return {}

    def version(self) -> int:
        return int(self.send("GET", f"{self._core}/pods")["metadata"]["resourceVersion"])

    def ends(self) -> dict[str, Json]:
        """Of each job that has begun: how it ended, what was made for it and what is left. No times, UIDs, nodes or words."""
        pods, services = self._items(f"{self._core}/pods"), self._items(f"{self._core}/services")
        made = self._log.made(self.namespace)
        return {name: _end(name, self.status(name), pods, services, made) for name in self.begun}

    def standing_uids(self) -> dict[str, set[str]]:
        return {name: uids for name, uids in self._log.uids(self.namespace).items() if name.startswith("stands-")}

    def close(self) -> None:
        with suppress(Exception):
            self.send("DELETE", self._core)

    # -- how -----------------------------------------------------------------------------------------------------------
    def _items(self, path: str) -> list[Json]:
        return list(self.send("GET", path)["items"])

    def send(self, method: str, path: str, body: Any = None) -> Json:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self._transport.request(method, path, body=None if body is None else json.dumps(body).encode(),
                                         content_type=kind, timeout_seconds=10)
        parsed: Json = json.loads(answer.body)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {parsed.get('message')}")
        return parsed


def _end(name: str, status: Json, pods: list[Json], services: list[Json], made: Mapping[str, int]) -> Json:
    def mine(found: str) -> bool:
        return found.startswith(f"{name}-")

    attempts = status.get("attempts") or {}
    return {
        "phase": status.get("phase"), "restarts": status.get("restartCounts"),
        "attempts": {"job": attempts.get("job"), "roles": attempts.get("roles")},
        # Those that hold. One that is over tells of the way here: a job scaled before it ran has never been Scaling.
        "conditions": sorted((c["type"], c["reason"]) for c in status.get("conditions", ()) if c["status"] == "True"),
        "replicas": {r: (s.get("succeeded"), s.get("failed")) for r, s in (status.get("replicaStatuses") or {}).items()},
        "failures": len(status.get("failures", ())),
        "made": {pod.removeprefix(name): count for pod, count in made.items() if mine(pod)},
        "left": sorted((p["metadata"]["name"].removeprefix(name), p["status"].get("phase")) for p in pods
                       if mine(p["metadata"]["name"])),
        "services": sorted(s["metadata"]["name"].removeprefix(name) for s in services if mine(s["metadata"]["name"])),
    }

