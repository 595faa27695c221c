"""An elastic TrainJob of Kubeflow's Trainer, with real torchrun and a program of real PyTorch: it grows from two nodes
to four, loses one, and loses node 0, where its rendezvous is; its loss falls all the while."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.frameworks.test_training import TORCH, other_pod
from tests.frameworks.training import TRAIN_SECONDS, Json, Training, image, losses, need
from tests.support import fast_yaml as yaml
from tests.support import waiting
from tests.support.paths import ROOT

JOB = "elastic"
STEPS, LOSSES = 150, 2
LAUNCH = "python -m torch.distributed.run --monitor_interval 1 examples/pytorch/elastic.py"


class Trainer(Training):
    def job(self, name: str) -> Json | None:
        return self.look(f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/{name}")

    def conditions(self) -> list[str]:
        return [one["type"] for one in self.status(JOB).get("conditions", ()) if one["status"] == "True"]


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[Trainer]:
    made = Trainer(tmp_path, TJ_KINDS="trainjobs.trainer.kubeflow.org")
    try:
        made.start()
        yield made
    finally:
        made.clear()


def manifests(state: Path, told: Path) -> list[Json]:
    """The runtime and the job of examples/trainer, with the elastic program of examples/pytorch. What its nodes say
    is kept in `told`, too, where it outlives their pods."""
    runtime, job = yaml.safe_load_all((ROOT / "examples/trainer/trainjob.yaml").read_text(encoding="utf-8"))
    elastic = "elasticdeeplearning.ai"
    bounds = {f"{elastic}/min-nodes": "2", f"{elastic}/max-nodes": "4", f"{elastic}/autoscale": "true"}
    job["metadata"] = {"name": JOB, "annotations": bounds}
    brought = image("pytorch") | {"STEPS": str(STEPS), "STATE_FOLDER": str(state)}
    job["spec"]["trainer"] = {
        "numNodes": 2,
        "command": ["bash", "-c", f"exec {LAUNCH} > >(tee -a {told}/$HOSTNAME) 2>&1"],
        "env": [{"name": name, "value": value} for name, value in brought.items()],
        "resourcesPerNode": {"requests": {"cpu": "1", "memory": "200Mi"}},
    }
    return [runtime, job]


def test_an_elastic_trainjob_grows_and_outlives_the_loss_of_any_node(trainer: Trainer, tmp_path: Path) -> None:
    need(TORCH)
    state, told = tmp_path / "state-of-the-job", tmp_path / "what-nodes-said"
    state.mkdir()
    told.mkdir()
    trainer.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([other_pod(i) for i in range(2)]))
    trainer.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(manifests(state, told)))

    def said() -> str:
        """All that nodes have said so far, one node after another."""
        return "".join(file.read_text(encoding="utf-8") for file in sorted(told.iterdir()))

    def until(what: str, says: Callable[[str], bool]) -> str:
        waiting.until(what, lambda: says(said()), TRAIN_SECONDS, context=lambda: said()[-3000:], look_seconds=0.5)
        return said()

    def lose(index: int) -> str:
        """kill -9; returns when all train again that many nodes as before."""
        before, uids = last_step(said()), trainer.running_uids(JOB)
        victim = trainer.pod_process(JOB, "node-0", index)
        assert victim is not None
        victim.kill()
        name = f"{JOB}-node-0-{index}"
        waiting.until(
            f"{name} is back",
            lambda: trainer.running_uids(JOB).get(name) not in (None, uids[name]),
            TRAIN_SECONDS,
            context=lambda: trainer.story(JOB),
        )
        return until("four train on", lambda text: last_step(text) > before + 5 and last_size(text) == 4)

    until("two train", lambda text: last_size(text) == 2 and last_step(text) > 3)
    trainer.kubectl("delete", "pod", "other-0", "other-1", "--now")
    until("the autoscaler has made it four", lambda text: last_size(text) == 4)
    lose(3)
    assert trainer.conditions() == []
    lose(0)
    waiting.until(
        "it is complete",
        lambda: trainer.conditions() == ["Complete"],
        TRAIN_SECONDS,
        context=lambda: trainer.story(JOB),
    )
    text = said()
    found = losses(text)
    untold = set(range(STEPS)) - {number for number, _, _ in steps(text)}
    assert len(untold) <= LOSSES, (
        f"{untold}: node 0 keeps a step before it tells of it, and may be lost between the two"
    )
    assert all(later <= earlier * 1.001 for earlier, later in pairwise(found)), found
    assert found[-1] < 0.8 * found[0], found
    counted = trainer.status(JOB)["operator"]["restartCounts"]["node-0"]
    assert sum(counted.values()) >= 2, counted
    print_story(text, counted)


STEP = re.compile(r"step (\d+) loss (\d+\.\d+) of (\d+)$", re.MULTILINE)


def steps(text: str) -> list[tuple[int, float, int]]:
    return [(int(number), float(loss), int(size)) for number, loss, size in STEP.findall(text)]


def last_step(text: str) -> int:
    return max((number for number, _, _ in steps(text)), default=-1)


def last_size(text: str) -> int:
    """Of the world that has come furthest."""
    return max(steps(text), default=(0, 0.0, 0))[2]


def print_story(text: str, counted: Json) -> None:
    """For whoever runs it with -s: each round, and the loss at its ends."""
    rounds: list[tuple[int, list[tuple[int, float, int]]]] = []
    for step in sorted(set(steps(text))):
        if not rounds or rounds[-1][0] != step[2]:
            rounds.append((step[2], []))
        rounds[-1][1].append(step)
    for size, made in rounds:
        first, last = made[0], made[-1]
        sys.stdout.write(f"{size} nodes: step {first[0]} loss {first[1]} ... step {last[0]} loss {last[1]}\n")
    sys.stdout.write(f"restarts: {counted}\n")
