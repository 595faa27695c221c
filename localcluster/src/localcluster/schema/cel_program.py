"""One CEL expression: compiled once, checked against the schema as far as names go, run many times.

Parsing and evaluation are the library's (`cel`, the package common-expression-language); this file gives it Kubernetes'
functions, looks up fields and names at compile time as cel-go's type checker would, and words errors as cel-go does. It
does not check types: an expression that can only fail at run time compiles. Safe to run any number of times.
"""

from __future__ import annotations

import logging
import re
from typing import Any, Final

import cel

from localcluster.schema.cel_functions import BUILT_IN, FUNCTIONS, NO_OVERLOAD
from localcluster.schema.cel_source import Token, find_closing, rewrite_tokens, split_arguments, tokenize
from localcluster.schema.cel_values import is_declared, names_of
from localcluster.schema.node import SchemaNode

# The library also logs each exception of a Python function as a warning; the rule's error already reports it.
logging.getLogger("cel").addHandler(logging.NullHandler())
logging.getLogger("cel").propagate = False

_MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter"})
_TYPES: Final = "int uint double bool string bytes list map null_type type google true false null in"
_TYPE_NAMES: Final = frozenset(_TYPES.split())
_FUNCTION_ERROR: Final = re.compile(
    r"Function '[^']*' error: (?:Python function call failed: \w+: )?(.*?)(?:\. Check function arguments.*)?$",
    re.DOTALL,
)
_ERRORS: Final[dict[type[Exception], str]] = {OverflowError: "integer overflow", TypeError: NO_OVERLOAD}


class CelCompileError(ValueError):
    """The issues as cel-go lists them."""


class CelRuntimeError(ValueError):
    """The text of the CEL error: `no such key: x`, `no such overload`, ..."""


def _make_issue(source: str, offset: int, text: str) -> str:
    line_start = source.rfind("\n", 0, offset) + 1
    line = source[line_start:].split("\n", 1)[0]
    column = offset - line_start
    return f"ERROR: <input>:{source.count(chr(10), 0, offset) + 1}:{column + 1}: {text}\n | {line}\n | {'.' * column}^"


