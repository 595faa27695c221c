"""From a rule as Kubernetes accepts it to one that the CEL library understands.

The library has no optional syntax (`a.?b`, `a[?k]`), no `optMap`, no `cel.bind` and no `sets.*`; all of them can be said with
calls of ours and with the macros it has. Works on tokens, so strings and names inside are safe. Pure.
"""

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
      |(?P<op>\.\?|\[\?|&&|\|\||==|!=|<=|>=|.)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN: Final = {"(": ")", "[": "]", "{": "}", "[?": "]"}
_CLOSE: Final = frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    offset: int
    """In the rule as it was written; -1 for tokens that were put in."""


def tokenize(rule: str) -> list[Token]:
    """Without blanks and comments."""
    return [Token(m.lastgroup or "", m[0], m.start()) for m in _TOKEN.finditer(rule) if m.lastgroup != "space"]


def closing(tokens: list[Token], start: int) -> int:
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


def operand_start(tokens: list[Token], end: int) -> int:
    """Where the postfix chain that ends just before `end` begins, so `a.b(c)[d]` as a whole."""
    index = end
    while index > 0:
        index -= 1
        token = tokens[index]
        if token.kind == "op" and token.text in _CLOSE:
            depth = 1
            while index > 0 and depth:
                index -= 1
                if tokens[index].kind == "op":
                    depth += (tokens[index].text in _CLOSE) - (tokens[index].text in _OPEN)
            # `f(x)` and `a[i]`: what stands before the bracket belongs to the chain.
            before = tokens[index - 1] if index else None
            if before is not None and (
                (before.kind == "ident" and before.text != "in")
                or (tokens[index].text.startswith("[") and before.text in _CLOSE)
            ):
                continue
        if index and tokens[index - 1].text in (".", ".?"):
            index -= 1
            continue
        return index
    return index


def arguments(tokens: list[Token], start: int) -> list[list[Token]]:
    """The arguments of the call whose bracket is at `start`."""
    end = closing(tokens, start)
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


def _op(text: str) -> Token:
    return Token("op", text, -1)


def _call(name: str, *args: list[Token]) -> list[Token]:
    out = [Token("ident", name, -1), _op("(")]
    for index, arg in enumerate(args):
        out += [_op(","), *arg] if index else arg
    return [*out, _op(")")]


def _continue_chain(tokens: list[Token]) -> list[Token]:
    """What follows an optional selection is optional as well: `a.?b.c[d]` is `a.?b.?c[?d]`."""
    if len(tokens) > 1 and tokens[0].text == "." and (len(tokens) < 3 or tokens[2].text != "("):
        return [_op(".?"), *tokens[1:]]
    if tokens and tokens[0].text == "[":
        return [_op("[?"), *tokens[1:]]
    return tokens


def _optionals(tokens: list[Token]) -> list[Token]:
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.kind == "op" and token.text == ".?" and index + 1 < len(tokens):
            start = operand_start(tokens, index)
            key = [Token("string", f'"{tokens[index + 1].text}"', -1)]
            rest = tokens[index + 2 :]
        elif token.kind == "op" and token.text == "[?":
            start, end = operand_start(tokens, index), closing(tokens, index)
            key, rest = tokens[index + 1 : end], tokens[end + 1 :]
        else:
            index += 1
            continue
        tokens = [*tokens[:start], *_call("k8s_optional", tokens[start:index], key), *_continue_chain(rest)]
        index = start
    return tokens


def _macros(tokens: list[Token]) -> list[Token]:
    index = 0
    while index + 2 < len(tokens):
        dot, name, bracket = tokens[index : index + 3]
        if dot.text == "." and name.text in ("optMap", "optFlatMap") and bracket.text == "(":
            args = arguments(tokens, index + 2)
            start, end = operand_start(tokens, index), closing(tokens, index + 2)
            if len(args) == 2:
                tokens = [
                    *tokens[:start],
                    *_opt_map(tokens[start:index], args[0], args[1], flat=name.text == "optFlatMap"),
                    *tokens[end + 1 :],
                ]
                index = start
                continue
        if index and tokens[index - 1].text == "cel" and name.text == "bind" and bracket.text == "(":
            args, end = arguments(tokens, index + 2), closing(tokens, index + 2)
            if len(args) == 3:
                bound = [
                    _op("["),
                    *args[1],
                    _op("]"),
                    _op("."),
                    *_call("map", args[0], args[2]),
                    _op("["),
                    Token("number", "0", -1),
                    _op("]"),
                ]
                tokens = [*tokens[: index - 1], *bound, *tokens[end + 1 :]]
                index = max(index - 2, 0)
                continue
        index += 1
    return tokens


def _opt_map(operand: list[Token], variable: list[Token], body: list[Token], *, flat: bool) -> list[Token]:
    optional = [Token("ident", "optional", -1), _op(".")]
    mapped = [
        _op("["),
        *operand,
        _op("."),
        *_call("value"),
        _op("]"),
        _op("."),
        *_call("map", variable, body),
        _op("["),
        Token("number", "0", -1),
        _op("]"),
    ]
    some = mapped if flat else [*optional, *_call("of", mapped)]
    return [
        _op("("),
        *operand,
        _op("."),
        *_call("hasValue"),
        _op("?"),
        *some,
        _op(":"),
        *optional,
        *_call("none"),
        _op(")"),
    ]


def _names(tokens: list[Token]) -> list[Token]:
    out: list[Token] = []
    for index, token in enumerate(tokens):
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if called and token.kind == "ident" and len(out) >= 2 and out[-1].text == "." and out[-2].text == "sets":
            del out[-2:]
            out.append(Token("ident", f"sets_{token.text}", token.offset))
        elif called and token.kind == "ident" and token.text in RENAMED:
            out.append(Token("ident", RENAMED[token.text], token.offset))
        else:
            out.append(token)
    return out


def rewrite(tokens: list[Token]) -> str:
    return " ".join(token.text for token in _names(_optionals(_macros(tokens))))
