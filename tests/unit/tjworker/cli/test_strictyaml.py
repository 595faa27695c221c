"""Table: texts that kubectl refuses, and what their author is told: the line, and what to do there."""

from __future__ import annotations

import pytest

from tjworker.cli.strictyaml import NotYaml, read_documents

REFUSED: dict[str, tuple[str, str]] = {
    "a key twice": ("a: 1\nb: 2\na: 3\n", "line 3: a is there already, in line 1; remove one of them"),
    "a key twice deep in a list": ("a:\n- b: 1\n- c: 1\n  d: 2\n  c: 3\n", "line 5: c is there already, in line 3"),
    "a key twice, once in quotes": ('a: 1\n"a": 2\n', "line 2: a is there already, in line 1"),
    "a key twice in the second document": ("a: 1\n---\na: 1\na: 2\n", "line 4: a is there already, in line 3"),
    "a tab before a key": ("a: 1\nb:\n\tc: 2\n", "line 3 begins with a tab: YAML indents with spaces"),
    "a bracket that is not closed": ("a: [1\nb: 2\n", "line 2, column 2: did not find expected ',' or ']'"),
    "two colons": ("a: b: c\n", "line 1, column 5: mapping values are not allowed in this context"),
    "an alias of itself": ("a: 1\nb: &b\n- *b\n", "line 2: what begins here contains an alias of itself"),
    "aliases of aliases": (
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)),
        "line 6: what begins here has more than 200000 values once its aliases (*name) are written out",
    ),
    "brackets inside each other, more than the reader's stack holds": (
        "a: 1\nb: " + "[" * 200_000 + "]" * 200_000,
        "line 2: more than 100 mappings and lists inside each other; use fewer levels",
    ),
    "a list as a key": ("a: {[1]: 2}\n", "line 1, column 5: found unhashable key"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=list(REFUSED))
def test_the_line_is_named(text: str, says: str) -> None:
    with pytest.raises(NotYaml) as refused:
        read_documents(text)
    assert says in str(refused.value)
    assert "<unicode string>" not in str(refused.value)


def _nested(lists: int) -> list[object]:
    return [] if lists == 1 else [_nested(lists - 1)]


READ: dict[str, tuple[str, list[object]]] = {
    "the same key in two objects": ("- a: 1\n- a: 2\n", [[{"a": 1}, {"a": 2}]]),
    "a merge, and a key of it anew": (
        "x: &x {b: 1, c: 2}\ny:\n  <<: *x\n  b: 3\n",
        [{"x": {"b": 1, "c": 2}, "y": {"b": 3, "c": 2}}],
    ),
    "an alias many times": (
        "x: &x {b: 1}\ny: [" + ", ".join(["*x"] * 1_000) + "]\n",
        [{"x": {"b": 1}, "y": [{"b": 1}] * 1_000}],
    ),
    "as many lists inside each other as may be": ("[" * 100 + "]" * 100, [_nested(100)]),
    "a tab in a block of a script": ("a: |\n  x\n  \ty\n", [{"a": "x\n\ty\n"}]),
}


@pytest.mark.parametrize(("text", "documents"), READ.values(), ids=list(READ))
def test_what_kubectl_reads_is_read(text: str, documents: list[object]) -> None:
    assert [document for _, document in read_documents(text)] == documents


def test_each_document_has_its_line() -> None:
    text = "# a job\nkind: A\n---\n---\n\nkind: B\n"
    assert read_documents(text) == [(2, {"kind": "A"}), (6, {"kind": "B"})]
