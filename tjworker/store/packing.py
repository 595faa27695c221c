"""Records as short as they go: deflated, with the words of `record_words.txt` known to both sides beforehand. Pure.

Most of a record is words that every record has: of a pod's 650 bytes 140 are left (290 without such words), for 5
to 10 microseconds in the watcher and 1 in a worker.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from importlib.resources import files

_WORDS = "".join((files("tjworker.store") / "record_words.txt").read_text().splitlines()).encode()
"""Parts of records, the most frequent last: what is near costs least. Change them as records change; a word that is
missing costs bytes and no more."""
_LEVEL = 6
_WINDOW_BITS = 13
"""Looks back for 8 KiB. Given as a negative number zlib writes neither header nor checksum: the seal proves more."""
_MEMORY_LEVEL = 5
"""A packer with that window is 50 KB, which each record copies. One as zlib makes it is 270, and takes ten times as
long."""
FORM = blake2b(b"%d " % _WINDOW_BITS + _WORDS, digest_size=16).digest()
"""Of what `pack` writes: `unpack` reads no other."""
_PACKER = zlib.compressobj(_LEVEL, zlib.DEFLATED, -_WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, _WORDS)
_UNPACKER = zlib.decompressobj(-_WINDOW_BITS, _WORDS)
"""Neither is used itself: a copy that knows the words is made sooner than a new one learns them."""


def pack(record: bytes) -> bytes:
    """The same bytes for the same record and zlib."""
    packer = _PACKER.copy()
    return packer.compress(record) + packer.flush()


def unpack(packed: bytes, *, most_bytes: int = 0) -> bytes:
    """What `pack` was given. Raises ValueError for what is cut off or was never packed. What somebody else has packed
    can be a thousand times as long: look at its seal first, or give `most_bytes`, beyond which it counts as cut off."""
    unpacker = _UNPACKER.copy()
    try:
        record = unpacker.decompress(packed, most_bytes)
    except zlib.error as error:
        raise ValueError(f"not a packed record: {error}") from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("not a packed record: it ends too early or too late")
    return record
