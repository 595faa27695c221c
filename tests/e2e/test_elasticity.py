"""Two elastic digits jobs and a burst of others on a node of eight CPUs: real processes that really train.

The story of `tests.scenarios.elastic` once more: TJ_PLOT=docs/elasticity.svg plays it and draws what it saw, which is
how the image in docs/autoscaler.md is made. `make test` plays it in virtual time, `make test-real` on the real control
plane, and real trainings under an autoscaler are those of `test_two_jobs`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chart import steps
from tests.e2e.stack import LocalStack, until
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif("TJ_PLOT" not in os.environ, reason="draws docs/elasticity.svg: TJ_PLOT=docs/elasticity.svg"),
    pytest.mark.skipif(sys.platform != "linux", reason="pods are processes, found in /proc"),
]
CPUS, FULL = 8, 7
"""What the node says it has; trainers of one CPU that the autoscaler fits in beside masters and parameter servers (97
%)."""
NEVER = 100_000
"""Epochs: the jobs are taken away before that."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    one = LocalStack(
        tmp_path_factory.mktemp("elasticity") / "state",
        "--nodes",
        "1",
        "--node-cpu",
        str(CPUS),
        TJ_AUTOSCALE_COOLDOWN_SECONDS="15",
    )
    try:
        one.start()
        yield one
    finally:
        one.clear()


def digits(name: str) -> str:
    """The example's own manifest, under another name and with trainers of a whole CPU."""
    job = yaml.safe_load((ROOT / "examples/digits/job.yaml").read_text())
    job["metadata"]["name"] = name
    roles = job["spec"]["replicaSpecs"]
    roles["trainer"]["maxReplicas"] = 10
    roles["trainer"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "100Mi"}}
    command = roles["master"]["template"]["spec"]["containers"][0]["command"]
    command[command.index("--epochs") + 1] = str(NEVER)
    return json.dumps(job)


def web(number: int) -> str:
    container = {"name": "web", "image": "none", "command": ["sleep", "3600"], "resources": {"requests": {"cpu": "1"}}}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"web-{number}", "labels": {"app": "web"}},
            "spec": {"priorityClassName": "web", "terminationGracePeriodSeconds": 1, "containers": [container]},
        }
    )


PRIORITY = json.dumps(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "web"},
        "value": 1000,
        "preemptionPolicy": "Never",
    }
)


@dataclass
class Film:
    """What was seen, look by look."""

    stack: LocalStack
    began: float = field(default_factory=time.monotonic)
    looks: list[tuple[float, int, int, float]] = field(default_factory=list)
    """(seconds, trainers of the first, of the second, free CPUs)"""
    marks: list[tuple[float, str]] = field(default_factory=list)
    first: dict[str, str] = field(default_factory=dict)
    second: dict[str, str] = field(default_factory=dict)
    others: int = 0

    def look(self) -> None:
        pods = self.stack.all_pods()
        if not pods:
            return
        run = [p for p in pods if p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]]
        uids = {p["metadata"]["name"]: p["metadata"]["uid"] for p in run}
        self.first = {n: uid for n, uid in uids.items() if n.startswith("first-trainer-")}
        self.second = {n: uid for n, uid in uids.items() if n.startswith("second-trainer-")}
        self.others = sum(n.startswith("web-") for n in uids)
        free = CPUS - sum(_cpus(p) for p in run)
        self.looks.append((time.monotonic() - self.began, len(self.first), len(self.second), free))

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        def met() -> bool:
            self.look()
            return condition()

        until(what, met, context=lambda: f"{self.looks[-5:]}\n{self.stack.output[-2000:]}")

    def mark(self, words: str) -> None:
        self.marks.append((time.monotonic() - self.began, words))

    def draw(self, path: Path) -> None:
        names = ("trainers of first", "trainers of second", "free CPUs")
        series = {name: [(look[0], float(look[i + 1])) for look in self.looks] for i, name in enumerate(names)}
        path.write_text(steps("Two elastic jobs on 8 CPUs", series, self.marks), encoding="utf-8")


def _cpus(pod: dict[str, Any]) -> float:
    asked = [c.get("resources", {}).get("requests", {}).get("cpu", "0") for c in pod["spec"]["containers"]]
    return sum(float(a[:-1]) / 1000 if a.endswith("m") else float(a) for a in asked)


def epoch(stack: LocalStack, job: str) -> int:
    told = re.findall(r"\bepoch (\d+)/", stack.kubectl("logs", f"{job}-master-0", check=False))
    return int(told[-1]) if told else 0


def test_two_jobs_share_the_cpus_give_way_to_others_and_grow_back(stack: LocalStack) -> None:
    stack.kubectl("apply", "-f", "-", stdin=PRIORITY)
    film = Film(stack)
    film.mark("first applied")
    stack.kubectl("apply", "-f", "-", stdin=digits("first"))
    film.until("the first fills the cluster", lambda: len(film.first) == FULL)
    alone = film.first

    film.mark("second applied")
    stack.kubectl("apply", "-f", "-", stdin=digits("second"))
    film.until("the second has its share", lambda: (len(film.first), len(film.second)) == (FULL - 2, 2))
    assert film.first.items() <= alone.items(), "who stays is not restarted"
    before = epoch(stack, "first"), epoch(stack, "second")

    film.mark("3 others, higher priority")
    for number in range(3):
        stack.kubectl("apply", "-f", "-", stdin=web(number))
    film.until("the others have their room", lambda: film.others == 3)
    film.until("at the trainers' cost", lambda: (len(film.first), len(film.second)) == (FULL - 5, 2))
    film.until(
        "and both jobs still train", lambda: epoch(stack, "first") > before[0] and epoch(stack, "second") > before[1]
    )

    film.mark("others gone")
    stack.kubectl("delete", "pods", "-l", "app=web", "--wait=false")
    film.until("everything grows back", lambda: len(film.first) + len(film.second) == FULL and film.others == 0)
    assert {n: film.first[n] for n in ("first-trainer-0", "first-trainer-1")}.items() <= alone.items(), (
        "never restarted"
    )
    for job in ("first", "second"):
        status = stack.status(job)
        assert all(set(counts.values()) == {0} for counts in status.get("restartCounts", {}).values()), status[
            "restartCounts"
        ]
        assert {record["reason"].split(":")[0] for record in status["scaleRecords"]} == {"autoscaler"}
    film.until("for the picture", lambda: film.looks[-1][0] > film.looks[0][0] + 1)
    film.draw(ROOT / os.environ["TJ_PLOT"])
    stack.kubectl("delete", "aitj", "first", "second")
