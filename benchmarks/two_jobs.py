"""`python -m benchmarks.two_jobs`: two trainings that scale differently, for real, under `fulfillment` and `goodput`.

Each policy has a local stack of its own (as `tj up` starts it) with one node. The trainings are real processes that
learn, report their speed with their pods' tokens, and are scaled while they train. The first, `flat`, gains nothing
from more trainers. Some time later comes `steep`, which does.

With `--program torchrun` they are elastic PyTorch jobs: examples/pytorch/elastic.py under a torchrun in each pod, with
a pause in each step, as for a bigger model. The pause of `flat` is the same with any number of pods, that of `steep`
is divided among them. This needs the PyTorch of `make test-frameworks` and is the default where that is installed.

With `--program digits` they are trainings of examples/digits: `flat` has two shards in each pass over its data, so a
third trainer waits for the other two; `steep` has twelve.

Prints when each ended, how many trainers it had meanwhile, and how many trainers were restarted that no policy had
taken away. Exits 1 where one was, where a job failed, or where `steep` ends no sooner under `goodput`. Takes a quarter
of an hour; trainers mostly wait, so that a machine of two cores will do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.stack import LocalStack
from tests.frameworks.training import DEBIAN, image

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
POLICIES = ("fulfillment", "goodput")
LOOK_SECONDS = 0.5
GIVE_UP_SECONDS = 1200.0


@dataclass(frozen=True, slots=True)
class Training:
    manifest: Mapping[str, Any]
    submit: float
    """Seconds after the beginning."""
    role: str
    """Its elastic role, whose replicas the table counts. Each asks for one CPU."""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Trainings:
    cpus: int
    """CPUs of the node: too few for the maxima of both jobs."""
    jobs: tuple[Training, Training]


def torchrun(scale: float, apart: float) -> Trainings:
    """`scale`: how long they are, 1 for the published table. `apart`: seconds between their submissions."""
    flat = _torchrun("flat", STEPS=round(300 * scale), PAUSE_SECONDS=1.0)
    steep = _torchrun("steep", STEPS=round(90 * scale), PAUSE_SECONDS=0.1, SHARED_SECONDS=3.6)
    return Trainings(6, (Training(flat, 0.0, "worker"), Training(steep, apart, "worker")))


def _torchrun(name: str, **program: float) -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load((EXAMPLES / "pytorch/elastic.yaml").read_text(encoding="utf-8"))
    job["metadata"]["name"] = name
    role = job["spec"]["replicaSpecs"]["worker"]
    role |= {"replicas": 1, "minReplicas": 1, "maxReplicas": 4}
    pod = role["template"]["spec"]
    (container,) = pod["containers"]
    # With its least number of nodes, torchrun waits for more, by default for 30 seconds.
    container["command"][3:3] = ["--rdzv_conf", "$(PET_RDZV_CONF),last_call_timeout=3"]
    given = image("pytorch") | {"STATE_FOLDER": "/state"} | {key: str(value) for key, value in program.items()}
    container["env"] = [{"name": key, "value": value} for key, value in given.items()]
    container["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    pod["volumes"] = [{"name": "state", "emptyDir": {}}]
    return job


def digits(scale: float, apart: float) -> Trainings:
    flat = _digits("flat", shard_rows=720, shard_seconds=4.0, epochs=round(60 * scale))
    steep = _digits("steep", shard_rows=120, shard_seconds=2.0, epochs=round(20 * scale))
    return Trainings(8, (Training(flat, 0.0, "trainer"), Training(steep, apart, "trainer")))


def _digits(name: str, shard_rows: int, shard_seconds: float, epochs: int) -> dict[str, Any]:
    """`shard_rows` of about 1,440: the fewer, the more shards has a pass, and the more trainers find work."""
    job: dict[str, Any] = yaml.safe_load((EXAMPLES / "digits/job.yaml").read_text(encoding="utf-8"))
    job["metadata"]["name"] = name
    roles = job["spec"]["replicaSpecs"]
    roles["trainer"] |= {"replicas": 1, "minReplicas": 1, "maxReplicas": 6}
    options: Mapping[str, Mapping[str, object]] = {
        "master": {"--epochs": epochs, "--shard-rows": shard_rows, "--target": 0},
        "pserver": {},
        "trainer": {"--shard-seconds": shard_seconds, "--batch-rows": 60},
    }
    for role, given in options.items():
        container = roles[role]["template"]["spec"]["containers"][0]
        cpu = "1" if role == "trainer" else "20m"
        container["resources"] = {"requests": {"cpu": cpu, "memory": "100Mi"}}
        container["command"] = [*container["command"][:3], *(str(word) for pair in given.items() for word in pair)]
    return job


PROGRAMS: Mapping[str, Callable[[float, float], Trainings]] = {"torchrun": torchrun, "digits": digits}


def program_of_this_machine() -> str:
    return "torchrun" if (DEBIAN / "usr/lib/python3/dist-packages/torch").exists() else "digits"


@dataclass
class Outcome:
    """What was seen under one policy."""

    trainers: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Job -> (seconds, running trainers) at each look."""
    ended: dict[str, float] = field(default_factory=dict)
    """Seconds from the job's submission."""
    failed: list[str] = field(default_factory=list)
    restarted: int = 0
    """Trainers that came back under a name that had never been away."""
    speeds: dict[str, Mapping[int, float]] = field(default_factory=dict)
    """Job -> speeds in its status: trainers -> samples per second."""

    def trainers_at(self, job: str, second: float) -> int:
        return next((n for at, n in reversed(self.trainers.get(job, [])) if at <= second), 0)


