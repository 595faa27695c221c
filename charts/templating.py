"""Kubernetes objects with marks in them -> a Helm template.

A mark is a string that begins with @@, where the object has a value:

    @@{{ EXPRESSION }}      the expression as the value
    @@yaml EXPRESSION       the value of the expression, as a block of YAML
    @@with EXPRESSION       the same; the key is left out when the value is empty
    @@if EXPRESSION @@JSON  the key, or the item of a list, with the value JSON, only when the expression holds

The key `@@labels` includes the labels of every object.
"""

from __future__ import annotations

import re

from tjworker.api.generate import to_yaml
from tjworker.base import JsonDict

_LINE = re.compile(r"^(?P<indent> *)(?P<key>(?:- )?(?:[\w./-]+: )?)'?@@(?P<mark>.*?)'?$")


def render_template(documents: list[JsonDict]) -> str:
    """The documents as text, each begun by `---`."""
    # Never folded: a mark is on one line.
    return "".join("---\n" + _fill_in(to_yaml([document], width=10_000)) for document in documents)


def _fill_in(text: str) -> str:
    lines = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if line.strip() == "'@@labels': null":
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f'{indent}{{{{- include "trainingjob-operator.labels" $ | nindent {len(indent)} }}}}')
        elif found is None:
            if "@@" in line:
                raise ValueError(f"no such mark: {line}")
            lines.append(line)
        else:
            lines += _expand(found["indent"], found["key"], found["mark"].replace("''", "'"))
    return "\n".join(lines) + "\n"


def _expand(indent: str, key: str, mark: str) -> list[str]:
    word, _, rest = mark.partition(" ")
    if mark.startswith("{{"):
        return [f"{indent}{key}{mark}"]
    if word == "yaml":
        return [f"{indent}{key.rstrip()} {{{{- toYaml {rest} | nindent {len(indent) + 2} }}}}"]
    if word == "with":
        return [
            f"{indent}{{{{- with {rest} }}}}",
            f"{indent}{key.rstrip()} {{{{- toYaml . | nindent {len(indent) + 2} }}}}",
            f"{indent}{{{{- end }}}}",
        ]
    if word == "if":
        condition, _, value = rest.partition(" @@")
        return [f"{indent}{{{{- if {condition} }}}}", f"{indent}{key}{value}", f"{indent}{{{{- end }}}}"]
    raise ValueError(f"no such mark: @@{mark}")
