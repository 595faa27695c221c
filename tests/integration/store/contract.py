"""The contract of the store, one table a promise, on the memory store and on a real Redis.

A case is a list of calls, run in order, and the list of their answers. `None` answers (time passes, a call that gives
nothing) stand in the list like all others, so that each answer stands beside its call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.integration.store.driver import Drive
from tests.integration.store.worlds import World


@dataclass(frozen=True, slots=True)
class Case:
    do: Callable[[Drive], list[Any]]
    want: list[Any]
    lead: bool = True


def named(**tables: Mapping[str, Case]) -> dict[str, Case]:
    """`<table>: <sentence>` -> case."""
    return {f"{table}: {sentence}": case for table, cases in tables.items() for sentence, case in cases.items()}


def play(case: Case, world: World) -> None:
    assert case.do(Drive(world, lead=case.lead)) == case.want
