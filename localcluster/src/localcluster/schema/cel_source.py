"""A rule as tokens, so that the content of strings is left alone. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from localcluster.schema.cel_functions import RENAMED

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
      |(?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      |(?P<number>0x[0-9a-fA-F]+u?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?|\.\d+(?:[eE][+-]?\d+)?)
      |(?P<ident>[a-zA-Z_][a-zA-Z0-9_]*)
      |(?P<op>&&|\|\||==|!=|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_CLOSE: Final = frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    offset: int
    """In the rule as it was written."""


def tokenize(rule: str) -> list[Token]:
    """Without blanks and comments."""
    return [Token(m.lastgroup or "", m[0], m.start()) for m in _TOKEN.finditer(rule) if m.lastgroup != "space"]


def find_closing(tokens: list[Token], start: int) -> int:
    """The index of the bracket that closes the one at `start`; the end when there is none."""
    depth = 0
    for index in range(start, len(tokens)):
        if tokens[index].text in _OPEN and tokens[index].kind == "op":
            depth += 1
        elif tokens[index].text in _CLOSE and tokens[index].kind == "op":
            depth -= 1
            if depth == 0:
                return index
    return len(tokens)


def split_arguments(tokens: list[Token], start: int) -> list[list[Token]]:
    """The arguments of the call whose bracket is at `start`."""
    end = find_closing(tokens, start)
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens[start + 1 : end]:
        if token.kind == "op":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if token.kind == "op" and token.text == "," and depth == 0:
            found.append([])
        else:
            found[-1].append(token)
    return found


def rewrite_tokens(tokens: list[Token]) -> str:
    """The rule with calls of RENAMED functions renamed."""

    def text(index: int) -> str:
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        name = tokens[index].text
        return RENAMED.get(name, name) if called and tokens[index].kind == "ident" else name

    return " ".join(text(index) for index in range(len(tokens)))
