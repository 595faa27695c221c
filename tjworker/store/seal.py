"""The seal on each record of the projection: a MAC over the packed record, which needs the key. Pure. Thread-safe.

Redis is not trusted. The watcher seals the records that it writes, and workers open them. Beat, Flower and other
clients with Redis' password do not have the key. A seal covers the key prefix, the job's key and the record's field, so
that a record that was copied elsewhere is refused; UID and resourceVersion are in the record itself. An older record
that was put back keeps a valid seal: it is a stale view, and the preconditions of each write defeat it
(docs/adr/0019-records-are-sealed.md).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest

from tjworker.base import Terminal
from tjworker.store import packing

DIGEST_BYTES = 16
_MARK = b"s2."
"""The form of the seal, so that later forms can be distinguished. In `s1.` the record was not packed."""
SEAL_BYTES = len(_MARK) + len(urlsafe_b64encode(bytes(DIGEST_BYTES)).rstrip(b"=")) + 1


class Seal:
    """`keys`: the first key seals, every key opens. So a key can be replaced without downtime."""

    def __init__(self, keys: Sequence[str], prefix: str) -> None:
        self._prefix = prefix.encode()
        # BLAKE2b takes a key of up to 64 bytes, and TJ_RECORD_KEYS may be longer.
        hashed = [blake2b(key.encode(), digest_size=64).digest() for key in keys]
        form = packing.FORM
        # `person` separates the two uses of a key: its name, which Redis shows to every client, is no seal of any
        # record. `salt` makes a record of another packing fail at its seal, and not as garbage in a parser.
        self._macs = [blake2b(key=key, digest_size=DIGEST_BYTES, salt=form, person=b"tj-record") for key in hashed]
        names = [blake2b(key=key, digest_size=8, salt=form, person=b"tj-key-name").hexdigest() for key in hashed]
        self.name = names[0]
        """Name of the sealing key and the packing. It reveals nothing about the key."""
        self.names = frozenset(names)
        """Names of all keys that open."""

    def seal(self, record: bytes, *place: str) -> bytes:
        packed = packing.pack(record)
        return self._seal_with(0, self._encode_place(place), packed) + packed

    def open(self, sealed: bytes, *place: str) -> bytes | None:
        """The record; None if no key of this process has sealed it for this place. Raises nothing."""
        packed = sealed[SEAL_BYTES:]
        context = self._encode_place(place)
        given = sealed[:SEAL_BYTES]
        opens = any(compare_digest(given, self._seal_with(which, context, packed)) for which in range(len(self._macs)))
        try:
            # The seal first: foreign bytes may unpack to a thousand times their length.
            return packing.unpack(packed) if opens else None
        except ValueError:
            # Sealed with a right key, but not written by `pack`. It counts like a wrong seal.
            return None

    def _encode_place(self, place: Sequence[str]) -> bytes:
        # Without a separator the names `a`, `bc` and `ab`, `c` would have one seal. No name in Kubernetes, and no
        # prefix, holds a zero byte.
        return b"\0".join((self._prefix, *(part.encode(errors="surrogateescape") for part in place), b""))

    def _seal_with(self, which: int, context: bytes, packed: bytes) -> bytes:
        # A copy of a keyed MAC is faster than hashing the key for each record.
        mac = self._macs[which].copy()
        mac.update(context)
        mac.update(packed)
        return _MARK + urlsafe_b64encode(mac.digest()).rstrip(b"=") + b" "


def open_seal(keys: Sequence[str], prefix: str) -> Seal:
    """The seal from the settings of this process. Raises Terminal if they have no key."""
    if not keys:
        raise Terminal(
            "TJ_RECORD_KEYS is not set: watcher and workers need a shared key that no one else has, because without it"
            " everybody who can write Redis could create pods; set it to the output of `openssl rand -hex 32`, the same"
            " for all of them (docs/operations.md)"
        )
    return Seal(keys, prefix)
