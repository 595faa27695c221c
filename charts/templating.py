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
from typing import Any

import yaml

from tjworker.base import JsonDict

_LINE = re.compile(r"^(?P<indent> *)(?P<key>(?:- )?(?:[\w./-]+: )?)'?@@(?P<mark>.*?)'?$")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def render_template(documents: list[JsonDict]) -> str:
    """The documents as text, each begun by `---`."""
    return "".join("---\n" + _fill_in(_dump(document)) for document in documents)


def _dump(document: JsonDict) -> str:
    # Never folded: a mark is on one line.
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000))


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
