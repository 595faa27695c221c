"""A pod finds its token where it asks for it, and the API server knows the pod by it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from localcluster.client import ApiError
from localcluster.kubelet import volumes
from localcluster.kubelet.volumes import MountError, write_tokens
from localcluster.wire import Json
from localcluster_tests.unit.kubelet.room import Room, pod, shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process kubelet's tests read /proc")
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def asking(name: str, script: str, account: str = "default") -> Json:
    source = {"serviceAccountToken": {"audience": "reports", "expirationSeconds": 600, "path": "t/token"}}
    mount = {"name": "v", "mountPath": "/var/run/secrets/tokens"}
    volume = {"name": "v", "projected": {"sources": [source]}}
    return pod(name, shell(script, volumeMounts=[mount]), volumes=[volume], serviceAccountName=account)


def whose(room: Room, token: str) -> Json:
    spec = {"token": token, "audiences": ["reports"]}
    status: Json = room.client.create(REVIEWS, {"spec": spec})["status"]
    return status


def messages_of(room: Room) -> list[str]:
    return [each.get("message", "") for each in room.client.get("/api/v1/namespaces/default/events")["items"]]


def file_of(room: Room, made: Json) -> Path:
    return room.folder / "pods" / str(made["metadata"]["uid"]) / "volumes/v/t/token"


def test_a_program_finds_a_token_that_stands_for_its_pod(room: Room) -> None:
    made = room.run(asking("p", "sleep 60"))
    room.until(room.phase_is("p", "Running"))
    user = whose(room, file_of(room, made).read_text())["user"]
    assert user["username"] == "system:serviceaccount:default:default"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [made["metadata"]["uid"]]


def test_a_token_is_renewed_before_it_ends(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "RENEW_AT", 0.0005)  # of ten minutes: the shortest that the API server gives
    made = room.run(asking("p", "sleep 60"))
    room.until(room.phase_is("p", "Running"))
    first = file_of(room, made).read_text()
    room.until(lambda: file_of(room, made).read_text() != first)
    assert whose(room, file_of(room, made).read_text())["authenticated"]


def test_a_kubelet_that_has_restarted_renews_the_tokens_that_it_finds(room: Room) -> None:
    made = room.run(asking("p", "sleep 60"))
    room.until(room.phase_is("p", "Running"))
    first = file_of(room, made).read_text()
    after = Room(room.folder, apiserver=room.apiserver)
    after.until(lambda: file_of(room, made).read_text() != first)
    assert after.status("p")["phase"] == "Running"


def test_a_pod_whose_account_is_not_there_waits_and_says_so(room: Room) -> None:
    room.run(asking("p", "true", "nobody"))
    room.until(lambda: any("failed to fetch token: serviceaccounts" in message for message in messages_of(room)))
    assert room.status("p")["phase"] == "Pending"


def test_a_token_outside_of_its_volume_is_refused(tmp_path: Path) -> None:
    wrong = asking("p", "true")
    wrong["metadata"] |= {"namespace": "default", "uid": "u"}
    wrong["spec"]["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["path"] = "../token"

    def request(namespace: str, account: str, body: Json) -> Json:
        raise ApiError(500, "InternalError", "must not be asked")

    with pytest.raises(MountError, match="must be relative"):
        write_tokens(wrong, tmp_path, 0.0, request)
