"""Where a history happens, simulated or real: the namespace of one job, as its users and a judge see it."""

from __future__ import annotations

from typing import Any, Protocol

from localcluster.client import Client

Json = dict[str, Any]


class Seen(Protocol):
    def the_job(self) -> Json | None: ...

    def pods(self) -> dict[str, Json]:
        """By name; without those of strangers."""
        ...

    def objects(self, bucket: str) -> dict[str, Json]:
        """By name. `bucket`: group and plural as in `apps/replicasets`, the plural alone for the core group."""
        ...


class Place(Seen, Protocol):
    @property
    def namespace(self) -> str: ...

    @property
    def client(self) -> Client: ...

    def exit_pod(self, name: str, code: int) -> None:
        """Its containers end now, with this code."""
        ...
