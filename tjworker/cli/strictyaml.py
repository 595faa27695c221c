"""The documents of a YAML text, as kubectl reads them with strict validation: no key twice. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

# PyYAML that was built without libyaml has only the loader in Python, which reads the same.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_NODES = 200_000
"""The most nodes of a document with its aliases expanded. An object of 1.5 MiB, the most that Kubernetes stores, has
fewer. A few hundred bytes of nested aliases can expand to any number, and `tj convert` expands them."""
MOST_DEEP = 100
"""The deepest nesting of mappings and lists. A Pod has 12. libyaml recurses for each level: 400 KB of brackets would
kill the process without a message."""
_MERGE = "tag:yaml.org,2002:merge"


class NotYaml(ValueError):
    """What is wrong with the text, and in which line."""


class _Strict(_LOADER):  # type: ignore[misc]
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        first: dict[str, int] = {}
        for key, _ in node.value:
            # A key may repeat a key from `<<`, which it overrides; a list as a key is refused below.
            if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in first:
                earlier = first[key.value]
                raise NotYaml(f"line {line}: {key.value} is there already, in line {earlier}; remove one of them")
            first[key.value] = line
        return super().construct_mapping(node, deep)


def read_documents(text: str) -> list[tuple[int, Any]]:
    """Each with the line on which it begins, without the empty ones. Raises NotYaml."""
    try:
        return [(line, document) for line, document in _documents(text) if document is not None]
    except NotYaml:
        raise
    except yaml.MarkedYAMLError as error:
        raise NotYaml(_words(error, text)) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NotYaml(" ".join(str(error).split())) from None


def _documents(text: str) -> Iterator[tuple[int, Any]]:
    _refuse_depth(text)
    loader = _Strict(text)
    try:
        while loader.check_node():
            # As a node first: constructing a document writes its aliases out, before anybody has counted them.
            node = loader.get_node()
            _refuse_expansion(node)
            yield node.start_mark.line + 1, loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MOST_DEEP:
                where = f"line {event.start_mark.line + 1}: " if event.start_mark else ""
                raise NotYaml(f"{where}more than {MOST_DEEP} mappings and lists inside each other; use fewer levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _refuse_expansion(document: yaml.Node) -> None:
    sizes: dict[int, int] = {}
    """Node id -> its size; 0 while its children are being counted."""

    def count(node: yaml.Node) -> int:
        line = node.start_mark.line + 1
        if id(node) in sizes:
            if not sizes[id(node)]:
                raise NotYaml(f"line {line}: what begins here contains an alias of itself; write out what is meant")
            return sizes[id(node)]
        sizes[id(node)] = 0
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        size = 1 + sum(map(count, children))
        if size > MOST_NODES:
            raise NotYaml(
                f"line {line}: what begins here has more than {MOST_NODES} values once its aliases (*name) are written"
                " out, which no object in Kubernetes may have; use fewer aliases"
            )
        sizes[id(node)] = size
        return size

    count(document)


def _words(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return " ".join(str(error).split())
    for number, line in enumerate(text.splitlines()[: mark.line + 1], 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            return f"line {number} begins with a tab: YAML indents with spaces"
    context = f" {error.context}" if error.context and "block" not in error.context else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{context}"
