"""Carries comments and scalar styles from one YAML text to another with different fields. Pure.

A comment belongs to the field on its line, or to the next field below it. A field of the new text takes the comments of
the old field that it comes from, and its block style, quotes and flow style. PyYAML reads and writes as kubectl does
(YAML 1.1). A library that keeps comments would tie each of them to the field before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tjworker.convert.report import Origins, Path, printed

_NUMBER = re.compile(r"[-+]?(\.\d+|\d[\d_]*(\.\d*)?)([eE][-+]?\d+)?|0[box][\da-fA-F_]+")
"""What kubectl reads as a number. PyYAML reads some of these as strings: 1e3."""
_WIDE = 1 << 30
"""Columns. No scalar is folded, since a comment can follow only a scalar on one line."""


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """One document of a YAML text, with its comments."""

    node: yaml.Node
    above: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)
    """Field -> the comments on lines of their own above it."""
    trailing: Mapping[Path, str] = field(default_factory=dict)
    """Field -> the comment behind it, on the same line."""
    below: tuple[str, ...] = ()
    """Comments after the last field."""


class _PlainRepresenter(yaml.representer.SafeRepresenter):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def read(text: str) -> list[SourceDocument]:
    """The documents that are not empty. Raises yaml.YAMLError, RecursionError."""
    # Nodes and not values: only nodes know their lines and styles.
    nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if not _is_nothing(node)]
    # The scan for comments reads the text a second time, and most manifests from a cluster have none.
    alone, behind = _comments(text) if "#" in text else ({}, {})
    sources, first = [], 0
    for number, node in enumerate(nodes):
        last = nodes[number + 1].start_mark.line if number + 1 < len(nodes) else text.count("\n") + 1
        # A document in flow style may end on its first line, whose comment is its own.
        end = max(node.end_mark.line, node.start_mark.line + 1)
        stop = end if number + 1 < len(nodes) else last
        sources.append(_source(node, _within(alone, first, stop), _within(behind, first, stop)))
        first = stop
    return sources


def _is_nothing(node: yaml.Node | None) -> bool:
    return node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"))


def _within(comments: Mapping[int, str], first: int, stop: int) -> dict[int, str]:
    return {line: said for line, said in comments.items() if first <= line < stop}


def _comments(text: str) -> tuple[dict[int, str], dict[int, str]]:
    """(line -> the comment alone on it, line -> the comment behind something else)."""
    # A # inside a scalar begins no comment.
    spans = [
        (token.start_mark.index, token.end_mark.index)
        for token in yaml.scan(text, Loader=yaml.SafeLoader)
        if isinstance(token, yaml.ScalarToken)
    ]
    alone: dict[int, str] = {}
    behind: dict[int, str] = {}
    start, taken = 0, 0
    for number, line in enumerate(text.split("\n")):
        for place, letter in enumerate(line):
            index = start + place
            while taken < len(spans) and spans[taken][1] <= index:
                taken += 1
            inside = taken < len(spans) and spans[taken][0] <= index
            # By YAML a # begins a comment only at the start of a line or after white space.
            if letter == "#" and not inside and (place == 0 or line[place - 1] in " \t"):
                (behind if line[:place].strip() else alone)[number] = line[place:].rstrip()
                break
        start += len(line) + 1
    return alone, behind


def _source(node: yaml.Node, alone: Mapping[int, str], behind: Mapping[int, str]) -> SourceDocument:
    lines = _lines(node)
    above: dict[Path, tuple[str, ...]] = {}
    waiting: list[str] = []
    trailing: dict[Path, str] = {}
    for line in sorted({*alone, *behind, *lines}):
        if line in alone:
            waiting.append(alone[line])
        if line in lines:
            if waiting:
                above[lines[line][0]] = tuple(waiting)
                waiting = []
            if line in behind:
                trailing[_field_of_comment(lines[line])] = behind[line]
        elif line in behind:
            waiting.append(behind[line])  # behind a closing bracket, or the last line of a block text
    return SourceDocument(node, above, trailing, tuple(waiting))


def _field_of_comment(paths: list[Path]) -> Path:
    """A comment behind `- name: a` belongs to the name, a comment behind `a: {b: 1}` to a."""
    return next((path for path in paths if path and isinstance(path[-1], str)), paths[0])


def _lines(node: yaml.Node) -> dict[int, list[Path]]:
    """The fields that begin on each line, the outer ones first."""
    found: dict[int, list[Path]] = {}
    for path, first, _ in _walk(node):
        found.setdefault(first.start_mark.line, []).append(path)
    return found


def _walk(node: yaml.Node, path: Path = ()) -> Iterator[tuple[Path, yaml.Node, yaml.Node]]:
    """(path, the node with which it begins: its key or itself, its value) of every field, the outer ones first."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            yield below, key, value
            yield from _walk(value, below)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield (*path, i), value, value
            yield from _walk(value, (*path, i))


