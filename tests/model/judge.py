"""What the model says of a whole history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.model.chronicle import Chronicle
from tests.model.reader import lives
from tests.model.rules import RULES

TOLD = 3
"""Of one rule and one life."""


@dataclass(frozen=True)
class Judgement:
    wrong: tuple[str, ...]
    """Empty: all of it is allowed."""
    reached: Counter[str] = field(default_factory=Counter)
    """Rule -> how many cases of it there were."""
    broken: Counter[str] = field(default_factory=Counter)
    """Rule -> in how many cases it was broken."""


def judge(chronicle: Chronicle, until: float, late_seconds: float = 0.0) -> Judgement:
    """`until`: when the history ends; what would be due later is not asked for. `late_seconds`: by so much more than
    usual may be late what is due."""
    wrong: list[str] = []
    reached: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for life in lives(chronicle, until, late_seconds):
        for sentence, rule in RULES.items():
            said = list(rule(life))
            found = [one for one in said if one]
            reached[sentence] += len(said)
            broken[sentence] += len(found)
            wrong += [f"{sentence}: {one}" for one in found[:TOLD]]
    return Judgement(tuple(wrong), reached, broken)
