"""Which containers of a pod say why and when it failed: every combination of what three of them do, against the rules
said once more."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from tests.support.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import NOW_TEXT
from tjworker.api.observed import ContainerRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.failures import diagnose, ended_at

DOES: dict[str, tuple[str, int | None, str]] = {
    "waits": ("waiting", None, ""),
    "runs": ("running", None, ""),
    "ended well": ("terminated", 0, "2026-01-01T00:10:00Z"),
    "failed early": ("terminated", 2, "2026-01-01T00:08:00Z"),
    "failed late": ("terminated", 3, "2026-01-01T00:20:00Z"),
    "failed, and nobody says when": ("terminated", 4, ""),
}
"""(state, exit code, when it ended)"""
NAMES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "two of ours and another": (("aitj-a", "sidecar", "aitj-b"), ("aitj-a", "aitj-b")),
    "none of ours: the first": (("main", "sidecar", "logs"), ("main",)),
}
"""(names, those that count)"""


def _containers(names: Sequence[str], does: Sequence[str], init: str) -> tuple[ContainerRecord, ...]:
    def made(name: str, what: str, *, init: bool = False) -> ContainerRecord:
        state, code, at = DOES[what]
        return ContainerRecord(name, state=state, exit_code=code, finished_at=at, init=init, reason=what)  # type: ignore[arg-type]

    mains = [made(name, what) for name, what in zip(names, does, strict=True)]
    return (made("aitj-fetch", init, init=True), *mains)


@pytest.mark.parametrize("init", ["ended well", "failed late"])
@pytest.mark.parametrize(("names", "count"), NAMES.values(), ids=NAMES.keys())
def test_whose_exit_codes_and_times_count(names: tuple[str, ...], count: tuple[str, ...], init: str) -> None:
    for does in product(DOES, repeat=3):
        containers = _containers(names, does, init)
        by_name = {c.name: c for c in containers}
        chosen = [by_name[name] for name in count]
        if init == "failed late" and not any(c.state == "terminated" for c in chosen):
            chosen = [by_name["aitj-fetch"]]  # its init containers count where none of those ever ended
        pod = make_pod(make_job().role("trainer").build(), "trainer").failed().but(containers=containers).build()
        told = diagnose(pod, NOW_TEXT)
        bad = [c for c in chosen if c.exit_code]
        assert told.exit_codes == {c.exit_code for c in bad}, does
        times = [c.finished_at for c in chosen if c.finished_at]
        assert ended_at(pod) == (from_rfc3339(max(times)) if times else None), does
        # The first of them that ended; one without a time comes last. Where none of them failed, another has.
        blamed = bad or [c for c in containers if c.state == "terminated" and c.exit_code]
        first = sorted(blamed, key=lambda c: (not c.finished_at, c.finished_at, c.name))[:1]
        want = [(c.name, c.exit_code, c.finished_at or NOW_TEXT) for c in first] or [("", None, NOW_TEXT)]
        assert [(told.failure.container, told.failure.exit_code, told.failure.time)] == want, does
