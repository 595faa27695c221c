"""examples/checkpoints on real processes: what a trainer has learnt outlives its pod."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.checkpoints import train
from localcluster_tests.unit.kubelet.room import Room
from tests.support import fast_yaml as yaml
from tests.support.kinds import resource_of
from tests.support.paths import ROOT
from tjworker.api.kinds import parse
from tjworker.api.model import TrainingJob

FOLDER = ROOT / "examples/checkpoints"
POD = "checkpoints-trainer-0"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process kubelet's tests read /proc")
Json = dict[str, Any]


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.kubelet.shutdown(0.0)


def manifest(name: str) -> Json:
    loaded: Json = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return loaded


def trainer(**options: str) -> Json:
    """The pod of the job's template, on this checkout, with some options of its command changed."""
    template = manifest("job.yaml")["spec"]["replicaSpecs"]["trainer"]["template"]
    [main] = template["spec"]["containers"]
    command = list(main["command"])
    for option, value in options.items():
        flag = f"--{option.replace('_', '-')}"
        command = [*command[: command.index(flag)], *command[command.index(flag) + 2 :]] if flag in command else command
        command += [flag, value]
    main.update(command=command, workingDir=str(ROOT))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": template["spec"]}


def last_epoch(room: Room) -> int:
    return max((int(found) for found in re.findall(r"^epoch (\d+)", room.logs(POD), re.MULTILINE)), default=0)


def test_the_job_is_one_that_the_operator_takes() -> None:
    job = manifest("job.yaml")
    assert isinstance(parse(resource_of(job), job), TrainingJob)


def test_a_trainer_goes_on_from_its_checkpoint_and_ends_as_if_nothing_had_happened(room: Room) -> None:
    if room.kubelet.host.isolation == "none":
        pytest.skip("mount namespaces are not available here")
    room.client.create(CLAIMS, manifest("claim.yaml"))
    room.run(trainer(epochs="1000000", epoch_seconds="0.1"))
    room.until(lambda: last_epoch(room) >= 2)
    room.client.delete(f"{PODS}/{POD}", {"gracePeriodSeconds": 0})
    room.until(room.gone(POD))
    room.until(lambda: not (room.folder / "pods").is_dir() or not list((room.folder / "pods").iterdir()))
    [folder] = (room.folder / "volumes").iterdir()
    done = train.load(folder)[0]
    disturbed = run(room, done + 5)
    assert disturbed[0] == f"goes on after epoch {done}"

    room.client.delete(f"{CLAIMS}/checkpoints")
    room.until(lambda: not room.client.get(CLAIMS)["items"])
    room.client.create(CLAIMS, manifest("claim.yaml"))
    undisturbed = run(room, done + 5)
    assert undisturbed[0] == "begins"
    assert disturbed[1:] == undisturbed[1 + done :], "the same losses, and the same weights at the end"
    assert float(re.findall(r"accuracy ([\d.]+)", undisturbed[-1])[0]) > 0.8


def run(room: Room, epochs: int) -> list[str]:
    """What a trainer says from its start to its end; it is gone afterwards."""
    room.run(trainer(epochs=str(epochs), epoch_seconds="0"))
    room.until(room.phase_is(POD, "Succeeded"))
    said = room.logs(POD).splitlines()
    room.client.delete(f"{PODS}/{POD}")
    room.until(room.gone(POD))
    return said
