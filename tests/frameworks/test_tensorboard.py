"""The real TensorBoard serves the events of a run while it goes on, and is gone its time after the end."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.frameworks.training import Json, Training, image, need
from tests.support.waiting import until

PROGRAM = """
import os, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer, x = EventFileWriter("/events/" + os.environ["TRAININGJOB_SERVICE"]), 5.0
for step in range(60):
    x -= 0.2 * x
    value = Summary.Value(tag="loss", simple_value=x * x)
    writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))
writer.close()
while not os.path.exists("/events/finish"):
    time.sleep(0.1)
"""
POD = "watched-tensorboard-0"


def manifest(folder: Path) -> Json:
    container = {
        "name": "aitj-main",
        "image": "none",
        "command": ["python", "-c", PROGRAM],
        "env": [{"name": name, "value": value} for name, value in image("tensorboard").items() if name == "PATH"],
        "volumeMounts": [{"name": "events", "mountPath": "/events"}],
    }
    spec = {"containers": [container], "volumes": [{"name": "events", "hostPath": {"path": str(folder)}}]}
    config = {"logDir": "/events", "ttlSecondsAfterJobFinished": 5}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "watched", "annotations": {"kubedl.io/tensorboard-config": json.dumps(config)}},
        "spec": {"replicaSpecs": {"trainer": {"replicas": 2, "template": {"spec": spec}}}},
    }


def test_it_serves_the_events_of_a_run_and_goes_after_its_end(training: Training, tmp_path: Path) -> None:
    need("lib/python3.11/site-packages/tensorboard")
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
    shown = served("data/plugin/scalars/scalars?run=watched-trainer-1&tag=loss")
    assert isinstance(shown, list)
    losses = [point[2] for point in shown]
    assert len(losses) == 60
    assert losses == sorted(losses, reverse=True)
    (tmp_path / "finish").touch()
    assert training.ended("watched") == "Succeed", training.story("watched")
    until("it is gone", lambda: not training.pods("watched"), look_seconds=0.5)
