"""The history of the world: every write that the API server has taken, in order, with its time and its author."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Json = dict[str, Any]
Author = Literal["operator", "user", "cluster", "unknown"]
"""`cluster`: Kubernetes' own controllers, scheduler and kubelets. `unknown`: of a history that was only watched."""
Kind = Literal["ADDED", "MODIFIED", "DELETED"]
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")
BETWEEN_SECONDS = 1e-6
"""No two writes have one time, though a clock that is virtual stands still between them."""


@dataclass(frozen=True, slots=True)
class Write:
    at: float
    """In Unix seconds."""
    author: Author
    kind: Kind
    bucket: str
    """Group and plural, as in `apps/replicasets`; the plural alone for the core group."""
    name: str
    obj: Json
    """As it is after the write; of one that is deleted, the last that there was."""
    before: Json | None


class Chronicle:
    """Keeps what it is told and changes none of it."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.author: Author = "cluster"
        """Of the request that is being carried out."""

    def note(self, at: float, kind: Kind, bucket: str, name: str, obj: Json, before: Json | None) -> None:
        if self.writes:
            at = max(at, self.writes[-1].at + BETWEEN_SECONDS)
        self.writes.append(Write(at, self.author, kind, bucket, name, obj, before))

    def by(self, author: Author, handle: Callable[[Asked], Answer]) -> Callable[[Asked], Answer]:
        """The API server as this author calls it."""

        def called(request: Asked) -> Answer:
            with self._as(author):
                return handle(request)

        return called

    @contextmanager
    def _as(self, author: Author) -> Iterator[None]:
        before, self.author = self.author, author
        try:
            yield
        finally:
            self.author = before
