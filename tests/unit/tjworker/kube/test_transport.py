"""The real transport against a real HTTP server on the loopback: chunks, cuts, silence, closing, credentials."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration
from kubernetes.config import ConfigException

from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.tjworker.kube.http_server import (
    Handler,
    Server,
    assert_close_ends_the_read,
    hang,
    one_event_then_silence,
    write_kubeconfig,
)
from tjworker.base import Transient
from tjworker.kube.transport import KubeTransport


def test_a_request_carries_query_body_token_and_user_agent(server: Server, transport: KubeTransport) -> None:
    answer = transport.request(
        "PATCH",
        "/api/v1/pods",
        query={"labelSelector": "a=b,c"},
        body=b'{"x":1}',
        content_type="application/merge-patch+json",
    )
    assert (answer.status, answer.body) == (200, b"{}")
    method, path, body, headers, _ = server.seen[0]
    assert (method, path, body) == ("PATCH", "/api/v1/pods?labelSelector=a%3Db%2Cc", b'{"x":1}')
    lower = {name.lower(): value for name, value in headers.items()}
    assert lower["authorization"] == "Bearer first"
    assert lower["content-type"] == "application/merge-patch+json"
    assert lower["user-agent"].startswith("trainingjob-operator/")
    assert lower["accept-encoding"] == "identity"  # else a proxy on the way may hand on compressed answers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_who_needs_no_more_asks_for_the_metadata_of_what_he_writes_and_for_all_that_he_reads(
    server: Server, kubeconfig: Path, method: str
) -> None:
    transport = KubeTransport(metadata_only=True)
    transport.request(method, "/api/v1/pods", body=b"{}")
    transport.request("GET", "/api/v1/pods")
    KubeTransport().request(method, "/api/v1/pods", body=b"{}")
    asked = [{name.lower(): value for name, value in seen[3].items()}["accept"] for seen in server.seen]
    assert asked == [
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        "application/json",
        "application/json",
    ]


def test_a_server_that_is_not_there_is_transient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "http://127.0.0.1:1", "x")
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(Transient, match="refused"):
        KubeTransport().request("GET", "/version")


def test_a_body_that_ends_too_early_is_transient(server: Server, transport: KubeTransport) -> None:
    def cut(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"{")
        handler.close_connection = True

    server.answer = cut
    with pytest.raises(Transient):
        transport.request("GET", "/api/v1/pods")


def watch(transport: KubeTransport, read_timeout_seconds: float = PATIENCE_SECONDS) -> Any:
    return transport.stream("/api/v1/pods", query={"watch": "1"}, read_timeout_seconds=read_timeout_seconds)


def test_lines_come_whole_however_the_chunks_are_cut(server: Server, transport: KubeTransport) -> None:
    text = ('{"a":"läuft 🚀"}\n{"b":1}\n\n' + '{"c":"' + "x" * 100_000 + '"}\n').encode()

    def answer(handler: Handler) -> None:
        handler.start_chunks()
        for at in [*range(40), *range(40, len(text), 30_000)]:
            handler.chunk(text[at : at + 1] if at < 40 else text[at : at + 30_000])
        handler.end_chunks()

    server.answer = answer
    stream = watch(transport)
    assert stream.status == 200
    lines = [line for batch in stream.lines() for line in batch]
    assert lines == [line for line in text.split(b"\n") if line]


def test_a_line_that_was_cut_off_is_dropped_and_the_break_is_told(server: Server, transport: KubeTransport) -> None:
    def answer(handler: Handler) -> None:
        handler.start_chunks()
        handler.chunk(b'{"whole":1}\n{"ha')
        handler.wfile.write(b"ff\r\nlf")
        handler.wfile.flush()
        handler.close_connection = True

    server.answer = answer
    got: list[bytes] = []

    def read() -> None:
        for batch in watch(transport).lines():
            got.extend(batch)

    with pytest.raises(Transient):
        read()
    assert got == [b'{"whole":1}']


def test_a_half_open_watch_is_transient_after_the_read_time_out(server: Server, transport: KubeTransport) -> None:
    def answer(handler: Handler) -> None:
        handler.start_chunks()
        hang(server)

    server.answer = answer
    with pytest.raises(Transient):
        list(watch(transport, 0.2).lines())


def test_closing_from_another_thread_ends_a_blocked_read_at_once(server: Server, transport: KubeTransport) -> None:
    one_event_then_silence(server)
    stream = watch(transport, 2 * PATIENCE_SECONDS)
    assert_close_ends_the_read(stream)


def test_a_token_that_was_rotated_in_the_file_is_read_after_a_401(
    server: Server, transport: KubeTransport, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tjworker.kube.transport._RELOAD_SECONDS", 0)
    server.answer = lambda handler: handler.plain(
        200 if handler.headers["authorization"] == "Bearer second" else 401, b"{}"
    )
    write_kubeconfig(kubeconfig, server.url, "second")
    assert transport.request("GET", "/version").status == 200
    assert len(server.seen) == 2


def test_so_is_one_that_a_watch_is_refused_for(
    server: Server, transport: KubeTransport, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tjworker.kube.transport._RELOAD_SECONDS", 0)
    server.answer = lambda handler: handler.plain(
        200 if handler.headers["authorization"] == "Bearer second" else 401, b"{}"
    )
    write_kubeconfig(kubeconfig, server.url, "second")
    stream = watch(transport)
    assert (stream.status, len(server.seen)) == (200, 2)
    stream.close()


def test_requests_that_meet_a_rotated_token_at_the_same_moment_all_go_on_with_the_new_one(
    server: Server, transport: KubeTransport, kubeconfig: Path
) -> None:
    """A pass writes several pods at a time. One of its threads reads the file; none of them fails."""
    both = threading.Barrier(2)

    def answer(handler: Handler) -> None:
        if handler.headers["authorization"] == "Bearer second":
            handler.plain(200, b"{}")
            return
        both.wait(PATIENCE_SECONDS)
        handler.plain(401, b"{}")

    server.answer = answer
    write_kubeconfig(kubeconfig, server.url, "second")
    transport._loaded_at -= 60
    got: list[int] = []
    threads = [
        threading.Thread(target=lambda: got.append(transport.request("GET", "/version").status)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert got == [200, 200]


@pytest.mark.parametrize("error", [FileNotFoundError("token"), ConfigException("Token file exists but empty.")])
def test_credentials_that_cannot_be_renewed_now_are_transient(server: Server, error: Exception) -> None:
    """The kubelet writes the token of a pod anew every hour."""
    configuration: Any = Configuration(host=server.url, api_key={"authorization": "Bearer x"})

    errors = [error, error]

    def renew(_configuration: Configuration) -> None:
        if errors:
            raise errors.pop()

    configuration.refresh_api_key_hook = renew
    transport = KubeTransport(configuration)
    with pytest.raises(Transient, match="oken"):
        transport.request("GET", "/version")
    with pytest.raises(Transient, match="oken"):
        watch(transport)
    assert transport.request("GET", "/version").status == 200


def test_a_token_that_is_refused_is_asked_about_twice_and_no_more(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: handler.plain(401, b"{}")
    assert transport.request("GET", "/version").status == 401
    assert transport.request("GET", "/version").status == 401
    assert len(server.seen) <= 3
