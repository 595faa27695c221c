"""Sets of replica indices as short text: {0, 1, 2, 7} <-> "0-2,7", as a batch Job writes its completedIndexes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MAX_INDEX = 10_000
"""No role has more replicas than this."""


def format_indices(indices: Iterable[int]) -> str:
    parts: list[str] = []
    ordered = sorted(set(indices))
    start = 0
    for i, index in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != index + 1:
            first = ordered[start]
            parts.append(str(first) if first == index else f"{first}-{index}")
            start = i + 1
    return ",".join(parts)


def parse_indices(text: str, below: int) -> frozenset[int]:
    """The indices from 0 to below - 1 that `text` names. Invalid parts are skipped: a user may have written
    the status that the text comes from."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        start, end = _read_index(first), _read_index(last or first)
        if start is not None and end is not None:
            # The bound comes before the range: `0-99999999999` in an edited status must not fill the worker's memory.
            found.update(range(start, min(end, below - 1) + 1))
    return frozenset(found)


def _read_index(digits: str) -> int | None:
    # `isdigit` alone is also true for superscripts, which `int` refuses.
    if not (digits.isascii() and digits.isdigit()):
        return None
    # `int` raises for more than 4,300 digits, too. No role has an index of ten digits.
    return int(digits) if len(digits) < 10 else MAX_INDEX


def group_indices(values: Mapping[int, str]) -> dict[str, str]:
    """value -> the indices that have it, as ranges: what 10,000 pods have in common must not fill a status."""
    groups: dict[str, set[int]] = {}
    for index, value in values.items():
        groups.setdefault(value, set()).add(index)
    return {value: format_indices(indices) for value, indices in sorted(groups.items())}


def ungroup_indices(groups: Mapping[str, str], below: int) -> dict[int, str]:
    return {index: value for value, text in groups.items() for index in parse_indices(text, below)}
