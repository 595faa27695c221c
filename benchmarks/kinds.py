"""`python -m benchmarks.kinds`: the costs of a TrainJob and of a PyTorchJob, of one pod each.

One operator that serves both kinds, on a real kube-apiserver. In each round the same number of jobs of each kind goes
to Running, and who is first changes. Requests are counted by the API server's audit log, CPU is that of the operator's
processes; both hold on a busy machine. Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import loads
from benchmarks.apiserver import NODE, ApiServer
from benchmarks.audit import Requests
from benchmarks.measure import OPERATOR_USERS, requests_since, start_player
from benchmarks.operator import Operator
from benchmarks.peer.jobs import PYTORCHJOBS
from benchmarks.processes import Processes
from benchmarks.wire import Json

ROOT = Path(__file__).resolve().parent.parent
CRDS = ROOT / "k8s/crds/aitrainingjobs.elasticdeeplearning.ai.yaml"
KINDS = ROOT / "k8s/kinds"
TRAINER = "/apis/trainer.kubeflow.org/v1alpha1"
RUNTIMES = f"{TRAINER}/clustertrainingruntimes"
STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
WARM_UP = 20
"""Jobs of each kind before the first round: the first task of a process imports and connects."""


def runtime() -> Json:
    """With the pods of `loads.job`."""
    template = loads.job("", 1)["spec"]["replicaSpecs"]["trainer"]["template"]
    template["spec"]["containers"][0]["name"] = "node"
    spec = {"backoffLimit": 0, "template": {"spec": {"nodeName": NODE, **template["spec"]}}}
    node = {"name": "node", "template": {"metadata": {"labels": {STEP: "trainer"}}, "spec": spec}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "bench"},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}},
    }


def train_job(name: str, replicas: int, *, run_seconds: float | None = None) -> Json:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": {"name": "bench"}, "trainer": {"numNodes": replicas}},
    }


def phase(raw: Json) -> str:
    return str((raw.get("status") or {}).get("operator", {}).get("phase", ""))


SERVED = {
    "PyTorchJob": PYTORCHJOBS,
    "TrainJob": loads.Kind(f"{TRAINER}/namespaces/default/trainjobs", train_job, phase),
}


@dataclass(slots=True)
class Cost:
    """The costs of one kind, round by round."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    """CPU seconds of watcher, workers and Redis."""
    requests: list[Requests] = field(default_factory=list)


def measure(folder: Path, jobs: int, rounds: int) -> dict[str, Cost]:
    processes = Processes(folder)
    try:
        api = ApiServer(folder, processes, CRDS)
        api.start()
        api.serve(KINDS / "pytorchjobs.kubeflow.org/crd.yaml", PYTORCHJOBS.path)
        trainer = KINDS / "trainjobs.trainer.kubeflow.org"
        api.serve(trainer / "crd.yaml", SERVED["TrainJob"].path)
        api.serve(trainer / "clustertrainingruntimes.yaml", RUNTIMES)
        api.connection().post(RUNTIMES, runtime())
        settings = {"TJ_KINDS": "pytorchjobs.kubeflow.org,trainjobs.trainer.kubeflow.org"}
        operator = Operator(folder, processes, api, workers=(1, 1), settings=settings)
        start_player(api, processes)
        operator.start()
        found = {name: Cost() for name in SERVED}
        for kind in SERVED.values():
            loads.run_jobs(api, WARM_UP, 1, until="Running", kind=kind)
            _clean(api, operator, kind)
        for number in range(rounds):
            for name in sorted(SERVED, reverse=bool(number % 2)):
                _one(found[name], jobs, api, operator, processes, SERVED[name])
        return found
    finally:
        processes.stop()


def _one(cost: Cost, jobs: int, api: ApiServer, operator: Operator, processes: Processes, kind: loads.Kind) -> None:
    position, before = api.audit.position(), processes.cpu_seconds()
    cost.seconds.append(loads.run_jobs(api, jobs, 1, until="Running", kind=kind))
    operator.until_idle()
    after = processes.cpu_seconds()
    own = [name for name in after if name.partition(" ")[0] in ("watcher", "worker", "redis")]
    cost.cpu_seconds.append(sum(after[name] - before.get(name, 0.0) for name in own))
    cost.requests.append(requests_since(api, position, OPERATOR_USERS))
    _clean(api, operator, kind)


def _clean(api: ApiServer, operator: Operator, kind: loads.Kind) -> None:
    loads.clean(api, kind.path)
    operator.until_idle(jobs=0)


def render(found: dict[str, Cost], jobs: int) -> list[str]:
    """A Markdown table."""
    first, second = found
    rows = [f"| {jobs:,} x 1 to Running, median of {len(found[first].seconds)} rounds | {first} | {second} | ratio |"]
    rows.append("|---|---|---|---|")

    def row(name: str, each: Iterable[float], digits: int) -> None:
        one, other = each
        rows.append(f"| {name} | {one:.{digits}f} | {other:.{digits}f} | {other / one if one else 0:.2f} |")

    medians = {name: statistics.median(cost.cpu_seconds) for name, cost in found.items()}
    row("CPU of the operator, ms a job", (1000 * one / jobs for one in medians.values()), 2)
    row("seconds", (statistics.median(cost.seconds) for cost in found.values()), 1)
    totals = {name: [sum(one.values()) / jobs for one in cost.requests] for name, cost in found.items()}
    row("requests a job", (statistics.median(one) for one in totals.values()), 3)
    by_verb: dict[str, Counter[str]] = {}
    for name, cost in found.items():
        for (_, verb, resource), n in cost.requests[-1].items():
            by_verb.setdefault(f"{verb} {resource}", Counter())[name] += n
    rows += [f"| {what}, last round | {n[first]} | {n[second]} | |" for what, n in sorted(by_verb.items())]
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kinds", description="A TrainJob compared with a PyTorchJob."
    )
    parser.add_argument("--jobs", type=int, default=1000, metavar="N", help="of each kind in a round (default 1000)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="medians are shown (default 3)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
        found = measure(Path(folder), options.jobs, options.rounds)
    print("\n".join(render(found, options.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
