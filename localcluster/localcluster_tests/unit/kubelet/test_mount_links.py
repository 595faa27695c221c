"""A `mountPath` that goes through links is followed as inside the container, as runc follows it: what is mounted there
is found by the path of the manifest and by where the link leads, and the machine itself has none of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster.wire import Json
from localcluster_tests.unit.kubelet.room import Room, ended, pod, shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mount namespaces are Linux'")
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"file": "content."}}


@dataclass(frozen=True)
class Case:
    mount: str
    read: tuple[str, ...]
    links: str = "true"
    """Makes them in the folder /w, a volume of its own."""
    want_code: int = 0
    want_says: str = ""


CASES: dict[str, Case] = {
    "a link of the machine": Case("/var/run/of-a-pod/deep", ("/var/run/of-a-pod/deep", "/run/of-a-pod/deep")),
    "a link of a volume, from its root": Case("/w/link", ("/w/link", "/w/real"), "mkdir real; ln -s /w/real link"),
    "a link next to it": Case("/w/link", ("/w/real",), "mkdir real; ln -s real link"),
    "a link upwards": Case("/w/a/up/new", ("/w/new", "/w/a/up/new"), "mkdir a; ln -s .. a/up"),
    "a link to a link": Case("/w/b/new", ("/w/real/new",), "mkdir real; ln -s /w/real a; ln -s a b"),
    "a link whose end is not there yet": Case("/w/link/new", ("/w/real/new",), "ln -s /w/real link"),
    "a link that leads to itself: the container cannot start": Case(
        "/w/link/new", (), "ln -s link link", 128, "Too many levels of symbolic links"
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_a_mount_path_that_goes_through(room: Room, sentence: str) -> None:
    if room.kubelet.host.isolation == "none":
        pytest.skip("mount namespaces are not available here")
    case = CASES[sentence]
    room.client.create("/api/v1/namespaces/default/configmaps", CONFIG)
    folder: Json = {"name": "w", "mountPath": "/w"}
    mounts = [folder, {"name": "v", "mountPath": case.mount}]
    read = "; ".join(f"cat {path}/file" for path in case.read) or "true"
    made = shell(f"cd /w; {case.links}", volumeMounts=[folder]) | {"name": "links"}
    volumes = [{"name": "w", "emptyDir": {}}, {"name": "v", "configMap": {"name": "c"}}]
    room.run(pod("p", shell(read, volumeMounts=mounts), volumes=volumes, initContainers=[made]))
    room.until(room.phase_is("p", "Succeeded", "Failed"))
    end = ended(room.status("p"))
    assert end["exitCode"] == case.want_code, end
    assert case.want_says in end.get("message", "")
    if not case.want_says:
        assert room.logs("p").strip() == "content." * len(case.read)
    assert not Path("/run/of-a-pod").exists()
