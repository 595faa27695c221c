"""Connections to a real server on the loopback: kept, lost, through proxies and TLS."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from localcluster import pki
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.tjworker.kube.http_server import Handler, Server, serving, write_kubeconfig
from tjworker.base import Terminal, Transient
from tjworker.kube.configuration import load_configuration
from tjworker.kube.transport import KubeTransport


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


def test_a_watch_that_is_refused_gives_its_connection_back(server: Server, transport: KubeTransport) -> None:
    server.answer = lambda handler: handler.plain(410, b'{"kind":"Status"}')
    stream = transport.stream("/api/v1/pods", query={"watch": "1"}, read_timeout_seconds=PATIENCE_SECONDS)
    assert stream.body() == b'{"kind":"Status"}'
    stream.close()
    assert transport.request("GET", "/version").status == 410
    assert len({seen[4] for seen in server.seen}) == 1


# -- TLS -------------------------------------------------------------------------------------------
class Secure:
    """An HTTPS server that a certificate for `localhost` and 127.0.0.1 names; `server_names` are those asked for."""

    def __init__(self, folder: Path) -> None:
        credentials = pki.ensure_credentials(folder, ["api.example"], datetime.now(UTC))
        self.ca = folder / "authority.crt"
        self.ca.write_bytes(credentials.ca_pem)
        self.server_names: list[str | None] = []
        context = credentials.server_context()
        context.sni_callback = lambda _socket, name, _context: self.server_names.append(name)
        self.server = Server(context)
        self.kubeconfig = folder / "kubeconfig"

    def transport(self, url: str = "", /, **cluster: object) -> KubeTransport:
        write_kubeconfig(self.kubeconfig, url or self.server.url, "x", **cluster)
        return KubeTransport(load_configuration())


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secure]:
    made = Secure(tmp_path / "pki")
    monkeypatch.setenv("KUBECONFIG", str(made.kubeconfig))
    with serving(made.server):
        yield made


def test_the_certificate_of_the_server_is_verified(secure: Secure) -> None:
    trusted = {"certificate-authority": str(secure.ca)}
    assert secure.transport(**trusted).request("GET", "/version").status == 200
    with pytest.raises(Transient, match="CERTIFICATE_VERIFY_FAILED"):
        secure.transport().request("GET", "/version")
    assert secure.transport(**{"insecure-skip-tls-verify": True}).request("GET", "/version").status == 200


def test_the_certificate_has_to_name_the_tls_server_name(secure: Secure) -> None:
    trusted: dict[str, object] = {"certificate-authority": str(secure.ca)}
    transport = secure.transport(**trusted, **{"tls-server-name": "api.example"})
    assert transport.request("GET", "/version").status == 200
    assert secure.server_names == ["api.example"]
    with pytest.raises(Transient, match="Hostname mismatch"):
        secure.transport(**trusted, **{"tls-server-name": "other.example"}).request("GET", "/version")


def test_an_authority_that_was_rotated_in_its_file_counts_for_the_next_connection(secure: Secure) -> None:
    def last(handler: Handler) -> None:
        handler.plain(200, b"{}")
        handler.close_connection = True

    secure.server.answer = last
    good = secure.ca.read_bytes()
    other = pki.ensure_credentials(secure.ca.parent / "other", [], datetime.now(UTC)).ca_pem
    transport = secure.transport(**{"certificate-authority": str(secure.ca)})
    for content, accepted in ((good, True), (other, False), (good, True)):
        # As a mounted Secret changes: another file takes its place.
        secure.ca.with_suffix(".new").write_bytes(content)
        secure.ca.with_suffix(".new").rename(secure.ca)
        if accepted:
            assert transport.request("GET", "/version").status == 200
            until("the server has closed it", lambda: secure.server.closed == len(secure.server.seen))
        else:
            with pytest.raises(Transient, match="CERTIFICATE_VERIFY_FAILED"):
                transport.request("GET", "/version")


def test_a_connection_for_which_no_tls_can_be_set_up_is_closed_at_once(server: Server, secure: Secure) -> None:
    """Not when the error is forgotten, which holds on to all that it passed through."""
    transport = secure.transport(server.url.replace("http", "https"), **{"certificate-authority": str(secure.ca)})
    secure.ca.unlink()
    with pytest.raises(Transient) as failed:
        transport.request("GET", "/version")
    until("it is closed", lambda: server.closed == 1)
    assert "FileNotFoundError" in failed.value.message


# -- proxies ---------------------------------------------------------------------------------------
def test_through_a_proxy_the_whole_url_is_asked_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, "http://api.example:6443", "x", **{"proxy-url": server.url})
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert KubeTransport().request("GET", "/version").status == 200
    assert server.seen[0][1] == "http://api.example:6443/version"


def test_through_a_proxy_https_goes_in_a_tunnel(server: Server, secure: Secure) -> None:
    server.tunnel_to = ("127.0.0.1", secure.server.server_address[1])
    trusted = {"certificate-authority": str(secure.ca), "proxy-url": server.url}
    transport = secure.transport("https://api.example:6443", **trusted)
    for _ in range(2):
        assert transport.request("GET", "/version").status == 200
    assert [seen[:2] for seen in server.seen] == [("CONNECT", "api.example:6443")], "one tunnel for both"
    assert [seen[1] for seen in secure.server.seen] == ["/version"] * 2
    assert secure.server_names == ["api.example"]
    transport.close()


UNUSABLE = {
    "a proxy that wants TLS": ("https://h", "https://u:secret@p:3128", "the proxy 'p:3128' .* it must be http://"),
    "a server of another scheme": ("ftp://h", "", "the server 'ftp://h' .* it must be https://host:port or http://"),
    "a port that is no number": ("https://h:port", "", "the server 'https://h:port' .* it must be https://"),
}


@pytest.mark.parametrize("case", UNUSABLE.values(), ids=list(UNUSABLE))
def test_an_address_that_cannot_be_used_is_named_in_one_line(
    case: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url, proxy, want = case
    write_kubeconfig(tmp_path / "kubeconfig", url, "x", **({"proxy-url": proxy} if proxy else {}))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with pytest.raises(Terminal, match=want) as refused:
        KubeTransport()
    assert "secret" not in refused.value.message
    assert "\n" not in refused.value.message
