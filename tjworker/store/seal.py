"""The seal on each record of the projection, which is packed in it: a MAC that only who holds the key can have made.

Redis is trusted with nothing. The watcher seals what it writes and workers open it; beat, Flower and whoever else knows
Redis' password do not have the key. A seal is bound to the key prefix, the job's key and the field that the record
stands in, so that a record copied elsewhere is refused; UID and resourceVersion stand in the record itself. A record
put back from earlier keeps its seal: it is a stale view, which the preconditions of each write beat
(docs/adr/0019-records-are-sealed.md). Pure. Thread-safe.
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
"""The form of the seal, so that a later one can be told from it. `s1.` had a record that was not packed."""
SEAL_BYTES = len(_MARK) + len(urlsafe_b64encode(bytes(DIGEST_BYTES)).rstrip(b"=")) + 1


class Seal:
    """`keys`: the first one seals, each of them opens. So a key is replaced without a pause."""

    def __init__(self, keys: Sequence[str], prefix: str) -> None:
        self._prefix = prefix.encode()
        hashed = [blake2b(key.encode(), digest_size=64).digest() for key in keys]
        form = packing.FORM
        self._macs = [blake2b(key=key, digest_size=DIGEST_BYTES, salt=form, person=b"tj-record") for key in hashed]
        names = [blake2b(key=key, digest_size=8, salt=form, person=b"tj-key-name").hexdigest() for key in hashed]
        self.name = names[0]
        """Of the key that seals, and of how it packs. It says nothing of the key."""
        self.names = frozenset(names)
        """Of every key that opens."""

    def seal(self, record: bytes, *place: str) -> bytes:
        packed = packing.pack(record)
        return self._seal(0, self._context(place), packed) + packed

    def open(self, sealed: bytes, *place: str) -> bytes | None:
        """The record; None when none of our keys has sealed it for this place. Raises nothing: what cannot be unpacked
        counts as sealed by somebody else."""
        packed = sealed[SEAL_BYTES:]
        context = self._context(place)
        given = sealed[:SEAL_BYTES]
        opens = any(compare_digest(given, self._seal(which, context, packed)) for which in range(len(self._macs)))
        try:
            return packing.unpack(packed) if opens else None
        except ValueError:
            return None

    def _context(self, place: Sequence[str]) -> bytes:
        # No name in Kubernetes, and no prefix, holds a zero byte.
        return b"\0".join((self._prefix, *(part.encode(errors="surrogateescape") for part in place), b""))

    def _seal(self, which: int, context: bytes, packed: bytes) -> bytes:
        mac = self._macs[which].copy()
        mac.update(context)
        mac.update(packed)
        return _MARK + urlsafe_b64encode(mac.digest()).rstrip(b"=") + b" "


def open_seal(keys: Sequence[str], prefix: str) -> Seal:
    """Of the settings of this process. Raises Terminal where they have no key."""
    if not keys:
        raise Terminal(
            "TJ_RECORD_KEYS is not set: watcher and workers share a key that no one else has, or whoever can write"
            " Redis could make pods; set it to the output of `openssl rand -hex 32`, the same for all of them"
            " (docs/operations.md)"
        )
    return Seal(keys, prefix)
