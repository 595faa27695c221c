"""Bytes as they arrive from a socket to whole lines. Pure; holds at most one unfinished line.

A chunk may end anywhere, in the middle of a UTF-8 character too: only whole lines leave, so nobody ever decodes half a
character. What has no newline when the stream ends was cut and is dropped.
"""

from __future__ import annotations


class LineSplitter:
    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without newline and without empty ones."""
        if b"\n" not in chunk:
            # Joined only once the line is whole: a line of 1 MiB in 8 KiB chunks costs no 128 copies.
            if chunk:
                self._rest.append(chunk)
            return []
        lines = b"".join((*self._rest, chunk)).split(b"\n")
        rest = lines.pop()
        self._rest = [rest] if rest else []
        return [line for line in lines if line.strip()]
