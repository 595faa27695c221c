"""What may become of a watch on its way: seven fates, each a rule of which bytes still come and how they end. PURE:
lines of a sound watch and a seeded source in, bytes out; the proxy carries them (`tests/chaos/proxy.py`).

Each is something that API servers, load balancers and connections do; row 14 of the simulation plays the same in
virtual time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

import orjson

EXPIRED = orjson.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": "Expired",
        "code": 410,
        "message": "too old resource version, says the proxy",
    }
)
_ERROR_EVENT = b'{"type":"ERROR","object":' + EXPIRED + b"}\n"
_EMPTY_BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}\n'
WHOLE_LINES = 3
"""At most so many come before the end of a watch that ends badly."""


class Fate(StrEnum):
    GONE = "410 at once"
    ERROR = "ERROR event 410"
    CUT = "cut in a line"
    SILENT = "half-open"
    SPLIT = "split anywhere"
    TWICE = "events again"
    EMPTY = "empty bookmarks"


ENDS_EARLY = frozenset({Fate.ERROR, Fate.CUT, Fate.SILENT})
"""Some whole lines, then the end that the name says. The others last as long as the watch itself."""


async def spoiled(fate: Fate, lines: AsyncIterator[bytes], rng: random.Random) -> AsyncIterator[bytes]:
    """The pieces that the client gets of these lines (each with its newline), each to be sent on its own. How the
    connection ends then is the caller's. GONE is answered without a stream, and is none of these."""
    if fate in ENDS_EARLY:
        left, line = rng.randint(0, WHOLE_LINES), b""
        async for line in lines:
            if not left:
                break
            left -= 1
            yield line
            line = b""  # noqa: PLW2901  the one that is cut is the next, if there is one
        yield _ENDS[fate](line, rng)
        return
    newest: deque[bytes] = deque(maxlen=3)
    async for line in lines:
        newest.append(line)
        for piece in _LASTS[fate](newest, rng):
            yield piece


def cut_at(line: bytes, rng: random.Random) -> int:
    """Within a character of several bytes where there is one, else anywhere before the end."""
    within = [n for n in range(1, len(line)) if line[n] & 0xC0 == 0x80]
    return rng.choice(within) if within else rng.randrange(max(1, len(line)))


def in_pieces(line: bytes, rng: random.Random) -> list[bytes]:
    cuts = sorted({0, len(line), *(cut_at(line, rng) for _ in range(2)), *(rng.randrange(len(line)) for _ in range(2))})
    return [line[start:end] for start, end in pairwise(cuts)]


_ENDS: Mapping[Fate, Callable[[bytes, random.Random], bytes]] = {
    Fate.ERROR: lambda line, rng: _ERROR_EVENT,
    Fate.CUT: lambda line, rng: line[: cut_at(line, rng)],
    Fate.SILENT: lambda line, rng: line[: cut_at(line, rng)] if rng.random() < 0.5 else b"",
}
_LASTS: Mapping[Fate, Callable[[Sequence[bytes], random.Random], list[bytes]]] = {
    Fate.SPLIT: lambda newest, rng: in_pieces(newest[-1], rng),
    # This one, or one of the two before it: a server that repeats itself tells of old states, too.
    Fate.TWICE: lambda newest, rng: [newest[-1], rng.choice(newest)],
    Fate.EMPTY: lambda newest, rng: [newest[-1], _EMPTY_BOOKMARK],
}
