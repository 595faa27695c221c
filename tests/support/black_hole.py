"""A TCP proxy on the loopback that can swallow everything, as a network does that loses packets: connections stay and
are silent, and no new one opens. Data sent meanwhile is passed on afterwards.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

_BACKLOG = 128
_NOT_TAKEN_SECONDS = 0.2


class BlackHole:
    """Until `close`. Passes on to a port of the loopback, which need not be open."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._passes = threading.Event()
        self._passes.set()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.port = int(self._server.getsockname()[1])
        self._fillers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, target: int) -> None:
        """New connections lead to this port; those that are there stay, as behind a Service of Kubernetes."""
        self._target = target

    def swallow(self) -> None:
        """Once the kernel's queue of a listener is full, it drops the first packet of each further connection. The
        client's kernel sends that again after 1, 2, 4 ... seconds, as through a network that loses it."""
        self._passes.clear()
        self._server.listen(0)
        with suppress(TimeoutError):
            while True:
                address = ("127.0.0.1", self.port)
                self._fillers.append(socket.create_connection(address, timeout=_NOT_TAKEN_SECONDS))

    def pass_on(self) -> None:
        while self._fillers:
            self._fillers.pop().close()
        self._server.listen(_BACKLOG)
        self._passes.set()

    def close(self) -> None:
        self.pass_on()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()
                self._passes.wait()

    def _serve(self, client: socket.socket) -> None:
        self._passes.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset: refused
            client.close()
            return
        threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
        self._pump(server, client)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._passes.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
