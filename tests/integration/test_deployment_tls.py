"""A Redis behind TLS (`rediss://`): broker and store meet a server whose certificate is good, unknown, or of another
name.

The Redis of the wheel knows no TLS, so a proxy in a thread ends it.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.support.valkey import Valkey
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import make_app
from tjworker.settings import Settings
from tjworker.store.connect import open_store

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")


@dataclass(frozen=True)
class Tls:
    port: int
    certificate: Path


def certify(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of that name, signed by itself, and its key."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-addext",
            f"subjectAltName=DNS:{name}",
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    return certificate, key


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy(folder: Path, name: str, upstream_port: int) -> Iterator[Tls]:
    certificate, key = certify(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(plain: socket.socket) -> None:
        try:
            secure = context.wrap_socket(plain, server_side=True)
        except OSError:  # the client did not like us
            plain.close()
            return
        # Redis may have gone while a client was still shaking hands.
        with secure, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", upstream_port)) as upstream:
            back = threading.Thread(target=pump, args=(upstream, secure), daemon=True)
            back.start()
            pump(secure, upstream)
            back.join(PATIENCE_SECONDS)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield Tls(listener.getsockname()[1], certificate)
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tls]]:
    folder = tmp_path_factory.mktemp("tls")
    with (
        Valkey(folder) as valkey,
        proxy(folder, "localhost", valkey.port) as good,
        proxy(folder, "other", valkey.port) as other,
    ):
        yield {"its own name": good, "another name": other}


def broker(url: str) -> None:
    with make_app(Settings(redis_url=url)).connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=PATIENCE_SECONDS)
        connection.default_channel.client.ping()


def store(url: str) -> None:
    open_store(url, "tls").queue.resync(lost_after_seconds=1, everything=False)


@dataclass(frozen=True)
class Case:
    certificate_for: str
    trusted: bool
    options: str = ""
    want_connected: bool = False


CASES = {
    "a certificate that is trusted and of that name": Case("its own name", trusted=True, want_connected=True),
    "a certificate of an unknown authority": Case("its own name", trusted=False),
    "a trusted certificate of another name": Case("another name", trusted=True),
    "none of it is looked at, as the URL asks": Case(
        "another name", trusted=False, options="ssl_cert_reqs=none", want_connected=True
    ),
}


@pytest.mark.parametrize("reach", [broker, store], ids=["broker", "store"])
@pytest.mark.parametrize("sentence", CASES)
def test_redis_behind_tls(sentence: str, reach: Callable[[str], None], doors: dict[str, Tls]) -> None:
    case, door = CASES[sentence], doors[CASES[sentence].certificate_for]
    options = [f"ssl_ca_certs={door.certificate}"] * case.trusted + [case.options] * bool(case.options)
    url = f"rediss://localhost:{door.port}/0{'?' * bool(options)}{'&'.join(options)}"
    if case.want_connected:
        reach(url)
        return
    with pytest.raises(Exception, match=r"(?i)certificate"):
        reach(url)
