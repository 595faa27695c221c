"""All parameter servers as one: pull, push, restore. Used by trainers and by the master. For one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from examples.digits.env import Address
from examples.digits.model import Parameters, owner
from examples.digits.rpc import Client
from examples.digits.wire import Message


@dataclass(frozen=True, slots=True)
class Pulled:
    parameters: Parameters
    versions: tuple[int, ...]
    """Updates that each server had applied when it answered."""


class Fleet:
    def __init__(
        self,
        addresses: tuple[Address, ...],
        *,
        patience_seconds: float,
        stop: threading.Event | None = None,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self.clients = [
            Client(
                f"pserver-{index}", address, patience_seconds=patience_seconds, stop=stop, while_waiting=while_waiting
            )
            for index, address in enumerate(addresses)
        ]

    def pull(self) -> Pulled:
        """Raises what `Client.call` raises; a server without parameters is one that is waited for."""
        parameters: Parameters = {}
        versions = []
        for client in self.clients:
            answer = client.call("pull")
            parameters.update(answer.arrays)
            versions.append(int(answer.fields["version"]))
        return Pulled(parameters, tuple(versions))

    def push(self, gradients: Parameters, seen: Pulled, learning_rate: float) -> None:
        for index, client in enumerate(self.clients):
            mine = {name: array for name, array in gradients.items() if owner(name, len(self.clients)) == index}
            client.call("push", mine, seen_version=seen.versions[index], learning_rate=learning_rate)

    def status(self, index: int) -> Mapping[str, Any]:
        return self.clients[index].call("status").fields

    def export(self, index: int) -> Message:
        return self.clients[index].call("export")

    def restore(self, index: int, exported: Parameters, version: int) -> None:
        self.clients[index].call("restore", exported, version=version)

    def note(self, index: int, note: Mapping[str, Any]) -> None:
        self.clients[index].call("note", note=dict(note))

    def share(self, parameters: Parameters, index: int) -> Parameters:
        """The part of fresh `parameters` that server `index` holds, as `restore` takes it."""
        return {f"p/{name}": array for name, array in parameters.items() if owner(name, len(self.clients)) == index}
