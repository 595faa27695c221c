"""What people apply, and what the API server says to it, word for word: a table for each kind.

The answers stand in `<resource>.json` under the case's sentence, recorded from kube-apiserver v1.36.3; a case that
is not there is accepted. `{RestartPolicy}` in an answer stands for the names of all restart policies.
`test_refusals` holds the parser and the local cluster's schema to it, `tests/integration/test_crd` a whole cluster,
local or real.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tests.support.kinds import AITRAININGJOBS, TRAININGJOBS
from tests.unit.tjworker.api.refusals import aitrainingjob, trainingjob
from tests.unit.tjworker.api.refusals.case import Json, Refusal
from tjworker.api.model import RestartPolicy
from tjworker.base import GroupResource

__all__ = ["ALL", "TABLES", "Json", "Refusal", "Table", "abridged"]
_PLACE = "{RestartPolicy}"
_POLICIES = ", ".join(f'"{policy}"' for policy in get_args(RestartPolicy))


@dataclass(frozen=True)
class Table:
    cases: Mapping[str, Refusal]
    answers: Mapping[str, list[str]]
    """`<field>: <message>` of every cause, sorted."""

    def want_says(self, sentence: str) -> list[str]:
        """Empty when it is accepted."""
        return self.answers.get(sentence, [])


def abridged(answers: Sequence[str]) -> list[str]:
    """As the file keeps them: a new policy then changes no recorded answer."""
    return [answer.replace(_POLICIES, _PLACE) for answer in answers]


def _table(resource: GroupResource, cases: Mapping[str, Refusal]) -> Table:
    recorded = json.loads(Path(__file__).with_name(f"{resource}.json").read_text(encoding="utf-8"))
    answers = {sentence: [a.replace(_PLACE, _POLICIES) for a in said] for sentence, said in recorded.items()}
    return Table(cases, answers)


TABLES: Mapping[GroupResource, Table] = {
    AITRAININGJOBS: _table(AITRAININGJOBS, aitrainingjob.CASES),
    TRAININGJOBS: _table(TRAININGJOBS, trainingjob.CASES),
}
"""By the resource of the kind."""
ALL = [(resource, sentence) for resource, table in TABLES.items() for sentence in table.cases]
"""Every line: for a test's parameters."""
