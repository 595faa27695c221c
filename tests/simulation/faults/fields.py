"""Row 13. Every field of every kind, and of three of other operators' (`edits.GUESTS`): set, changed, unset, smallest,
largest, empty, wrong. It is refused with a reason, or the edited job's world is that of a fresh job with that spec.

Runs come from the CRDs' schemas. `<field>/base-4` edits a job from the base manifest to the field's value number 4,
`<field>/2-0` from value 2 to unset.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tests.simulation.edits import AS_APPLIED, BASES, GUESTS, all_fields, differences, edited, fresh, with_value
from tests.simulation.fault import Row, Verdict
from tjworker.api.kinds import KINDS
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.base import GroupResource


def runs(of: Container[GroupResource] = BASES) -> Sequence[str]:
    found = []
    for name, field in all_fields().items():
        if field.resource not in of:
            continue
        last = len(field.values)
        found += [f"{name}/base-{new}" for new in range(last)]
        found += [f"{name}/{old}-{old + 1}" for old in range(1, last - 1)]
        found += [f"{name}/{old}-0" for old in (1, 2) if old < last]
    return found


def play(run: str) -> Verdict:
    name, _, change = run.rpartition("/")
    old, _, new = change.partition("-")
    mine = edited(name, None if old == "base" else int(old), int(new))
    want = fresh(name, int(new))
    told = (
        f"{name} = {all_fields()[name].values[int(new)]!r:.80}: edited {_said(mine.refused)}, fresh"
        f" {_said(want.refused)}"
    )
    before = None if old == "base" else fresh(name, int(old))
    wrong = differences(mine, want, before) if not mine.refused and not want.refused else []
    # Rules that compare with what was refuse an edit to what a new job may be ("cannot change", docs/lifecycle.md).
    by_rule = mine.refused.startswith(AS_APPLIED) or "cannot" in mine.refused or "keeps the version" in mine.refused
    # An owner that is there keeps its template, so an API server that would refuse the new one is not asked.
    by_rule = by_rule or want.refused.startswith(tuple(f"create {resource} " for resource in (REPLICASETS, BATCH_JOBS)))
    if bool(mine.refused) != bool(want.refused) and not by_rule:
        wrong = [told]
    return Verdict(tuple(wrong), trace=f"{told}\n{with_value(name, int(new))}")


def _said(refusal: str) -> str:
    return f"refused ({refusal})" if refusal else "accepted"


ROW = Row(
    13,
    "every field set, changed, unset, smallest, largest, empty, wrong",
    runs,
    {"fields": lambda: runs(KINDS)[90::400], "fields of guests": lambda: runs(GUESTS)[90::400]},
    play,
)