def run(policy: str, folder: Path, trainings: Trainings) -> Outcome:
    stack = LocalStack(
        folder / policy,
        *("--nodes", "1", "--node-cpu", str(trainings.cpus)),
        TJ_AUTOSCALE_POLICY=policy,
        TJ_AUTOSCALE_SECONDS="2",
        TJ_AUTOSCALE_COOLDOWN_SECONDS="10",
    )
    try:
        stack.start()
        return _watch(stack, trainings.jobs)
    finally:
        stack.clear()


def _watch(stack: LocalStack, jobs: Sequence[Training]) -> Outcome:
    seen, began, waiting = Outcome(), time.monotonic(), list(jobs)
    uids: dict[str, dict[str, str]] = {job.name: {} for job in jobs}
    while len(seen.ended) < len(jobs) and (now := time.monotonic() - began) < GIVE_UP_SECONDS:
        if waiting and now >= waiting[0].submit:
            stack.kubectl("apply", "-f", "-", stdin=json.dumps(waiting.pop(0).manifest))
        for job in jobs:
            if job in waiting or job.name in seen.ended:
                continue
            status = stack.status(job.name)
            if status.get("phase") in ("Succeed", "Failed"):
                seen.ended[job.name] = time.monotonic() - began - job.submit
                seen.failed += [job.name] if status["phase"] == "Failed" else []
            else:
                run_now = {n: uid for n, uid in stack.running_uids(job.name).items() if f"-{job.role}-" in n}
                seen.trainers.setdefault(job.name, []).append((now, len(run_now)))
                seen.restarted += sum(uids[job.name].get(name, uid) != uid for name, uid in run_now.items())
                uids[job.name] = run_now
                seen.speeds[job.name] = _speeds(status) or seen.speeds.get(job.name, {})
        time.sleep(LOOK_SECONDS)
    seen.failed += [job.name for job in jobs if job.name not in seen.ended]
    return seen


def _speeds(status: Mapping[str, Any]) -> dict[int, float]:
    return {int(row["replicas"]): float(row["rate"]) for row in status.get("speed") or ()}


def table(outcomes: Mapping[str, Outcome], jobs: Sequence[Training], every: float) -> str:
    """Policies side by side; trainers every so many seconds until all jobs have ended, where they are not as before."""
    end = max(at for seen in outcomes.values() for looks in seen.trainers.values() for at, _ in looks)
    rows = [
        (
            f"`{job.name}` ends, s after it came",
            [f"{seen.ended.get(job.name, float('nan')):.0f}" for seen in outcomes.values()],
        )
        for job in jobs
    ]
    before: list[str] = []
    for second in range(int(every), int(end) + 1, int(every)):
        cells = []
        for seen in outcomes.values():
            counts = [0 if _gone(seen, job, second) else seen.trainers_at(job.name, second) for job in jobs]
            cells.append(" + ".join(map(str, counts)) if any(counts) else "")
        if cells != before:
            rows.append((f"trainers at {second} s: {' + '.join(f'`{job.name}`' for job in jobs)}", cells))
        before = cells
    rows.append(("trainers restarted that stayed", [str(seen.restarted) for seen in outcomes.values()]))
    lines = [f"| | {' | '.join(f'`{policy}`' for policy in outcomes)} |", f"|---|{'---|' * len(outcomes)}"]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows)])


def _gone(seen: Outcome, job: Training, second: float) -> bool:
    return job.name in seen.ended and seen.ended[job.name] + job.submit <= second


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.two_jobs", description=(__doc__ or "").split("\n\n")[0])
    here = program_of_this_machine()
    parser.add_argument("--program", choices=PROGRAMS, default=here, help="what they train (default here: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="how long the trainings are (default %(default)s)")
    parser.add_argument("--apart", type=float, default=60.0, help="seconds between the two (default %(default)s)")
    parser.add_argument("--policy", action="append", help="default: fulfillment and goodput; may be repeated")
    options = parser.parse_args(arguments)
    trainings = PROGRAMS[options.program](options.scale, options.apart)
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="tj-two-jobs-") as folder:
        for policy in options.policy or POLICIES:
            outcomes[policy] = run(policy, Path(folder), trainings)
    print(table(outcomes, trainings.jobs, every=40))
    for policy, seen in outcomes.items():
        speeds = "; ".join(
            f"{job} {', '.join(f'{rate:.0f} with {n}' for n, rate in sorted(rates.items()))}"
            for job, rates in seen.speeds.items()
        )
        print(f"\n{policy}: samples per second as reported: {speeds}")
    wrong = {policy: seen for policy, seen in outcomes.items() if seen.failed or seen.restarted}
    for policy, seen in wrong.items():
        print(f"{policy}: {seen.restarted} trainers restarted; failed: {seen.failed}", file=sys.stderr)
    last = trainings.jobs[-1].name
    ends = {policy: seen.ended[last] for policy, seen in outcomes.items() if last in seen.ended}
    if ends.keys() >= set(POLICIES) and ends["goodput"] >= ends["fulfillment"]:
        print(f"{last} does not end sooner under goodput: {ends}", file=sys.stderr)
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
