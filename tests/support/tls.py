"""Redis behind TLS, for tests: the certificate that k8s/certificates.sh makes, and somebody who shows it.

The Redis of the wheel knows no TLS. Where a valkey-server or redis-server on the PATH does, tests use that; else a
proxy in a thread ends TLS before the one of the wheel.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS

NEEDS_OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")


@cache
def tls_server() -> Path | None:
    """A Redis of this machine that knows TLS."""
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            said = subprocess.run(
                [found, "--port", "0", "--tls-port", "1", "--tls-cert-file", "/none"],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_SECONDS,
            ).stdout
            if "Failed to configure TLS" in said:
                return Path(found)
    return None


def certify(folder: Path, *names: str, days: int = 3650) -> Path:
    """The folder, with ca.crt, tls.crt and tls.key as an installation makes them. `days`: their validity."""
    script = (ROOT / "k8s" / "certificates.sh").read_text(encoding="utf-8")
    assert "days=3650" in script
    subprocess.run(
        ["sh", "-c", script.replace("days=3650", f"days={days}"), "certificates.sh", str(folder), *names],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    return folder


@contextlib.contextmanager
def proxy(certificate: Path, upstream_port: int, port: int = 0) -> Iterator[int]:
    """TLS ends here, at the port that it yields."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
    loop = asyncio.new_event_loop()

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        with contextlib.suppress(OSError):
            target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream = await asyncio.open_connection("127.0.0.1", upstream_port)
        except OSError:  # Redis has gone while a client was still shaking hands
            writer.close()
            return
        await asyncio.gather(pump(reader, upstream[1]), pump(upstream[0], writer))

    loop.set_exception_handler(lambda *_: None)  # a client that did not like us
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", port, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
