"""Who the local cluster is and who may talk to it: a certificate authority, a serving certificate, a bearer token.

Kept in one folder (0700, files 0600) and reused at each start, so that a kubeconfig outlives a restart. The serving
certificate is made again when it is about to expire, when it does not name every host, or when it is not the
authority's; the authority and the token only when they are unreadable or the authority is about to expire. Each file is
written whole or not at all. Safe to run twice. Nothing here opens a port.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

ALWAYS = ("localhost", "127.0.0.1", "::1")
"""Hosts that every serving certificate names."""
AUTHORITY_DAYS = 3650
SERVING_DAYS = 365
RENEW_BEFORE_DAYS = 30
_BACKDATE = timedelta(hours=1)
"""A client whose clock is behind must not take a fresh certificate for one of the future."""
_TOKEN_BYTES = 32
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
_Pair = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


@dataclass(frozen=True, slots=True)
class Credentials:
    ca_pem: bytes
    cert_file: Path
    key_file: Path
    token: str

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert_file, self.key_file)
        return context


def ensure_credentials(folder: Path, hosts: Iterable[str], now: datetime) -> Credentials:
    """The credentials of this folder, made where they are missing. `now` is aware. Raises OSError when it cannot be
    written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority = _load(folder / "ca", now) or _make_authority(folder / "ca", now)
    names = _alternative_names([*ALWAYS, *(host for host in hosts if host not in ALWAYS)])
    if not _is_valid_for(_load(folder / "serving", now), authority[0], names):
        _make_serving(folder / "serving", authority, names, now)
    ca_pem = authority[0].public_bytes(Encoding.PEM)
    return Credentials(ca_pem, folder / "serving.crt", folder / "serving.key", _read_token(folder / "token"))


def _load(stem: Path, now: datetime) -> _Pair | None:
    """None when it is not there, is damaged, or is about to expire: then it is made again."""
    try:
        certificate = x509.load_pem_x509_certificate(stem.with_suffix(".crt").read_bytes())
        key = load_pem_private_key(stem.with_suffix(".key").read_bytes(), None)
    except (OSError, ValueError, TypeError):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        return None
    renewed_at = certificate.not_valid_after_utc - timedelta(days=RENEW_BEFORE_DAYS)
    return (certificate, key) if certificate.not_valid_before_utc <= now < renewed_at else None


def _is_valid_for(pair: _Pair | None, authority: x509.Certificate, names: list[x509.GeneralName]) -> bool:
    if pair is None:
        return False
    try:
        pair[0].verify_directly_issued_by(authority)
        named = pair[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(names) <= set(named)


def _make_authority(stem: Path, now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # Two authorities of one name would be confused by a client that knows the older one.
    subject = _make_name(f"localcluster-ca-{secrets.token_hex(4)}")
    usage = x509.KeyUsage(**{use: use in ("digital_signature", "key_cert_sign", "crl_sign") for use in _USES})
    builder = (
        _begin_certificate(subject, subject, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _write(stem, builder.sign(key, hashes.SHA256()), key)


def _make_serving(stem: Path, authority: _Pair, names: list[x509.GeneralName], now: datetime) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, issuer_key = authority
    days = min(SERVING_DAYS, (issuer.not_valid_after_utc - now).days)
    builder = (
        _begin_certificate(_make_name("localcluster"), issuer.subject, key, now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    _write(stem, builder.sign(issuer_key, hashes.SHA256()), key)


def _begin_certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + timedelta(days=days))
    )


def _make_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _alternative_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


def _write(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> _Pair:
    # A crash in between leaves a pair that does not match, which `_load` does not take.
    write_private(stem.with_suffix(".key"), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_private(stem.with_suffix(".crt"), certificate.public_bytes(Encoding.PEM))
    return certificate, key


def signing_key(folder: Path) -> bytes:
    """What the tokens of service accounts are signed with: kept, so that pods whose tokens it has signed outlive a
    restart. Raises OSError when it cannot be written."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / "tokens.key"
    with contextlib.suppress(OSError):
        if len(kept := file.read_bytes()) == _TOKEN_BYTES:
            return kept
    made = secrets.token_bytes(_TOKEN_BYTES)
    write_private(file, made)
    return made


def _read_token(file: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if len(kept := file.read_text(encoding="ascii").strip()) >= _TOKEN_BYTES:
            return kept
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    write_private(file, made.encode())
    return made


def write_private(path: Path, content: bytes) -> None:
    """Write the file atomically, readable only by its owner from the start."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    fresh.replace(path)
