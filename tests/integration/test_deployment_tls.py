"""A Redis behind TLS (`rediss://`) with the certificate of k8s/certificates.sh: broker and store meet a server whose
certificate is good, unknown, or of another name; and what the script makes, keeps and makes anew.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.support.valkey import Valkey
from tests.support import tls
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import make_app
from tjworker.settings import Settings
from tjworker.store.connect import open_store

pytestmark = [pytest.mark.xdist_group("deployment-tls"), tls.NEEDS_OPENSSL]


@dataclass(frozen=True)
class Door:
    port: int
    authority: Path


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    folder = tmp_path_factory.mktemp("tls")
    good, other = tls.certify(folder / "good", "tj-redis", "localhost"), tls.certify(folder / "other", "elsewhere")
    with Valkey(folder) as valkey, tls.proxy(good, valkey.port) as first, tls.proxy(other, valkey.port) as second:
        yield {"its own name": Door(first, good / "ca.crt"), "another name": Door(second, other / "ca.crt")}


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
def test_redis_behind_tls(sentence: str, reach: Callable[[str], None], doors: dict[str, Door]) -> None:
    case, door = CASES[sentence], doors[CASES[sentence].certificate_for]
    options = [f"ssl_ca_certs={door.authority}"] * case.trusted + [case.options] * bool(case.options)
    url = f"rediss://localhost:{door.port}/0{'?' * bool(options)}{'&'.join(options)}"
    if case.want_connected:
        reach(url)
        return
    with pytest.raises(Exception, match=r"(?i)certificate"):
        reach(url)


# -- the script ------------------------------------------------------------------------------------
SCRIPT = ROOT / "k8s" / "certificates.sh"


def strict(authority: Path) -> ssl.SSLContext:
    """What Python asks from 3.13 on, and other clients always have: RFC 5280 to the letter."""
    context = ssl.create_default_context(cafile=str(authority))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def test_the_certificate_is_good_by_the_letter_of_the_standard(doors: dict[str, Door]) -> None:
    door = doors["its own name"]
    with (
        socket.create_connection(("127.0.0.1", door.port)) as plain,
        strict(door.authority).wrap_socket(plain, server_hostname="tj-redis") as secure,
    ):
        assert secure.version() == "TLSv1.3"


def test_nobody_can_sign_another_certificate_and_the_key_is_its_owners_alone(tmp_path: Path) -> None:
    made = tls.certify(tmp_path / "made", "tj-redis")
    assert {path.name for path in made.iterdir()} == {"ca.crt", "tls.crt", "tls.key"}
    assert (made / "tls.key").stat().st_mode & 0o777 == 0o600
    assert (made / "ca.crt").stat().st_mode & 0o777 == 0o644
    refused = subprocess.run(
        ["openssl", "x509", "-noout", "-text", "-in", str(made / "tls.crt")], capture_output=True, text=True, check=True
    ).stdout
    assert "CA:FALSE" in refused


def test_a_certificate_that_is_good_is_kept_and_one_that_ends_soon_or_is_half_made_is_made_anew(tmp_path: Path) -> None:
    def content() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    folder = tls.certify(tmp_path / "kept", "tj-redis")
    first = content()
    tls.certify(folder, "tj-redis")
    assert content() == first
    # Of another authority: the script was killed between its last steps.
    (folder / "ca.crt").write_bytes((tls.certify(tmp_path / "other", "tj-redis") / "ca.crt").read_bytes())
    tls.certify(folder, "tj-redis")
    second = content()
    assert all(second[name] != first[name] for name in first)
    # Good for one day more.
    short = tmp_path / "certificates.sh"
    short.write_text(SCRIPT.read_text(encoding="utf-8").replace("days=3650", "days=1"), encoding="utf-8")
    for made in (tmp_path / "short", tmp_path / "short"):
        before = (made / "tls.crt").read_bytes() if made.exists() else b""
        subprocess.run(["sh", str(short), str(made), "tj-redis"], check=True, timeout=PATIENCE_SECONDS)
        assert (made / "tls.crt").read_bytes() != before


def test_without_openssl_it_says_so_and_makes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT), str(tmp_path / "made"), "tj-redis"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "certificates.sh: could not make a certificate: openssl is not on the PATH\n",
    )
    assert not (tmp_path / "made").exists()
