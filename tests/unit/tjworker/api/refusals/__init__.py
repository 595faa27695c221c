"""What people apply, and what the API server says to it, word for word: a table for each kind.

The answers stand in `<resource>.json` under the case's sentence, recorded from kube-apiserver v1.36.3; a case that
is not there is accepted. `{RestartPolicy}` in an answer is the list of all restart policies, `{FrameworkType}` that of
all frameworks: a new one changes no recorded answer.
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
from tjworker.api.model import FrameworkType, RestartPolicy
from tjworker.base import GroupResource

__all__ = ["ALL", "TABLES", "Json", "Refusal", "Table", "abridged"]
_LISTS = {
    "{RestartPolicy}": ", ".join(f'"{policy}"' for policy in get_args(RestartPolicy)),
    "{FrameworkType}": ", ".join(f'"{framework}"' for framework in get_args(FrameworkType)),
}


@dataclass(frozen=True)
class Table:
    cases: Mapping[str, Refusal]
    answers: Mapping[str, list[str]]
    """`<field>: <message>` of every cause, sorted."""

    def want_says(self, sentence: str) -> list[str]:
        """Empty when it is accepted."""
        return self.answers.get(sentence, [])


def abridged(answers: Sequence[str]) -> list[str]:
    """The answers as the file keeps them, with a name in the place of each list."""
    for place, names in _LISTS.items():
        answers = [answer.replace(names, place) for answer in answers]
    return list(answers)


def _in_full(answer: str) -> str:
    for place, names in _LISTS.items():
        answer = answer.replace(place, names)
    return answer


def _table(resource: GroupResource, cases: Mapping[str, Refusal]) -> Table:
    recorded = json.loads(Path(__file__).with_name(f"{resource}.json").read_text(encoding="utf-8"))
    answers = {sentence: [_in_full(answer) for answer in said] for sentence, said in recorded.items()}
    return Table(cases, answers)


TABLES: Mapping[GroupResource, Table] = {
    AITRAININGJOBS: _table(AITRAININGJOBS, aitrainingjob.CASES),
    TRAININGJOBS: _table(TRAININGJOBS, trainingjob.CASES),
}
"""By the resource of the kind."""
ALL = [(resource, sentence) for resource, table in TABLES.items() for sentence in table.cases]
"""Every line: for a test's parameters."""
