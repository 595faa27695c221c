"""What people apply, and what the API server says to it, word for word: a table for each kind.

The answers stand in `<plural>.json` under the case's sentence, recorded from kube-apiserver v1.36.3; a case that is not
there is accepted. Data only: `test_refusals` holds the parser and the local cluster's schema to it,
`tests/contract/test_crd` a whole cluster, local or real.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.unit.tjworker.api.refusals import aitrainingjob, trainingjob
from tests.unit.tjworker.api.refusals.case import Json, Refusal

__all__ = ["ALL", "TABLES", "Json", "Refusal", "Table"]


@dataclass(frozen=True)
class Table:
    cases: Mapping[str, Refusal]
    answers: Mapping[str, list[str]]
    """`<field>: <message>` of every cause, sorted."""

    def want_says(self, sentence: str) -> list[str]:
        """Empty when it is accepted."""
        return self.answers.get(sentence, [])


def _table(plural: str, cases: Mapping[str, Refusal]) -> Table:
    return Table(cases, json.loads(Path(__file__).with_name(f"{plural}.json").read_text(encoding="utf-8")))


TABLES: Mapping[str, Table] = {
    "aitrainingjobs": _table("aitrainingjobs", aitrainingjob.CASES),
    "trainingjobs": _table("trainingjobs", trainingjob.CASES),
}
"""By the plural of the kind."""
ALL = [(plural, sentence) for plural, table in TABLES.items() for sentence in table.cases]
"""Every line: for a test's parameters."""
