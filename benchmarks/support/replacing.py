"""Replaces a function of the product by another, for instance by one that times it.

Functions are named as objects: one that is renamed is an error of mypy's, and one that its caller uses no more is an
error at once. Named as text, two rows of a table were empty unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Function = Callable[..., Any]


def replace(owner: Any, function: Function, by: Function) -> None:
    """Put `by` into the place of `function` in `owner`: its class, or the module that imports and calls it. Raises
    LookupError if `owner` has no such function."""
    check(owner, function)
    setattr(owner, function.__name__, by)


def check(owner: Any, function: Function) -> None:
    """Raises LookupError if `owner` has no such function, or another one of its name."""
    name = function.__name__
    if getattr(owner, name, None) is not function:
        raise LookupError(f"{owner.__name__} does not call {function.__module__}.{name} any more: which module does?")


def replace_constant(module: Any, name: str, by: object) -> None:
    """Raises LookupError if the module has no such constant."""
    if not hasattr(module, name):
        raise LookupError(f"{module.__name__} has no {name} any more")
    setattr(module, name, by)


@contextmanager
def replaced(owner: Any, function: Function, by: Function) -> Iterator[None]:
    """The same, until the context ends."""
    replace(owner, function, by)
    try:
        yield
    finally:
        setattr(owner, function.__name__, function)
