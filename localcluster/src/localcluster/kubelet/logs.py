"""Reading the logs that container runners write: `kubectl logs` with --tail, --since, --timestamps, --limit-bytes and
-f.

`read` gives what is there; a `Follower` goes on giving what comes, over a rotation too. Never writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from localcluster.objects import seconds_of

FOLLOW_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class LogOptions:
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_seconds: float | None = None
    """Unix seconds: lines older than this are left out."""
    limit_bytes: int | None = None

    @staticmethod
    def of(query: Mapping[str, str], now: float) -> LogOptions:
        """From the query of a log request. Raises ValueError for a number that is none."""

        def flag(name: str) -> bool:
            return query.get(name, "").lower() in ("true", "1")

        since = None
        if query.get("sinceSeconds"):
            since = now - int(query["sinceSeconds"])
        elif query.get("sinceTime"):
            since = seconds_of(query["sinceTime"])
        return LogOptions(
            follow=flag("follow"),
            previous=flag("previous"),
            timestamps=flag("timestamps"),
            since_seconds=since,
            tail_lines=int(query["tailLines"]) if query.get("tailLines") else None,
            limit_bytes=int(query["limitBytes"]) if query.get("limitBytes") else None,
        )


def _render_lines(lines: list[bytes], options: LogOptions) -> list[bytes]:
    """CRI lines as the user sees them."""
    shown = []
    for line in lines:
        stamp, _, rest = line.partition(b" ")
        tag, _, text = rest.partition(b" ")[2].partition(b" ")
        if options.since_seconds is not None and seconds_of(stamp[:26].decode() + "Z") < options.since_seconds:
            continue
        end = b"" if tag == b"P" else b"\n"
        shown.append((stamp + b" " if options.timestamps else b"") + text + end)
    return shown


def read(folder: Path, options: LogOptions, size: int | None = None) -> bytes:
    """What is there; of the newest file only the first `size` bytes."""
    lines: list[bytes] = []
    for name, limit in (("log.1", None), ("log", size)):
        path = folder / name
        if path.exists():
            lines += [line for line in path.read_bytes()[:limit].split(b"\n") if line]
    shown = _render_lines(lines, options)
    if options.tail_lines is not None:
        shown = shown[-options.tail_lines :] if options.tail_lines else []
    data = b"".join(shown)
    return data[: options.limit_bytes] if options.limit_bytes is not None else data


class Follower:
    """`ended` says whether the container has ended; then, what is left is given and `done` becomes true.

    Holds the log open, as a kubelet does: the last lines of a container whose pod is deleted at once are still there.
    """

    def __init__(self, folder: Path, options: LogOptions, ended: Callable[[], bool]) -> None:
        self._path = folder / "log"
        self._options = options
        self._ended = ended
        self._left = options.limit_bytes
        self.done = False
        self._file = self._open()
        offset = self._file.seek(0, os.SEEK_END) if self._file else 0
        self._first: bytes | None = read(folder, options, offset)
        self._rest = b""

    def _open(self) -> FileIO | None:
        try:
            return FileIO(self._path)
        except FileNotFoundError:
            return None

    def poll(self) -> bytes:
        over = self._ended()
        data, self._first = (self._first or b""), None
        data += b"".join(_render_lines(self._new_lines(), LogOptions(timestamps=self._options.timestamps)))
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            over = over or self._left <= 0
        self.done = over
        return data

    def _new_lines(self) -> list[bytes]:
        rotated = self._is_rotated()  # asked first: the old file is complete once another has its name
        data = self._file.readall() if self._file else b""
        if rotated and (newer := self._open()) is not None:
            if self._file:
                self._file.close()
            self._file = newer
            data += newer.readall()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line for line in lines if line]

    def _is_rotated(self) -> bool:
        """Another file has the log's name by now, or the first one has come."""
        try:
            return self._file is None or self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False
