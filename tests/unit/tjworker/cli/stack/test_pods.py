"""Pods' processes are found by the marks that the local cluster's agent leaves, and swept only by who owns the folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_SECONDS, until
from tjworker.cli import podprocess
from tjworker.cli.stack import pods, processes, roster
from tjworker.cli.stack.paths import StatePaths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
SLEEP = "import time; time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {SLEEP!r}])"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def one(code: str = SLEEP, **environment: str) -> subprocess.Popen[bytes]:
        running.append(subprocess.Popen([sys.executable, "-S", "-c", code], env=environment, start_new_session=True))
        return running[-1]

    yield one
    for process in running:
        processes.kill_group(process.pid)
        process.wait()


def container(state: Path, pod: str = "u1") -> str:
    return str(StatePaths(state).cluster_data / "pods" / pod / "containers" / "aitj-a" / "0")


def test_a_container_and_its_keeper_belong_to_the_cluster_of_their_folder(tmp_path: Path, start: Start) -> None:
    inside, keeper = start(LOCALCLUSTER_CONTAINER=container(tmp_path)), start()
    elsewhere = start(LOCALCLUSTER_CONTAINER=container(tmp_path / "b"))
    identity = processes.identify(keeper.pid)
    assert identity is not None
    folder = Path(container(tmp_path))
    folder.mkdir(parents=True)
    (folder / "shim.json").write_text(json.dumps({"shim": keeper.pid, "shim_ticks": int(identity.started)}))
    data = StatePaths(tmp_path).cluster_data
    until("both are found", lambda: {p.pid for p in pods.below(data)} == {inside.pid, keeper.pid})
    (folder / "shim.json").write_text(json.dumps({"shim": keeper.pid, "shim_ticks": 1}))
    assert {p.pid for p in pods.below(data)} == {inside.pid}, "the pid now belongs to somebody else"
    assert elsewhere.poll() is None


def test_a_replica_is_the_process_that_started_the_others_in_its_container(tmp_path: Path, start: Start) -> None:
    names = {"TRAININGJOB_NAME": "digits", "TRAININGJOB_REPLICA_NAME": "trainer", "TRAININGJOB_REPLICA_INDEX": "1"}
    main = start(PARENT, LOCALCLUSTER_CONTAINER=container(tmp_path), **names)
    start(LOCALCLUSTER_CONTAINER=container(tmp_path, "u2"), **{**names, "TRAININGJOB_REPLICA_INDEX": "0"})
    data = StatePaths(tmp_path).cluster_data
    until("its child runs too", lambda: len(pods.below(data)) == 3)
    found = podprocess.find(tmp_path, "digits", "trainer", 1)
    assert found is not None
    assert found.pid == main.pid
    assert podprocess.find(tmp_path, "digits", "trainer", 2) is None
    assert podprocess.find(tmp_path, "other", "trainer", 1) is None
    start(LOCALCLUSTER_CONTAINER=container(tmp_path, "u3"), **names)
    until("a second one of that name runs", lambda: podprocess.find(tmp_path, "digits", "trainer", 1) is None)


def test_a_sweep_ends_pods_only_when_it_may(tmp_path: Path, start: Start) -> None:
    pod = start(LOCALCLUSTER_CONTAINER=container(tmp_path))
    paths = StatePaths(tmp_path)
    until("it is found", lambda: len(roster.leftovers(paths)) == 1)
    assert roster.sweep(paths, "some-run", and_pods=False) == 0
    assert pod.poll() is None
    assert roster.sweep(paths, "some-run", grace_seconds=60) == 1
    assert pod.wait(timeout=PATIENCE_SECONDS) != 0
