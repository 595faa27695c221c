"""The real TensorBoard serves the events of a run while it goes on, and is gone its time after the end."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.frameworks.training import Json, Training, image, need
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.waiting import until

POD = "watched-tensorboard-0"
TTL_SECONDS = 60
"""It may start after its job has ended, on a busy machine."""


def manifest(folder: Path) -> Json:
    """The example, with a folder of this machine for its claim."""
    job: Json = yaml.safe_load((ROOT / "examples/tensorboard.yaml").read_text())
    config = {"logDir": "/checkpoints/events", "ttlSecondsAfterJobFinished": TTL_SECONDS}
    job["metadata"] |= {"name": "watched", "annotations": {"kubedl.io/tensorboard-config": json.dumps(config)}}
    spec = job["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]
    spec["volumes"] = [{"name": "checkpoints", "hostPath": {"path": str(folder)}}]
    spec["containers"][0]["env"] = [{"name": name, "value": value} for name, value in image("tensorboard").items()]
    return job


def test_it_serves_the_events_of_a_run_and_goes_after_its_end(training: Training, tmp_path: Path) -> None:
    need("lib/python3.11/site-packages/tensorboard", "lib/python3.11/site-packages/tensorflow")
    training.kubectl("apply", "-f", "-", stdin=json.dumps(manifest(tmp_path)))

    def address() -> str:
        pod = training.pods("watched").get(POD, {"status": {}})
        return str(pod["status"].get("podIP", ""))

    def served(path: str) -> Any:
        try:
            with urllib.request.urlopen(f"http://{address()}:6006/default/watched/{path}", timeout=10) as answer:
                return json.load(answer)
        except (OSError, ValueError):
            return None

    runs = ["watched-trainer-0", "watched-trainer-1"]
    until("both runs are shown", lambda: sorted(served("data/runs") or ()) == runs, 300, look_seconds=0.5)
    path = "data/plugin/scalars/scalars?run=watched-trainer-1&tag=loss"
    until("the loss is shown", lambda: len(served(path) or ()) > 1, look_seconds=0.5)
    shown = served(path)
    assert isinstance(shown, list)
    losses = [point[2] for point in shown]
    assert len(losses) > 1
    assert losses == sorted(losses, reverse=True)
    assert training.ended("watched") == "Succeed", training.story("watched")
    until("it is gone", lambda: not training.pods("watched"), look_seconds=0.5)
