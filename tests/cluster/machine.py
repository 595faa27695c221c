"""What a kubelet finds on its machine, played beside a node: a device plugin, and the systemd-logind that announces a
shutdown. The kubelet speaks to both as it does to real ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pytest

from controlplane.process import Process
from controlplane.releases import KUBELET, kubelet
from tests.cluster.images import compile_program
from tests.cluster.node import Node

SOURCE = Path(__file__).parent / "machine/main.go"
_BUS = """<busconfig><type>custom</type><listen>{address}</listen><auth>EXTERNAL</auth><policy context="default">
<allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>"""


class Machine:
    def __init__(self, node: Node, folder: Path) -> None:
        self._node = node
        self._folder = folder
        folder.mkdir()

    @cached_property
    def _program(self) -> Path:
        """Of the modules that the kubelet itself is built from."""
        return compile_program(SOURCE, self._folder / "machine", kubelet().folder(KUBELET))

    @contextmanager
    def plugin(self, resource: str, number: int) -> Iterator[None]:
        """So many devices, until the plug-in is killed."""
        process = Process("plugin", [str(self._program), "plugin", resource, str(number)], self._folder / "plugin.log")
        process.start()
        try:
            yield
        finally:
            process.stop(0)

    @contextmanager
    def logind(self) -> Iterator[Process]:
        """SIGUSR1 announces a shutdown, SIGUSR2 says that it is off. A kubelet that starts meanwhile listens."""
        daemon = shutil.which("dbus-daemon")
        if daemon is None:
            pytest.skip("dbus-daemon not found: apt-get install dbus-daemon")
        address = self._node.bus
        config = self._folder / "bus.conf"
        config.write_text(_BUS.format(address=address), encoding="utf-8")
        command = [daemon, "--nofork", f"--config-file={config}"]
        bus = Process("dbus-daemon", command, self._folder / "bus.log")
        env = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": address}
        logind = Process("logind", [str(self._program), "logind"], self._folder / "logind.log", env)
        bus.start()
        try:
            self._node.until("the bus listens", Path(address.partition("=")[2]).exists)
            logind.start()
            yield logind
        finally:
            logind.stop(0)
            bus.stop(0)
