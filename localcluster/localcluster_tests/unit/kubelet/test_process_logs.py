"""Logs of real processes: what is asked for, what is followed, and their bounds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localcluster.wire import Json
from localcluster_tests.unit.kubelet.room import Room, pod, shell
from localcluster_tests.unit.world import PODS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process kubelet's tests read /proc")


LOGS: dict[str, tuple[dict[str, str], Callable[[str], bool]]] = {
    "all": ({}, lambda t: t == "".join(f"line {n}\n" for n in range(100))),
    "the last two": ({"tailLines": "2"}, lambda t: t == "line 98\nline 99\n"),
    "none": ({"tailLines": "0"}, lambda t: t == ""),
    "with times": (
        {"tailLines": "1", "timestamps": "true"},
        lambda t: t.split(" ", 1)[1] == "line 99\n" and t[10] == "T",
    ),
    "since a second ago": ({"sinceSeconds": "100"}, lambda t: t.count("\n") == 100),
    "since later": ({"sinceTime": "2100-01-01T00:00:00Z"}, lambda t: t == ""),
    "so many bytes": ({"limitBytes": "10"}, lambda t: t == "line 0\nlin"),
    "of a run before": ({"previous": "true"}, lambda t: "previous terminated container" in t),
}


def test_logs_as_asked_for(room: Room) -> None:
    room.run(pod("p", shell("for i in $(seq 0 99); do echo line $i; done")))
    room.until(room.phase_is("p", "Succeeded"))
    for name, (query, want) in LOGS.items():
        assert want(room.logs("p", **query)), name


def test_following_a_log_gives_each_line_once_and_ends_with_the_container(room: Room, tmp_path: Path) -> None:
    flag = tmp_path / "go"
    room.run(pod("p", shell(f"echo one; while ! test -f {flag}; do sleep 0.02; done; echo two; printf three")))
    room.until(lambda: room.status("p")["phase"] == "Running" and room.logs("p") == "one\n")
    watch = room.follow("p")
    got: list[bytes] = []

    def over() -> bool:
        got.extend(watch.poll())
        return watch.closed

    flag.touch()
    room.until(over)
    assert b"".join(got) == b"one\ntwo\nthree\n"


def test_a_log_that_is_followed_while_its_pod_is_looked_at_has_not_ended(room: Room) -> None:
    """Kubelets of their own serve logs on other threads."""
    room.run(pod("p", shell("sleep 4722")))
    room.until(room.phase_is("p", "Running"))
    [run] = room.kubelet.runs["default/p"].values()
    seen: list[tuple[bool, bool]] = []

    class Meanwhile(list[Json]):
        def __iter__(self) -> Iterator[Json]:
            for each in super().__iter__():
                seen.append((run.container_ended("main"), run.log_folder("main", previous=False) is not None))
                yield each

    made = room.client.get(f"{PODS}/p")
    run.bind({**made, "spec": {**made["spec"], "containers": Meanwhile(made["spec"]["containers"])}})
    assert seen == [(False, True)]


def test_logs_are_bounded(tmp_path: Path) -> None:
    room = Room(tmp_path, log_bytes=20_000)
    room.run(pod("p", shell("for i in $(seq 0 9999); do echo a line of some length $i; done")))
    room.until(room.phase_is("p", "Succeeded"))
    text = room.logs("p")
    assert text.endswith("a line of some length 9999\n")
    assert sum(f.stat().st_size for f in tmp_path.glob("pods/*/containers/main/0/log*")) < 150_000
    room.kubelet.shutdown(0.0)
