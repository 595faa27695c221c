"""Rules: what the library lacks is given to it, and what it gives is worded as cel-go words it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.schema.cel_program import CelCompileError, CelProgram, CelRuntimeError
from localcluster.schema.cel_values import escape_name, to_cel
from localcluster.schema.node import SchemaNode, build
from localcluster.schema.pattern import PatternError, compile_pattern

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "f": {"type": "number"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "w": {"type": "array", "items": {"type": "string"}},
        "o": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "t": {"type": "string", "format": "date-time"},
        "namespace": {"type": "string"},
        "r": {"type": "array", "items": {"type": "object", "properties": {"package": {"type": "integer"}}}},
        "a-b.c/d": {"type": "string"},
        "__x": {"type": "string"},
    },
}
_SELF: dict[str, Any] = {
    "n": 3,
    "s": "Grüße",
    "f": 2,
    "l": [3, 1, 2],
    "w": ["b", "a"],
    "o": {"a": {"b": 7}},
    "m": {"x": 1},
    "t": "2026-01-02T03:04:05Z",
    "namespace": "ns",
    "r": [{"package": 1}],
    "a-b.c/d": "odd",
    "__x": "y",
    "undeclared": 1,
}


@dataclass(frozen=True)
class Case:
    rule: str
    want: Any = None
    want_error: str = ""
    value: dict[str, Any] = field(default_factory=lambda: _SELF)


CASES: dict[str, Case] = {
    "the size of a string counts characters": Case("size(self.s) + self.s.size()", 10),
    "a boolean becomes a string": Case("string(self.n > 1)", "true"),
    "a string becomes a boolean": Case("bool('true')", True),
    "a number of the schema is a double": Case("string(self.f / 4.0)", "0.5"),
    "sum, min and max": Case("self.l.sum() * 100 + self.l.min() * 10 + self.l.max()", 613),
    "the sum of nothing is zero": Case("self.l.filter(x, x > 9).sum()", 0),
    "the maximum of nothing is an error": Case("self.l.filter(x, x > 9).max()", want_error="max called on empty list"),
    "a function of Kubernetes' own libraries": Case("quantity('1k').isInteger()", want_error="compile"),
    "the optional syntax": Case("self.?n.orValue(0) == 3", want_error="compile"),
    "format": Case("'%d %s %.2f %%'.format([self.n, self.w, 1.5])", "3 [b, a] 1.50 %"),
    "a timestamp": Case("self.t < timestamp('2027-01-01T00:00:00Z') && self.t.getFullYear() == 2026", True),
    "a field with two underscores": Case("self.__underscores__x", "y"),
    "a reserved word behind a dot": Case("self.namespace == 'ns' && has(self.namespace)", True),
    "a reserved word, escaped": Case("self.__namespace__ == 'ns' && has(self.__namespace__)", True),
    "a reserved word of an item": Case("self.r.all(t, has(t.package) && t.package == 1)", True),
    "a reserved word that no schema declares": Case("has(self.loop)", want_error="compile"),
    "names inside strings are left alone": Case("'size(x) .? string(y)' + string(self.n)", "size(x) .? string(y)3"),
    "types that do not go together": Case("self.s > self.n", want_error="no such overload"),
    "an error is absorbed by what decides anyway": Case("self.n == 3 || self.m['q'] == 1", True),
    "an undeclared field does not exist": Case("self.undeclared == 1", want_error="compile"),
    "an undeclared name does not exist": Case("slef.n == 1", want_error="compile"),
    "a variable of a macro does not outlive it": Case("self.l.all(x, x > 0) && x > 0", want_error="compile"),
    "macros nest": Case("self.l.all(x, self.l.exists(y, y >= x))", True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_expression(case: Case) -> None:
    node = build(_SCHEMA)
    if case.want_error == "compile":
        with pytest.raises(CelCompileError, match=r"undefined field|undeclared reference|unsupported syntax"):
            CelProgram(case.rule, node)
        return
    program = CelProgram(case.rule, node)
    variables = {"self": to_cel(case.value, node)}
    for _ in range(2):
        if case.want_error:
            with pytest.raises(CelRuntimeError) as caught:
                program.run(variables)
            assert str(caught.value) == case.want_error
        else:
            assert program.run(variables) == case.want


def test_only_declared_fields_are_visible() -> None:
    assert "undeclared" not in to_cel(_SELF, build(_SCHEMA))
    assert to_cel({"a": 1}, SchemaNode(types=("object",))) == {}


def test_names_are_escaped() -> None:
    assert escape_name("a-b") == "a__dash__b"
    assert escape_name("if") == "__if__"
    assert escape_name("9a") is None
    assert escape_name("ä") is None


PATTERNS: dict[str, tuple[str, str, bool]] = {
    "a dollar is the end of the text": ("^a$", "a\n", False),
    "a dollar in a class is a dollar": ("^[$]$", "$", True),
    "a posix class": ("^[[:digit:][:upper:]]+$", "1A", True),
    "digits are ASCII": (r"^\d$", "٣", False),
    "the absolute end": (r"^a\z", "a", True),
    "a named group": (r"^(?P<x>a)(?<y>b)$", "ab", True),
    "a bracket first in a class": ("^[]a]+$", "]a", True),
    "found anywhere": ("b", "abc", True),
}


@pytest.mark.parametrize(("pattern", "text", "want"), PATTERNS.values(), ids=PATTERNS.keys())
def test_a_pattern_means_what_it_means_in_go(pattern: str, text: str, want: bool) -> None:
    assert bool(compile_pattern(pattern).search(text)) is want


@pytest.mark.parametrize("pattern", ["(?=a)", "(?<!a)b", r"(a)\1"])
def test_what_go_cannot_match_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="error parsing regexp"):
        compile_pattern(pattern)
