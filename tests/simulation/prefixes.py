"""Row 12: any prefix of a Plan carried out, then the worker is gone and another reconciles again: the same end.

One world an input, with the same input in a namespace for each prefix, so that all of them see the same seconds. In
namespace `cut-k` the worker dies at its write number k (the first k have been carried out), once; in `whole` it does
not.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.scenarios.world import CountingTransport, World
from tests.simulation.inputs import Input, Json
from tests.simulation.points import Died
from tests.simulation.purity import plain_plan
from tests.simulation.world import WITHOUT_RULES
from tjworker.kube.port import HttpResponse

LOCK_TTL_SECONDS = 3
LOOK_ON_SECONDS = 66
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class CutTransport(CountingTransport):
    """`cuts`: namespace -> how many writes a worker gets to make there before it dies. `made`: (namespace, pod) -> how
    many creates have been carried out. `writes`: namespace -> how many of any kind."""

    def __init__(self, world: World, cuts: dict[str, int]) -> None:
        super().__init__(world.cluster)
        self.cuts = cuts
        self.writes: Counter[str] = Counter()
        self.made: Counter[tuple[str, str]] = Counter()

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        if method == "GET" or path.endswith("/events"):
            return super().request(method, path, **more)
        namespace = path.split("/namespaces/")[1].split("/", maxsplit=1)[0]
        if namespace in self.cuts:
            if self.cuts[namespace] == 0:
                del self.cuts[namespace]
                raise Died
            self.cuts[namespace] -= 1
        self.writes[namespace] += 1
        answer = super().request(method, path, **more)
        if method == "POST" and path.endswith("/pods") and answer.status < 300:
            self.made[namespace, _name(more["body"])] += 1
        return answer


def _name(body: bytes) -> str:
    found = re.search(rb'"name":"([^"]+)","namespace"', body)
    assert found is not None
    return found.group(1).decode()


class PrefixWorld(World):
    crds = WITHOUT_RULES

    def __init__(self, given: Input) -> None:
        # Each by itself: every job here kills its worker once, and would take the others' passes along.
        each: dict[str, Any] = {
            "lock_ttl_seconds": LOCK_TTL_SECONDS,
            "resync_seconds": LOCK_TTL_SECONDS,
            "keys_per_task": 1,
        }
        super().__init__(seed=given.seed, **each)
        plan = plain_plan(given)
        self.prefixes = len(plan.writes) + (plan.status is not None)
        self.namespaces = ["whole", *(f"cut-{k}" for k in range(self.prefixes))]
        self.cut = CutTransport(self, {f"cut-{k}": k for k in range(self.prefixes)})
        self.api._transport = self.cut
        self.deaths = 0
        for name in self.namespaces:
            self.cluster.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
            given.place(self, name)

    def work(self) -> None:
        while self.queue.keys:
            try:
                super().work()
            except Died:
                self.deaths += 1
                self.worker = self.make_worker(f"worker-{self.deaths + 1}")

    def to_its_end(self) -> None:
        for _ in range(LOOK_ON_SECONDS // LOCK_TTL_SECONDS):
            self.run()
            self.queue.publish(self.store.queue.resync(lost_after_seconds=LOCK_TTL_SECONDS, everything=False))
            self.advance(LOCK_TTL_SECONDS, step_seconds=LOCK_TTL_SECONDS)

    def end(self, namespace: str) -> Json:
        """What came of it, without times and without what a pass more or less would count."""
        get = self.cluster.client.get
        jobs = get(f"/apis/elasticdeeplearning.ai/v1/namespaces/{namespace}/aitrainingjobs")["items"]
        pods = get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        services = get(f"/api/v1/namespaces/{namespace}/services")["items"]
        status: Json = jobs[0].get("status", {}) if jobs else {"phase": "gone"}
        conditions = {
            c["type"]: (c["status"], c["reason"], _timeless(c["message"])) for c in status.get("conditions", ())
        }
        return {
            "phase": status.get("phase"),
            "conditions": conditions,
            "replicas": status.get("replicaStatuses"),
            "restarts": status.get("restartCounts"),
            "attempts": _attempts(status.get("attempts") or {}),
            "failures": [(f["pod"], f.get("exitCode"), f.get("reason")) for f in status.get("failures", ())],
            "scaled": [(s["role"], s["from"], s["to"]) for s in status.get("scaleRecords", ())],
            "pods": {
                p["metadata"]["name"]: (
                    p["metadata"]["labels"]["restart-attempt"],
                    p["status"]["phase"],
                    "deletionTimestamp" in p["metadata"],
                )
                for p in pods
            },
            "services": sorted(s["metadata"]["name"] for s in services),
            "made": {name: n for (where, name), n in sorted(self.cut.made.items()) if where == namespace},
        }


def _attempts(found: Json) -> Json:
    """Without what says nothing, without who was made and has run, which is only noted while the job is not Running,
    without who has vanished (a worker that dies between its word and the pod leaves one that was never made), and
    without until when a slot rests: the rest begins in the pass that sees the loss."""
    roles = {
        name: {
            k: sorted(v.values()) if k == "resting" else v
            for k, v in role.items()
            if v and k not in ("ran", "made", "vanished")
        }
        for name, role in found.get("roles", {}).items()
    }
    return {"job": found.get("job", 0), "roles": {name: role for name, role in roles.items() if role}}


def _timeless(text: str) -> str:
    return _TIMES.sub("<time>", text)


def try_prefixes(given: Input) -> list[str]:
    """What was wrong with any of them."""
    world = PrefixWorld(given)
    world.to_its_end()
    want = world.end("whole")
    wrong = []
    for k in range(world.prefixes):
        got = world.end(f"cut-{k}")
        wrong += [
            f"cut after {k} of {world.prefixes} writes: {field} {got[field]}, uncut {want[field]}"
            for field in want
            if got[field] != want[field]
        ]
    possible = min(
        world.prefixes, world.cut.writes["whole"]
    )  # of a plan to which a refusal puts an end not all is carried out
    if world.deaths != possible:
        wrong.append(f"{world.deaths} of {possible} cuts happened")
    return wrong
