"""Certificates and token of the local cluster: what is kept, what is renewed, and who may read it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from localcluster import pki

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("127.0.0.1", "box.example")
PARTS = ("ca.crt", "serving.crt", "token")


def nothing(folder: Path) -> None:
    pass


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def damage(name: str) -> Callable[[Path], None]:
    def cut(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:20])

    return cut


def foreign(stem: str) -> Callable[[Path], None]:
    """The pair of another cluster, as after a folder was copied in part."""

    def swap(folder: Path) -> None:
        other = folder.parent / "other"
        pki.ensure_credentials(other, HOSTS, BEGIN)
        for suffix in ("crt", "key"):
            (folder / f"{stem}.{suffix}").write_bytes((other / f"{stem}.{suffix}").read_bytes())

    return swap


@dataclass(frozen=True)
class Case:
    want_new: set[str]
    change: Callable[[Path], None] = nothing
    later: timedelta = timedelta()
    hosts: tuple[str, ...] = HOSTS


CASES: dict[str, Case] = {
    "a restart keeps everything": Case(set()),
    "a restart half a year later keeps everything": Case(set(), later=timedelta(days=180)),
    "a serving certificate that is about to expire is made again, and kubeconfigs go on": Case(
        {"serving.crt"}, later=timedelta(days=pki.SERVING_DAYS - pki.RENEW_BEFORE_DAYS)
    ),
    "one that has expired too": Case({"serving.crt"}, later=timedelta(days=500)),
    "an authority that is about to expire takes the serving certificate with it, not the token": Case(
        {"ca.crt", "serving.crt"}, later=timedelta(days=pki.AUTHORITY_DAYS - 1)
    ),
    "a clock that was set back behind the certificates makes new ones": Case(
        {"ca.crt", "serving.crt"}, later=timedelta(days=-2)
    ),
    "another advertised host needs another serving certificate": Case({"serving.crt"}, hosts=("other.example",)),
    "fewer hosts do not": Case(set(), hosts=("127.0.0.1",)),
    "a damaged authority is made again": Case({"ca.crt", "serving.crt"}, damage("ca.crt")),
    "an authority without its key is made again": Case({"ca.crt", "serving.crt"}, remove("ca.key")),
    "a key that is not the certificate's is noticed": Case(
        {"serving.crt"}, lambda folder: pki.write_private(folder / "serving.key", (folder / "ca.key").read_bytes())
    ),
    "a serving certificate of another authority is noticed": Case({"serving.crt"}, foreign("serving")),
    "an authority of another cluster does not vouch for this one's certificate": Case(
        {"ca.crt", "serving.crt"}, foreign("ca")
    ),
    "a token that is too short to be one is made again": Case(
        {"token"}, lambda folder: pki.write_private(folder / "token", b"")
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_is_kept_and_what_is_made_anew(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    pki.ensure_credentials(folder, HOSTS, BEGIN)
    before = {name: (folder / name).read_bytes() for name in PARTS}
    case.change(folder)
    made = pki.ensure_credentials(folder, case.hosts, BEGIN + case.later)
    after = {name: (folder / name).read_bytes() for name in PARTS}
    assert {name for name in PARTS if after[name] != before[name]} == case.want_new
    assert (made.ca_pem, made.token.encode()) == (after["ca.crt"], after["token"])
    made.server_context()


def test_nobody_else_may_read_the_folder_or_what_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    folder.mkdir(mode=0o755)
    pki.ensure_credentials(folder, HOSTS, BEGIN)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert sorted(file.name for file in folder.iterdir()) == ["ca.crt", "ca.key", "serving.crt", "serving.key", "token"]


def test_two_clusters_share_neither_token_nor_authority(tmp_path: Path) -> None:
    one, two = (pki.ensure_credentials(tmp_path / name, HOSTS, BEGIN) for name in "ab")
    assert one.token != two.token
    assert one.ca_pem != two.ca_pem
    assert len(one.token) >= 43


def test_the_key_of_tokens_is_kept_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    made = pki.signing_key(tmp_path / "pki")
    assert pki.signing_key(tmp_path / "pki") == made
    assert len(made) == 32
    assert (tmp_path / "pki" / "tokens.key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "pki" / "tokens.key").write_bytes(b"half")
    assert pki.signing_key(tmp_path / "pki") not in (made, b"half")
