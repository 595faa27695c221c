"""Pods' processes are found by the marks that the local cluster's agent leaves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.waiting import until
from tjstack import processes
from tjstack.paths import StatePaths

SLEEP = "import time; time.sleep(60)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {SLEEP!r}])"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def one(code: str = SLEEP, arguments: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-c", code, *arguments]
        running.append(subprocess.Popen(command, env=environment, start_new_session=True))
        return running[-1]

    yield one
    for process in running:
        processes.kill_group(process.pid)
        process.wait()


def container(state: Path, pod: str = "u1") -> str:
    return str(StatePaths(state).cluster_data / "pods" / pod / "containers" / "aitj-a" / "0")


def pids(state: Path) -> set[int]:
    return {p.pid for p in processes.of_stack(StatePaths(state))}


def test_a_container_and_its_runner_belong_to_the_cluster_of_their_folder(tmp_path: Path, start: Start) -> None:
    inside = start(LOCALCLUSTER_CONTAINER=container(tmp_path))
    runner = start(arguments=(container(tmp_path),))
    start(LOCALCLUSTER_CONTAINER=container(tmp_path / "b"))
    start(arguments=(container(tmp_path) + "/log",))
    until("both are found, and nothing else", lambda: pids(tmp_path) == {inside.pid, runner.pid})


def test_a_replica_is_the_process_that_started_the_others_in_its_container(tmp_path: Path, start: Start) -> None:
    names = {"TRAININGJOB_NAME": "digits", "TRAININGJOB_REPLICA_NAME": "trainer", "TRAININGJOB_REPLICA_INDEX": "1"}
    main = start(PARENT, LOCALCLUSTER_CONTAINER=container(tmp_path), **names)
    start(LOCALCLUSTER_CONTAINER=container(tmp_path, "u2"), **{**names, "TRAININGJOB_REPLICA_INDEX": "0"})
    paths = StatePaths(tmp_path)
    until("its child runs too", lambda: len(pids(tmp_path)) == 3)
    found = processes.replica(paths, "digits", "trainer", 1)
    assert found is not None
    assert found.pid == main.pid
    assert processes.replica(paths, "digits", "trainer", 2) is None
    assert processes.replica(paths, "other", "trainer", 1) is None
    start(LOCALCLUSTER_CONTAINER=container(tmp_path, "u3"), **names)
    until("a second one of that name runs", lambda: processes.replica(paths, "digits", "trainer", 1) is None)


def test_the_end_of_a_stack_is_the_end_of_its_pods(tmp_path: Path, start: Start) -> None:
    pod = start(LOCALCLUSTER_CONTAINER=container(tmp_path))
    until("it is found", lambda: pids(tmp_path) == {pod.pid})
    assert processes.end_all(StatePaths(tmp_path), grace_seconds=60) == 1
    assert pids(tmp_path) == set()
    assert processes.end_all(StatePaths(tmp_path), grace_seconds=60) == 0
