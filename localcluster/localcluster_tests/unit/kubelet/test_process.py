"""Pods as real processes: what they see, how they end, what is left of them, and what survives the kubelet's own
death."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from localcluster.kubelet.containers import detect_isolation
from localcluster.wire import Json
from localcluster_tests.unit.kubelet.room import Room, container, ended, pod, processes, shell
from localcluster_tests.unit.world import PODS, conditions, events

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process kubelet's tests read /proc")


def env(**values: str) -> list[Json]:
    return [{"name": k, "value": v} for k, v in values.items()]


@dataclass(frozen=True)
class Case:
    pod: Json
    want_phase: str = "Succeeded"
    want_code: int = 0
    want_log: str | None = None
    want_reason: str | None = None
    setup: list[tuple[str, Json]] = field(default_factory=list)


CONFIG = (
    "/api/v1/namespaces/default/configmaps",
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"K": "v", "file.txt": "content"}},
)
SECRET = (
    "/api/v1/namespaces/default/secrets",
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"P": "pass"},
        "data": {"P": "cGFzcw=="},
    },
)

CASES: dict[str, Case] = {
    "A command that ends well": Case(
        pod("p", shell("echo hello; echo world")), want_log="hello\nworld\n", want_reason="Completed"
    ),
    "A command that fails": Case(pod("p", shell("exit 3")), "Failed", 3, want_reason="Error"),
    "A signal shows as 128 + n": Case(pod("p", shell("kill -9 $$$$")), "Failed", 137, want_reason="Error"),
    "Arguments follow the command, with variables and dollars": Case(
        pod("p", container("echo", args=["$(A)-$(B)-$$(A)-$(NONE)-$HOME"], env=env(A="1", B="$(A)2"))),
        want_log="1-12-$(A)-$(NONE)-$HOME\n",
    ),
    "ConfigMaps and Secrets as environment": Case(
        pod(
            "p",
            shell(
                "echo $K $X_K $P",
                env=[
                    {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "K"}}},
                    {"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "P"}}},
                ],
                envFrom=[{"prefix": "X_", "configMapRef": {"name": "c"}}],
            ),
        ),
        want_log="v v pass\n",
        setup=[CONFIG, SECRET],
    ),
    "Init containers run first, one after the other": Case(
        pod(
            "p",
            shell("cat /scratch/x", volumeMounts=[{"name": "w", "mountPath": "/scratch"}]),
            volumes=[{"name": "w", "emptyDir": {}}],
            initContainers=[
                shell("echo a > /scratch/x", volumeMounts=[{"name": "w", "mountPath": "/scratch"}]) | {"name": "i1"},
                shell("echo b >> /scratch/x", volumeMounts=[{"name": "w", "mountPath": "/scratch"}]) | {"name": "i2"},
            ],
        ),
        want_log="a\nb\n",
    ),
    "A failed init container fails the pod": Case(
        pod("p", shell("true"), initContainers=[shell("exit 4") | {"name": "i"}]), "Failed", want_code=-1
    ),
    "ConfigMaps as files": Case(
        pod(
            "p",
            shell("cat /etc/conf/file.txt", volumeMounts=[{"name": "v", "mountPath": "/etc/conf"}]),
            volumes=[{"name": "v", "configMap": {"name": "c"}}],
        ),
        want_log="content\n",
        setup=[CONFIG],
    ),
    "OnFailure restarts in place": Case(
        pod(
            "p",
            shell("test -f /w/x && exit 0; touch /w/x; exit 1", volumeMounts=[{"name": "w", "mountPath": "/w"}]),
            volumes=[{"name": "w", "emptyDir": {}}],
            restart="OnFailure",
        )
    ),
    "What was left running ends with the command": Case(
        pod("p", shell("sleep 4711 & setsid sleep 4711 & echo done")), want_log="done\n"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pod_runs_to_its_end(room: Room, name: str) -> None:
    case = CASES[name]
    if "/w" in str(case.pod) and room.kubelet.host.isolation == "none":
        pytest.skip("mount namespaces are not available here")
    for path, body in case.setup:
        room.client.create(path, body)
    room.run(case.pod)
    room.until(room.phase_is("p", "Succeeded", "Failed"))
    status = room.status("p")
    assert status["phase"] == case.want_phase
    if case.want_code >= 0:
        assert ended(status)["exitCode"] == case.want_code
    if case.want_reason:
        assert ended(status)["reason"] == case.want_reason
    if case.want_log is not None:
        assert room.logs("p") == case.want_log
    assert processes("sleep\x004711", room.folder) == []


@dataclass(frozen=True)
class Waiting:
    pod: Json
    want_reason: str
    want_in_message: str


WAITING: dict[str, Waiting] = {
    "No command at all": Waiting(
        pod("p", {"name": "main", "image": "busybox"}),
        "CreateContainerError",
        "container main has no command: images are not pulled here",
    ),
    "A ConfigMap that is not there": Waiting(
        pod("p", shell("true", envFrom=[{"configMapRef": {"name": "gone"}}])),
        "CreateContainerConfigError",
        'configmap "gone" not found',
    ),
    "A key that is not there": Waiting(
        pod("p", shell("true", env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no"}}}])),
        "CreateContainerConfigError",
        "couldn't find key no in Secret default/s",
    ),
    "A container that crashes": Waiting(
        pod("p", shell("exit 1"), restart="Always"),
        "CrashLoopBackOff",
        "back-off 10s restarting failed container=main pod=p_default(",
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_pod_waits_and_says_why(room: Room, name: str) -> None:
    case = WAITING[name]
    room.client.create(*SECRET)
    room.run(case.pod)

    def waiting() -> Json:
        statuses = room.status("p").get("containerStatuses") or [{}]
        state: Json = statuses[0].get("state", {}).get("waiting") or {}
        return state

    room.until(lambda: waiting().get("reason") == case.want_reason)
    assert case.want_in_message in waiting()["message"]


NOT_STARTED: dict[str, tuple[Json, str]] = {
    "A command that is not there": (
        container("no-such-program"),
        'error during container init: exec: "no-such-program": executable file not found in $PATH: unknown',
    ),
    "A path that is not there": (
        container("/no/such/program"),
        'exec: "/no/such/program": stat /no/such/program: no such file or directory: unknown',
    ),
    "A file that is no program": (container("/etc/hosts"), 'exec: "/etc/hosts": permission denied: unknown'),
}


@pytest.mark.parametrize("name", NOT_STARTED)
def test_a_command_that_cannot_be_started_ends_as_under_containerd(room: Room, name: str) -> None:
    main, want_in_message = NOT_STARTED[name]
    room.run(pod("once", main))
    room.run(pod("again", main, restart="OnFailure"))
    room.until(room.phase_is("once", "Failed"))
    state = ended(room.status("once"))
    assert (state["reason"], state["exitCode"], state["startedAt"]) == ("StartError", 128, "1970-01-01T00:00:00Z")
    assert state["message"].startswith("failed to create containerd task: ")
    assert want_in_message in state["message"]
    assert f"Failed: Error: {state['message']}" in events_of(room, "once")
    assert room.logs("once") == ""

    def crashes() -> bool:
        state = (room.status("again").get("containerStatuses") or [{}])[0].get("state") or {}
        return bool((state.get("waiting") or {}).get("reason") == "CrashLoopBackOff")

    room.until(crashes)
    status = room.status("again")["containerStatuses"][0]
    assert (status["restartCount"], status["lastState"]["terminated"]["reason"]) == (1, "StartError")
    assert room.status("again")["phase"] == "Running"


def test_deleting_sends_term_waits_for_the_grace_and_leaves_nothing(room: Room) -> None:
    room.run(pod("kind", shell("trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done")))
    room.run(
        pod(
            "stubborn",
            shell("trap '' TERM; echo up; sleep 4712 & while :; do sleep 0.1; done"),
            terminationGracePeriodSeconds=1,
        )
    )
    room.until(
        lambda: all(room.status(n)["phase"] == "Running" and room.logs(n) == "up\n" for n in ("kind", "stubborn"))
    )
    for name in ("kind", "stubborn"):
        room.client.delete(f"{PODS}/{name}")
    room.until(lambda: room.gone("kind")() and room.gone("stubborn")())
    assert processes("sleep\x004712", room.folder) == []
    assert list((room.folder / "pods").iterdir()) == []
    assert "Killing: Stopping container main" in events_of(room, "kind")


def events_of(room: Room, name: str) -> list[str]:
    class Holder:
        client = room.client

    holder: Any = Holder()
    return events(holder, name)


ISOLATIONS = ["auto", "none"] + (["userns"] if Path("/proc/self/ns/user").exists() else [])


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_a_variable_and_an_argument_name_a_file_of_a_volume_also_where_nothing_can_be_mounted(
    tmp_path: Path, isolation: str
) -> None:
    room = Room(tmp_path, isolation=isolation)
    try:
        room.client.create(*CONFIG)
        env = [{"name": "FILE", "value": "/etc/conf/file.txt"}, {"name": "OTHER", "value": "/etc/config"}]
        mounts = [{"name": "v", "mountPath": "/etc/conf"}]
        script = 'cat "$FILE" "$0"; echo "$OTHER"'
        main = container("sh", "-c", script, "/etc/conf/file.txt") | {"env": env, "volumeMounts": mounts}
        room.run(pod("p", main, volumes=[{"name": "v", "configMap": {"name": "c"}}]))
        room.until(room.phase_is("p", "Succeeded"))
        assert room.logs("p") == "contentcontent/etc/config\n"
    finally:
        room.kubelet.shutdown(0.0)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_services_resolve_to_the_addresses_of_their_pods_and_follow_them(tmp_path: Path, isolation: str) -> None:
    if isolation == "userns" and os.geteuid() != 0 and detect_isolation(tmp_path / "try") == "none":
        pytest.skip("user namespaces are not available here")
    room = Room(tmp_path, isolation=isolation)
    try:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80}]},
        }
        room.client.create("/api/v1/namespaces/default/services", service)
        script = (
            "import socket, time\n"
            "seen = None\n"
            "while True:\n"
            "    try: now = sorted({a[4][0] for a in socket.getaddrinfo('web.default', 80)})\n"
            "    except OSError: now = []\n"
            "    if now != seen: print(','.join(now), flush=True)\n"
            "    seen = now\n"
            "    time.sleep(0.02)\n"
        )
        room.run(pod("looker", container(sys.executable, "-u", "-c", script)))

        def shows(*addresses: str) -> Callable[[], bool]:
            """The last thing that it saw: the file is written in place, and a reader may see half of
            it."""
            want = ",".join(sorted(addresses))
            return lambda: (
                room.status("looker")["phase"] == "Running" and room.logs("looker").split("\n")[-2:] == [want, ""]
            )

        room.until(shows())
        room.run(pod("web-0", shell("sleep 4718"), labels={"app": "web"}))
        room.until(room.phase_is("web-0", "Running"))
        first = room.status("web-0")["podIP"]
        room.until(shows(first))
        room.run(pod("web-1", shell("sleep 4718"), labels={"app": "web"}))
        room.until(room.phase_is("web-1", "Running"))
        second = room.status("web-1")["podIP"]
        room.until(shows(first, second))
        room.client.delete(f"{PODS}/web-0", {"gracePeriodSeconds": 1})
        room.until(shows(second))
    finally:
        room.kubelet.shutdown(0.0)


def test_probes_make_ready_and_restart(room: Room, tmp_path: Path) -> None:
    flag, sick = tmp_path / "ready", tmp_path / "sick"
    patient = {"periodSeconds": 1, "timeoutSeconds": 60}  # a busy machine is no reason to restart it
    probe = {"exec": {"command": ["test", "-f", str(flag)]}, **patient}
    liveness = {"exec": {"command": ["test", "!", "-f", str(sick)]}, "failureThreshold": 1, **patient}
    room.run(
        pod(
            "p",
            shell("sleep 4719", readinessProbe=probe, livenessProbe=liveness),
            restart="Always",
            terminationGracePeriodSeconds=1,
        )
    )
    room.until(room.phase_is("p", "Running"))
    assert conditions({"status": room.status("p")})["Ready"] == "False/ContainersNotReady"
    flag.touch()
    room.until(lambda: conditions({"status": room.status("p")})["Ready"] == "True/")
    assert room.status("p")["containerStatuses"][0]["restartCount"] == 0
    sick.touch()
    room.until(lambda: room.status("p")["containerStatuses"][0]["restartCount"] >= 1)
    assert "Killing: Container main failed liveness probe, will be restarted" in events_of(room, "p")


def test_hooks_run_after_the_start_and_before_the_stop(room: Room, tmp_path: Path) -> None:
    hooks = {
        "postStart": {"exec": {"command": ["touch", str(tmp_path / "started")]}},
        "preStop": {"exec": {"command": ["touch", str(tmp_path / "stopping")]}},
    }
    room.run(pod("p", shell("sleep 4720", lifecycle=hooks)))
    room.until((tmp_path / "started").exists)
    room.until(lambda: conditions({"status": room.status("p")})["Ready"] == "True/")
    room.client.delete(f"{PODS}/p")
    room.until(room.gone("p"))
    assert (tmp_path / "stopping").exists()


def test_a_pod_past_its_deadline_fails(room: Room) -> None:
    room.run(pod("p", shell("sleep 4721"), activeDeadlineSeconds=1, terminationGracePeriodSeconds=1))
    room.until(room.phase_is("p", "Failed"))
    assert room.status("p")["reason"] == "DeadlineExceeded"


def test_a_sidecar_starts_first_and_ends_last(room: Room, tmp_path: Path) -> None:
    go, side_is_up, main_is_over = (tmp_path / name for name in ("go", "side", "main"))
    waits = f"while [ ! -e {go} ]; do sleep 0.05; done; touch {side_is_up}; while :; do sleep 0.05; done"
    sidecar = shell(
        f"trap 'test -e {main_is_over}; exit $?' TERM; {waits}",
        startupProbe={
            "exec": {"command": ["test", "-e", str(side_is_up)]},
            "periodSeconds": 1,
            "failureThreshold": 600,
        },
    )
    main = shell(f"test -e {side_is_up} || exit 1; sleep 0.2; touch {main_is_over}")
    room.run(pod("p", main, initContainers=[sidecar | {"name": "side", "restartPolicy": "Always"}]))
    room.until(lambda: "running" in room.status("p")["initContainerStatuses"][0]["state"])
    assert "waiting" in room.status("p")["containerStatuses"][0]["state"], "the sidecar is not up yet"
    go.touch()
    room.until(room.phase_is("p", "Succeeded"))  # failed, if it had begun before the sidecar was up
    room.until(lambda: "terminated" in room.status("p")["initContainerStatuses"][0]["state"])
    ended = room.status("p")["initContainerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 0, "it was asked to end before the main container was over"
