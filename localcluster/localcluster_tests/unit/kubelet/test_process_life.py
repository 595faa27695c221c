"""Pods outlive their kubelet, and end with its shutdown."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.client import ApiError
from localcluster.kubelet.container_runner import stat_fields
from localcluster.kubelet.troubles import EVICT_ANNOTATION
from localcluster.wire import Json
from localcluster_tests.support.waiting import PATIENCE_SECONDS, until
from localcluster_tests.unit.kubelet.room import Room, ended, pod, processes, shell
from localcluster_tests.unit.world import PODS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process kubelet's tests read /proc")


def test_a_force_deleted_pod_is_killed_though_the_api_has_forgotten_it(room: Room) -> None:
    room.run(pod("p", shell("trap '' TERM; sleep 4713")))
    room.until(room.phase_is("p", "Running"))
    room.client.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    room.until(lambda: not processes("sleep\x004713", room.folder) and not list((room.folder / "pods").iterdir()))


def kubelet_dies(room: Room) -> Room:
    """Like kill -9: the pods get no signal. The next kubelet knows only the disk and the API."""
    room.kubelet.close()
    room.informers.close()
    return Room(room.folder, apiserver=room.apiserver)


def test_pods_outlive_their_kubelet_and_the_next_one_has_their_exit_codes(room: Room, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    room.run(pod("ends-meanwhile", shell(f"while ! test -f {flag}; do sleep 0.02; done; echo bye; exit 5")))
    room.run(pod("runs-on", shell("sleep 4714")))
    room.until(lambda: all(room.status(n)["phase"] == "Running" for n in ("ends-meanwhile", "runs-on")))
    [runner] = [
        c.container.runner_pid
        for r in room.kubelet.runs["default/ends-meanwhile"].values()
        for c in r.containers
        if c.container
    ]
    started = room.status("runs-on")["containerStatuses"][0]["state"]["running"]["startedAt"]
    room.kubelet.close()
    flag.touch()
    os.waitpid(runner, 0)
    again = kubelet_dies(room)
    again.until(again.phase_is("ends-meanwhile", "Failed"))
    assert ended(again.status("ends-meanwhile"))["exitCode"] == 5
    assert again.logs("ends-meanwhile") == "bye\n"
    assert again.status("runs-on")["containerStatuses"][0]["state"]["running"]["startedAt"] == started
    assert again.status("runs-on")["containerStatuses"][0]["restartCount"] == 0
    again.client.delete(f"{PODS}/runs-on")
    again.until(again.gone("runs-on"))
    assert processes("sleep\x004714", room.folder) == []


def test_a_pod_deleted_while_no_kubelet_was_there_is_ended_by_the_next_one(room: Room) -> None:
    room.run(pod("p", shell("sleep 4715")))
    room.until(room.phase_is("p", "Running"))
    room.kubelet.close()
    room.client.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    again = kubelet_dies(room)
    again.until(lambda: not processes("sleep\x004715", room.folder) and not list((again.folder / "pods").iterdir()))


def test_a_container_whose_runner_vanished_is_unknown_and_its_processes_are_ended(room: Room) -> None:
    room.run(pod("p", shell("setsid sleep 4716 & exec sleep 4716")))
    room.until(lambda: room.status("p")["phase"] == "Running" and len(processes("sleep\x004716", room.folder)) >= 2)
    [runner] = [
        c.container.runner_pid for r in room.kubelet.runs["default/p"].values() for c in r.containers if c.container
    ]
    os.kill(runner, signal.SIGKILL)
    room.until(room.phase_is("p", "Failed"))
    assert (ended(room.status("p"))["exitCode"], ended(room.status("p"))["reason"]) == (137, "ContainerStatusUnknown")
    room.until(lambda: not processes("sleep\x004716", room.folder))


def test_shutdown_ends_everything_and_leaves_no_zombie(tmp_path: Path) -> None:
    before = set(zombies())
    room = Room(tmp_path)
    for number in range(3):
        room.run(pod(f"p{number}", shell("trap '' TERM; sleep 4717 & setsid sleep 4717 & sleep 4717")))
    room.until(lambda: len(processes("sleep\x004717", room.folder)) == 9)
    room.kubelet.shutdown(0.3)
    assert processes("sleep\x004717", room.folder) == []

    def all_taken_in() -> bool:
        for runs in room.kubelet.runs.values():
            for run in runs.values():
                run.refresh()
        return set(zombies()) <= before

    until("no zombie is left", all_taken_in)


def zombies() -> Iterator[int]:
    """The children of this process, with those that an earlier test has left."""
    for entry in Path("/proc").glob("[0-9]*"):
        fields = stat_fields(int(entry.name))
        if fields and fields[0] == "Z" and int(fields[1]) == os.getpid():
            yield int(entry.name)


def by_shutdown(status: Json) -> bool:
    [disrupted] = [c for c in status["conditions"] if c["type"] == "DisruptionTarget"] or [{}]
    return (status["phase"], status["reason"], disrupted.get("status"), disrupted.get("reason")) == (
        "Failed",
        "Terminated",
        "True",
        "TerminationByKubelet",
    )


@pytest.mark.parametrize(
    "away", [False, True], ids=["the API server is there", "the API server is away until the next kubelet"]
)
def test_who_is_ended_by_a_shutdown_has_failed_by_the_node(
    room: Room, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    room.run(pod("killed", shell("sleep 4719")))
    room.run(pod("saves", shell("trap 'exit 0' TERM; while :; do sleep 0.05; done")))
    room.run(pod("done", shell("exit 3")))
    room.until(
        lambda: [room.status(p)["phase"] for p in ("killed", "saves", "done")] == ["Running", "Running", "Failed"]
    )

    def refuse(*_: object, **__: object) -> None:
        raise ApiError(503, "ServiceUnavailable", "no")

    if away:
        monkeypatch.setattr(room.client, "update", refuse)
    room.kubelet.shutdown(PATIENCE_SECONDS)
    if away:
        assert room.status("killed")["phase"] == "Running"
        monkeypatch.undo()
        room = kubelet_dies(room)
        room.until(lambda: [room.status(p)["phase"] for p in ("killed", "saves")] == ["Failed", "Failed"])
    assert [p for p in ("killed", "saves") if not by_shutdown(room.status(p))] == []
    assert ended(room.status("killed"))["exitCode"] == 143
    assert "reason" not in room.status("done"), "it failed by itself, before"
    assert [c for c in room.status("done")["conditions"] if c["type"] == "DisruptionTarget"] == []


def test_who_is_evicted_for_its_own_limits_has_failed_by_itself_within_a_second(room: Room) -> None:
    deaf = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
    room.run(pod("p", shell(deaf), terminationGracePeriodSeconds=3600))
    room.until(lambda: room.status("p")["phase"] == "Running" and "deaf" in room.logs("p"))
    room.client.patch(f"{PODS}/p", {"metadata": {"annotations": {EVICT_ANNOTATION: "limit"}}})
    room.until(room.phase_is("p", "Failed"))
    status = room.status("p")
    assert status["reason"] == "Evicted"
    assert [c for c in status["conditions"] if c["type"] == "DisruptionTarget"] == []
    assert ended(status)["exitCode"] == 137


def test_a_node_that_turns_pods_away_starts_nothing_of_them_and_runs_what_ran(room: Room) -> None:
    room.run(pod("old", shell("sleep 4720")))
    room.until(room.phase_is("old", "Running"))
    room.kubelet.fail("node-0", "Reject=UnexpectedAdmissionError")
    room.run(pod("new", shell("sleep 4721")))
    room.until(room.phase_is("new", "Failed"))
    assert room.status("new")["reason"] == "UnexpectedAdmissionError"
    assert processes("sleep\x004721", room.folder) == []
    assert room.status("old")["phase"] == "Running"
    room.client.delete(f"{PODS}/new")
    room.until(room.gone("new"))
