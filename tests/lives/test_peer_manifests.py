"""Manifests that people wrote for the operators before this one are applied as they are, and their jobs run to their end.

TJ_PEER_MANIFESTS names the folder with them; they are not ours to ship.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.agents.fake import Play
from tests.lives.world import World

FOLDER = os.environ.get("TJ_PEER_MANIFESTS", "")

pytestmark = pytest.mark.skipif(not FOLDER, reason="TJ_PEER_MANIFESTS names no folder with manifests for other operators")


def apply_as_it_is(world: World, name: str) -> Any:
    manifest = yaml.safe_load((Path(FOLDER) / name).read_text(encoding="utf-8"))
    world.apply(manifest).run()
    return manifest


def test_paddle_mnist_runs_survives_a_kill_and_succeeds() -> None:
    world = World()
    world.cluster.agent.script = lambda pod, attempt: Play(run_seconds=5, exit_code=137 if attempt == 1 else 0)
    apply_as_it_is(world, "aitj-paddle-mnist.yaml")
    assert world.phase("paddle-mnist") == "Running"
    pod = world.pods()["paddle-mnist-trainer-0"]
    assert (pod["spec"]["hostNetwork"], pod["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
    assert (env["TRAINER_PORTS"], env["TRAINER_INSTANCES_NUM"]) == ("24446", "1")
    world.until("it is restarted", lambda: world.status("paddle-mnist").get("restarts") == 1)
    world.until("it succeeds", lambda: world.phase("paddle-mnist") == "Succeed")
    assert (world.pods(), world.services()) == ({}, [])


def test_paddle_mnist_may_be_killed_only_once() -> None:
    world = World()
    world.cluster.agent.script = lambda pod, attempt: Play(run_seconds=5, exit_code=137)
    apply_as_it_is(world, "aitj-paddle-mnist.yaml")
    world.until("it fails", lambda: world.phase("paddle-mnist") == "Failed")
    assert "restartLimit 1 of role trainer is used up" in world.status("paddle-mnist")["message"]