def source_of(path: Path, origins: Origins) -> Path | None:
    """The field of the old object from which a field of the new one comes; None if there is none."""
    for length in range(len(path), -1, -1):
        if path[:length] in origins:
            return (*origins[path[:length]], *path[length:])
    return None


def write(made: Any, source: SourceDocument, origins: Origins) -> tuple[str, tuple[str, ...]]:
    """(`made` as YAML, the comments that have no place in it)."""
    node = _represent_with_styles(made, source, origins)
    text = str(yaml.serialize(node, Dumper=yaml.SafeDumper, width=_WIDE, allow_unicode=True))
    return _add_comments(text, source, origins)


def _represent_with_styles(made: Any, source: SourceDocument, origins: Origins) -> yaml.Node:
    """The nodes of `made`, in the styles of the old nodes that they come from."""
    old: dict[Path, yaml.Node] = {path: node for path, _, node in _walk(source.node)}
    flowing = bool(getattr(source.node, "flow_style", False))  # JSON
    root = _PlainRepresenter(sort_keys=False).represent_data(made)
    for path, _, node in _walk(root):
        before = old.get(source_of(path, origins) or ("",))
        if isinstance(node, yaml.ScalarNode):
            if not node.tag.endswith(":str"):
                continue
            if isinstance(before, yaml.ScalarNode) and not flowing and before.value == node.value:
                node.style = before.style
            # PyYAML writes 1e3 without quotes, and kubectl would read a number.
            if node.style is None and _NUMBER.fullmatch(node.value):
                node.style = "'"
        elif isinstance(node, yaml.CollectionNode):
            flat = not flowing and type(before) is type(node) and bool(getattr(before, "flow_style", False))
            # Empty collections have no block form: {} and [].
            node.flow_style = flat or not node.value
    if isinstance(root, yaml.CollectionNode):
        root.flow_style = False
    return root


def _add_comments(text: str, source: SourceDocument, origins: Origins) -> tuple[str, tuple[str, ...]]:
    # A comment is written once, although an old field may be the origin of several new ones (`spec.image` of each
    # role).
    above, trailing = dict(source.above), dict(source.trailing)
    lines = text.split("\n")
    # The new text is read again, because PyYAML's serializer does not say on which line a node is.
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert root is not None  # noqa: S101  for the type checker: a job is not an empty document
    nodes = {path: node for path, _, node in _walk(root)}
    for number, paths in sorted(_lines(root).items()):
        indent = " " * (len(lines[number]) - len(lines[number].lstrip(" ")))
        comments: list[str] = []
        for path in paths:
            before = source_of(path, origins)
            if before is None:
                continue
            for place in _comment_fields(before, path):
                comments += above.pop(place, ())
                if (behind := trailing.pop(place, None)) is None:
                    continue
                if _is_one_line(nodes[path]):
                    lines[number] += f"  {behind}"
                else:
                    comments.append(behind)
        lines[number] = "\n".join([*(f"{indent}{comment}" for comment in comments), lines[number]])
    end = "".join(f"{comment}\n" for comment in source.below)
    lost = (*(c for listed in above.values() for c in listed), *trailing.values())
    return "\n".join(lines) + end, lost


def _comment_fields(before: Path, path: Path) -> tuple[Path, ...]:
    """The old fields whose comments go to `path`. An item of a list that has become an entry of a map also takes those
    of its name."""
    listed = bool(before) and isinstance(before[-1], int) and isinstance(path[-1], str)
    return (before, (*before, "name")) if listed else (before,)


def _is_one_line(node: yaml.Node) -> bool:
    """True if a comment may follow on the node's first line. Behind | or >, it would be part of the text."""
    return not (isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"))


def written_at(made: Any, origins: Origins) -> dict[str, str]:
    """Field of the new object -> the field of the old one that it comes from, both as kubectl prints them."""
    fields = ((path, source_of(path, origins)) for path in _paths(made))
    return {printed(path): printed(before) for path, before in fields if before}


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _paths(part, (*path, str(name)))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _paths(part, (*path, i))
