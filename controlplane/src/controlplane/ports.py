"""Free TCP ports of the loopback. Binds each for a moment to see that it is free; keeps none open."""

from __future__ import annotations

import random
import socket

_LOW, _HIGH = 20_000, 31_999
"""Below Linux's range for outgoing connections, which begins at 32768: a client could take such a port while its owner
restarts."""


def find_free(count: int) -> list[int]:
    """Finds `count` different free ports. Another process may take one before it is used: then try again."""
    rng = random.SystemRandom()
    found: list[int] = []
    while len(found) < count:
        port = rng.randint(_LOW, _HIGH)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