class _Names:
    """Walks a rule's tokens and reports names that the schema, the macros and the environment do not know."""

    def __init__(self, source: str, tokens: list[Token], root: SchemaNode) -> None:
        self._source = source
        self._tokens = tokens
        self._root = root
        self.issues: list[str] = []
        self._bound: list[tuple[str, int, int, SchemaNode | None]] = []
        """Variables of macros: name, the first and last token that see it, and what it holds (None: not known)."""

    def check(self) -> list[str]:
        for index, token in enumerate(self._tokens):
            if token.kind != "ident":
                continue
            called = self._text_at(index + 1) == "("
            selected = self._text_at(index - 1) == "."
            if called:
                self._check_function(index, token)
            elif not selected:
                self._check_variable(index, token)
            if called and selected and token.text in _MACROS:
                self._bind_variable(index, None)
        return self.issues

    def _text_at(self, index: int) -> str:
        return self._tokens[index].text if 0 <= index < len(self._tokens) else ""

    def _check_function(self, index: int, token: Token) -> None:
        if token.text not in FUNCTIONS and token.text not in BUILT_IN:
            self._report_undeclared(self._tokens[index + 1].offset, token.text)

    def _report_undeclared(self, offset: int, name: str) -> None:
        self.issues.append(_make_issue(self._source, offset, f"undeclared reference to '{name}' (in container '')"))

    def _find_visible(self, index: int, name: str) -> tuple[bool, SchemaNode | None]:
        # The inner variable of two nested macros hides the outer one of the same name.
        for bound, first, last, node in reversed(self._bound):
            if bound == name and first <= index <= last:
                return True, node
        return (True, self._root) if name in ("self", "oldSelf") else (name in _TYPE_NAMES, None)

    def _check_variable(self, index: int, token: Token) -> None:
        # The key of a map literal, or `x ? a : b`, is an expression like any other; a struct's field is not supported
        # here.
        known, node = self._find_visible(index, token.text)
        if not known:
            self._report_undeclared(token.offset, token.text)
        elif node is not None:
            self._check_chain(index + 1, node)

    def _check_chain(self, index: int, node: SchemaNode) -> None:
        """Follow `.a[0].b` from `node`, as far as the schema describes it."""
        current: SchemaNode | None = node
        while current is not None and index < len(self._tokens):
            text = self._text_at(index)
            if text == "." and self._text_at(index + 2) == "(":
                if self._text_at(index + 1) in _MACROS:
                    self._bind_variable(index + 1, current)
                return
            if text == ".":
                current = self._check_field(self._tokens[index], self._text_at(index + 1), current)
                index += 2
            elif text == "[":
                current = current.items if current.type == "array" else current.additional_node
                index = find_closing(self._tokens, index) + 1
            else:
                return

    def _check_field(self, dot: Token, name: str, node: SchemaNode) -> SchemaNode | None:
        if node.properties:
            for key, child in node.properties.items():
                # CEL sees only what the schema declares, under names that are escaped where they are words of CEL.
                if name in names_of(key) and is_declared(child):
                    return child
            self.issues.append(_make_issue(self._source, dot.offset, f"undefined field '{name}'"))
            return None
        if node.type == "object" and node.additional_node is not None:
            return node.additional_node
        return None

    def _bind_variable(self, index: int, over: SchemaNode | None) -> None:
        args = split_arguments(self._tokens, index + 1)
        if args[0] and args[0][0].kind == "ident":
            known = any(first == index + 1 for _, first, _, _ in self._bound)
            if not known:
                element = over.items if over is not None and over.type == "array" else None
                self._bound.append((args[0][0].text, index + 1, find_closing(self._tokens, index + 1), element))


def _parse(source: str) -> cel.Program:
    try:
        return cel.compile(source)
    except ValueError as error:
        _, _, issues = str(error).partition("': ERROR:")
        text = ("ERROR:" + issues) if issues else str(error)
        raise CelCompileError(re.sub(r"^\| ", " | ", text.rstrip(), flags=re.MULTILINE)) from error


class CelProgram:
    """A compiled expression. Raises CelCompileError when it cannot be one."""

    def __init__(self, source: str, root: SchemaNode) -> None:
        tokens = tokenize(source)
        self.uses_old_self = any(t.kind == "ident" and t.text == "oldSelf" for t in tokens)
        _parse(source)  # so that an error shows the rule as it was written
        self._program = _parse(rewrite_tokens(tokens))
        issues = _Names(source, tokens, root).check()
        if issues:
            raise CelCompileError("\n".join(dict.fromkeys(issues)))
        used = set(self._program.functions())
        self._functions = {name: function for name, function in FUNCTIONS.items() if name in used}

    def run(self, variables: dict[str, Any]) -> Any:
        """Raises CelRuntimeError."""
        try:
            return self._program.execute(cel.Context(variables=variables, functions=self._functions))
        except Exception as error:
            raise CelRuntimeError(_error_text(error)) from error


def _error_text(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0] if error.args else ''}"
    if isinstance(error, ZeroDivisionError):
        return (
            "modulus by zero"
            if "modul" in str(error).lower() or "remainder" in str(error).lower()
            else "division by zero"
        )
    for kind, text in _ERRORS.items():
        if isinstance(error, kind):
            return text
    match = _FUNCTION_ERROR.match(str(error))
    text = match[1] if match else str(error)
    return (
        NO_OVERLOAD
        if text.startswith(("Undefined variable or function", "'")) or "unsupported operand" in text
        else text
    )


def optional_of(value: Any) -> cel.OptionalValue:
    """oldSelf of a rule with optionalOldSelf."""
    return cel.OptionalValue.none() if value is None else cel.OptionalValue.of(value)
