"""A TCP proxy on the loopback that can swallow everything, as a network does that loses packets: connections stay, or
seem to be made, and nobody hears anything. What was sent meanwhile is passed on afterwards.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress


class BlackHole:
    """Until `close`. Passes on to a port of the loopback, which need not be open."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._passes = threading.Event()
        self._passes.set()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def lead_to(self, target: int) -> None:
        """New connections lead to this port; those that are there stay, as behind a Service of Kubernetes."""
        self._target = target

    def swallow(self) -> None:
        self._passes.clear()

    def pass_on(self) -> None:
        self._passes.set()

    def close(self) -> None:
        self._passes.set()
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

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
