"""The real transport against a real HTTP server on the loopback: chunks, cuts, silence, closing, credentials."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.waiting import PATIENCE_SECONDS, until
from tjworker.base import Terminal, Transient
from tjworker.kube.transport import KubeTransport, load_configuration

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self.server.seen.append(
            (self.command, self.path, self.rfile.read(length), dict(self.headers.items()), self.client_address[1])
        )
        self.server.answer(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815  the base class names them so

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002  the base class names it so

    def plain(self, code: int, body: bytes, **headers: str) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def start_chunks(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def end_chunks(self) -> None:
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Answer = lambda handler: handler.plain(200, b"{}")
        self.seen: list[tuple[str, str, bytes, dict[str, str], int]] = []
        self.closed = 0
        """Connections, so far."""
        self.let_go = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.closed += 1


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield made
    made.let_go.set()
    made.shutdown()
    made.server_close()


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, server.url, "first")
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def write_kubeconfig(path: Path, url: str, token: str) -> None:
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "b",
                "clusters": [
                    {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}},
                    {"name": "b", "cluster": {"server": url}},
                ],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [
                    {"name": "a", "context": {"cluster": "a", "user": "u"}},
                    {"name": "b", "context": {"cluster": "b", "user": "u"}},
                ],
            }
        )
    )


@pytest.fixture
def transport(kubeconfig: Path) -> Iterator[KubeTransport]:
    made = KubeTransport()
    yield made
    made.close()


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


def test_the_connection_is_kept_for_the_next_request(server: Server, transport: KubeTransport) -> None:
    for _ in range(3):
        transport.request("GET", "/version")
    assert len({seen[4] for seen in server.seen}) == 1


def test_a_connection_that_the_server_has_closed_is_opened_again(server: Server, transport: KubeTransport) -> None:
    def last(handler: Handler) -> None:
        handler.plain(200, b"{}")
        handler.close_connection = True  # without saying so

    server.answer = last
    for _ in range(3):
        assert transport.request("GET", "/version").status == 200
        # The client has not looked yet.
        until("the server has closed it", lambda: server.closed == len(server.seen))
    assert len({seen[4] for seen in server.seen}) == 3


def test_a_connection_that_broke_off_in_an_answer_is_not_used_again(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: _hang(server)
    with pytest.raises(Transient):
        transport.request("GET", "/late", timeout_seconds=0.1)
    server.answer = lambda handler: handler.plain(200, b'"mine"')
    server.let_go.set()
    assert transport.request("GET", "/version").body == b'"mine"'
    assert len({seen[4] for seen in server.seen}) == 2


def test_the_path_of_the_server_stands_before_every_request(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, server.url + "/k8s/clusters/c-1", "x")
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert KubeTransport().request("GET", "/version", query={"a": "b"}).status == 200
    assert server.seen[0][1] == "/k8s/clusters/c-1/version?a=b"


def test_through_a_proxy_the_whole_url_is_asked_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "http://api.example:6443", "x")
    monkeypatch.setenv("KUBECONFIG", str(path))
    configuration = load_configuration()
    configuration.proxy = server.url
    assert KubeTransport(configuration).request("GET", "/version").status == 200
    assert server.seen[0][1] == "http://api.example:6443/version"


def test_an_error_answer_is_given_as_it_is_and_nothing_is_tried_again(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: handler.plain(503, b"no", Retry_After="7")
    answer = transport.request("GET", "/api/v1/pods")
    assert (answer.status, answer.headers["retry-after"], len(server.seen)) == (503, "7", 1)


def test_a_redirect_is_not_followed(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: handler.plain(302, b"", Location="http://127.0.0.1:1/")
    assert transport.request("GET", "/api/v1/pods").status == 302


def test_a_server_that_is_not_there_is_transient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "http://127.0.0.1:1", "x")
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(Transient, match="refused"):
        KubeTransport().request("GET", "/version")


def _hang(server: Server) -> None:
    server.let_go.wait(2 * PATIENCE_SECONDS)


def test_a_silent_server_is_transient_after_the_time_out(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: _hang(server)
    started = time.monotonic()
    with pytest.raises(Transient):
        transport.request("GET", "/version", timeout_seconds=0.2)
    assert time.monotonic() - started < PATIENCE_SECONDS


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


def test_a_line_leaves_before_the_next_one_has_come(server: Server, transport: KubeTransport) -> None:
    def answer(handler: Handler) -> None:
        handler.start_chunks()
        handler.chunk(b'{"first":1}\n')
        _hang(server)
        handler.end_chunks()

    server.answer = answer
    stream = watch(transport)
    assert next(stream.lines()) == [b'{"first":1}']
    stream.close()


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
        _hang(server)

    server.answer = answer
    with pytest.raises(Transient):
        list(watch(transport, 0.2).lines())


def test_closing_from_another_thread_ends_a_blocked_read_at_once(server: Server, transport: KubeTransport) -> None:
    def answer(handler: Handler) -> None:
        handler.start_chunks()
        handler.chunk(b'{"first":1}\n')
        _hang(server)

    server.answer = answer
    stream = watch(transport, 2 * PATIENCE_SECONDS)
    first, ended = threading.Event(), threading.Event()

    def read() -> None:
        for _ in stream.lines():
            first.set()
        ended.set()

    thread = threading.Thread(target=read)
    thread.start()
    assert first.wait(PATIENCE_SECONDS)
    stream.close()
    assert ended.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)


def test_a_watch_that_is_refused_gives_its_status_and_body(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: handler.plain(410, b'{"kind":"Status"}')
    stream = watch(transport)
    assert (stream.status, stream.body()) == (410, b'{"kind":"Status"}')
    stream.close()


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


def test_a_token_that_is_refused_is_asked_about_twice_and_no_more(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: handler.plain(401, b"{}")
    assert transport.request("GET", "/version").status == 401
    assert transport.request("GET", "/version").status == 401
    assert len(server.seen) <= 3


def test_without_any_configuration_the_message_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Terminal, match="Set KUBECONFIG"):
        load_configuration()


def test_a_kubeconfig_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(Terminal, match=r"none\) cannot be used: there is no such file\. Correct it"):
        load_configuration()


BROKEN = {
    "no YAML": "{",
    "YAML of several lines of complaint": "a: b: c\n  - d",
    "binary": "\x00\x01",
    "a list": "- a",
    "a word": "kubeconfig",
    "empty": "",
    "no current context": "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n",
    "a context of a cluster that is missing": "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: []\nusers: []\n"
    "contexts: [{name: c, context: {cluster: x, user: y}}]\n",
    "an authority that is no base64": "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: [{name: y, user: {}}]\n"
    "contexts: [{name: c, context: {cluster: x, user: y}}]\n"
    "clusters: [{name: x, cluster: {server: 'https://h', certificate-authority-data: 'a'}}]",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_kubeconfig_is_named_in_one_line(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "broken"))
    with pytest.raises(Terminal) as refused:
        load_configuration()
    assert str(tmp_path / "broken") in refused.value.message
    assert "choose another with KUBECONFIG" in refused.value.message
    assert "\n" not in refused.value.message
    assert "object does not support" not in refused.value.message, "Python's words about our reader, not about the file"
    assert ".." not in refused.value.message
