"""CEL as admission policies use it: a small evaluator, so that a policy is judged within milliseconds. The real API
server judges the same tables (tests/e2e/control_plane/test_tenancy.py), and so this evaluator.

It knows what the policies of this repository need and raises for anything else. Types are those of JSON; an object with
methods (`authorizer`) is a Python object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

_TOKEN = re.compile(
    r"""\s+|(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?P<number>\d+)|(?P<name>[a-zA-Z_]\w*)"""
    r"""|(?P<sign>\.\?|\[\?|&&|\|\||==|!=|<=|>=|[-+!<>?:.,()\[\]{}])"""
)
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"))
_MACROS = frozenset({"all", "exists", "map", "filter"})
Names = Mapping[str, Any]
Part = Callable[[Names], Any]


class CelError(Exception):
    """An expression that cannot be evaluated: no such key, no such method."""


@dataclass(frozen=True)
class Optional:
    """What `.?` and `[?` give."""

    value: Any = None
    there: bool = False


@cache
def compiled(text: str) -> Part:
    """Raises ValueError for what is no expression, or one of a kind that is not known here."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise ValueError(f"{text[place:]!r} begins with no word of CEL")
            place = match.end()
            if match.lastgroup:
                self._tokens.append((match.lastgroup, match[0]))
        self._at = 0
        self._last: tuple[Part, str] = (lambda _: {}, "")
        """The field that was selected last, for `has`."""

    def whole(self) -> Part:
        found = self._expression()
        if self._next():
            raise ValueError(f"{self._next()!r} is one too many")
        return found

    def _next(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        """The next token if it is one of these, else ''."""
        found = self._next()
        if found not in wanted or self._tokens[self._at][0] == "string":
            return ""
        self._at += 1
        return found

    def _need(self, sign: str) -> None:
        if not self._take(sign):
            raise ValueError(f"{sign!r} is wanted in the place of {self._next()!r}")

    def _name(self) -> str:
        kind, text = self._tokens[self._at]
        if kind != "name":
            raise ValueError(f"a name is wanted in the place of {text!r}")
        self._at += 1
        return text

    def _expression(self) -> Part:
        asked = self._level(0)
        if not self._take("?"):
            return asked
        yes = self._expression()
        self._need(":")
        no = self._expression()
        return lambda names: yes(names) if _bool(asked(names)) else no(names)

    def _level(self, level: int) -> Part:
        if level == len(_LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while sign := self._take(*_LEVELS[level]):
            left = _joined(sign, left, self._level(level + 1))
        return left

    def _unary(self) -> Part:
        if self._take("!"):
            of = self._unary()
            return lambda names: not _bool(of(names))
        return self._member()

    def _member(self) -> Part:
        found = self._primary()
        while sign := self._take(".", ".?", "[", "[?"):
            found = self._called(found) if sign == "." else self._selected(found, sign)
        return found

    def _selected(self, of: Part, sign: str) -> Part:
        if sign == ".?":
            name = self._name()
            return lambda names: _maybe(of(names), name)
        which = self._expression()
        self._need("]")
        return lambda names: (_maybe if sign == "[?" else _item)(of(names), which(names))

    def _called(self, of: Part) -> Part:
        name = self._name()
        if not self._take("("):
            self._last = of, name
            return lambda names: _item(of(names), name)
        if name in _MACROS:
            variable = self._name()
            self._need(",")
            body = self._expression()
            self._need(")")
            return lambda names: _each(name, of(names), lambda item: body({**names, variable: item}))
        arguments = self._list(")")
        return lambda names: _method(of(names), name, [argument(names) for argument in arguments])

    def _list(self, end: str) -> list[Part]:
        found: list[Part] = []
        while not self._take(end):
            found.append(self._expression())
            if not self._take(","):
                self._need(end)
                break
        return found

    def _primary(self) -> Part:
        if self._take("("):
            inner = self._expression()
            self._need(")")
            return inner
        if self._take("["):
            items = self._list("]")
            return lambda names: [item(names) for item in items]
        if self._at >= len(self._tokens):
            raise ValueError("something is wanted at the end")
        kind, text = self._tokens[self._at]
        self._at += 1
        if text == "has" and self._take("("):
            return self._has()
        if kind == "name" and text not in _CONSTANTS:
            return lambda names: _item(names, text)
        value = _value(kind, text)
        return lambda _: value

    def _has(self) -> Part:
        """Check the last field alone: the fields before it must exist."""
        self._member()
        self._need(")")
        base, last = self._last
        return lambda names: last in base(names)


def _value(kind: str, text: str) -> Any:
    if kind == "string":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    if kind == "number":
        return int(text)
    if text not in _CONSTANTS:
        raise ValueError(f"{text!r} is no value")
    return _CONSTANTS[text]


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"no such overload: {value!r} is no bool")
    return value


def _joined(sign: str, left: Part, right: Part) -> Part:
    if sign in ("||", "&&"):
        return lambda names: _logic(left, right, names, decides=sign == "||")
    return lambda names: _operator(sign, left(names), right(names))


def _logic(left: Part, right: Part, names: Names, *, decides: bool) -> bool:
    """An error of one side counts only where the other does not decide."""
    try:
        if _bool(left(names)) is decides:
            return decides
    except CelError:
        if _bool(right(names)) is decides:
            return decides
        raise
    return _bool(right(names))


def _operator(sign: str, left: Any, right: Any) -> Any:
    if sign in ("==", "!="):
        return _equal(left, right) == (sign == "==")
    if sign == "in":
        return any(_equal(left, item) for item in right)
    if type(left) is not type(right):
        raise CelError(f"no such overload: {left!r} {sign} {right!r}")
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[sign]


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _item(of: Any, which: Any) -> Any:
    if isinstance(of, Optional):
        return _maybe(of, which) if of.there else of
    if isinstance(of, Mapping | list):
        try:
            return of[which]
        except (KeyError, IndexError) as error:
            raise CelError(f"no such key: {which}") from error
    raise CelError(f"no such key: {which} of {of!r}")


def _maybe(of: Any, which: Any) -> Optional:
    if isinstance(of, Optional):
        return _maybe(of.value, which) if of.there else of
    if not isinstance(of, Mapping):
        raise CelError(f"no such key: {which} of {of!r}")
    return Optional(of[which], there=True) if which in of else Optional()


def _each(macro: str, items: Any, body: Part) -> Any:
    if not isinstance(items, Mapping | list):
        raise CelError(f"no such overload: {macro} of {items!r}")
    if macro == "map":
        return [body(item) for item in items]
    if macro == "filter":
        return [item for item in items if _bool(body(item))]
    failed: CelError | None = None
    for item in items:  # an item that decides outweighs one that fails
        try:
            if _bool(body(item)) is (macro == "exists"):
                return macro == "exists"
        except CelError as error:
            failed = error
    if failed is not None:
        raise failed
    return macro == "all"


def _method(of: Any, name: str, arguments: list[Any]) -> Any:
    known: Mapping[tuple[type, str], Callable[..., Any]] = {
        (str, "endsWith"): str.endswith,
        (str, "startsWith"): str.startswith,
        (str, "split"): str.split,
        (str, "trim"): str.strip,
        (list, "size"): len,
        (list, "join"): lambda words, between: between.join(words),
        (Optional, "orValue"): lambda optional, instead: optional.value if optional.there else instead,
    }
    if (found := known.get((type(of), name))) is not None:
        return found(of, *arguments)
    if isinstance(of, str | int | list | dict | Optional | None):
        raise CelError(f"no such overload: {name} of {of!r}")
    return getattr(of, name)(*arguments)
