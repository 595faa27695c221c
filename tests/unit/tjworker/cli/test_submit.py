"""`tj submit --wait`: what it says of jobs as they go on, and with which code it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.kinds import AITRAININGJOBS
from tjworker.base import JsonDict
from tjworker.cli import informer
from tjworker.cli.errors import EXIT_INTERRUPTED
from tjworker.cli.jobs import FoundJob
from tjworker.cli.submit import follow

GONE = "DELETED"


def seen(name: str, phase: str, uid: str = "") -> JsonDict:
    raw = make_job(name).manifest()
    return raw | {
        "metadata": raw["metadata"] | {"namespace": "default", "uid": uid or f"uid-of-{name}"},
        "status": {"phase": phase} if phase else {},
    }


@dataclass(frozen=True)
class Case:
    """Of the jobs a and b. `history`: (name, phase), or (name, GONE) when its object is deleted."""

    history: tuple[tuple[str, str], ...]
    want_code: int
    want_lines: tuple[str, ...] = ()


BOTH = ("a: Succeed", "b: Succeed")
CASES = {
    "both succeed": Case((("a", "Running"), ("a", "Succeed"), ("b", "Succeed")), 0, ("a: Running", *BOTH)),
    "one fails": Case((("a", "Failed"), ("b", "Succeed")), 1, ("a: Failed", "b: Succeed")),
    "each other end is none of success": Case(
        (("a", "Succeed"), ("b", "Preempted")), 1, ("a: Succeed", "b: Preempted")
    ),
    "what has succeeded has, also when its TTL takes it before the other has ended": Case(
        (("a", "Succeed"), ("a", GONE), ("b", "Succeed")), 0, BOTH
    ),
    "one that is deleted before its end has not succeeded": Case(
        (("a", "Running"), ("a", GONE), ("b", "Succeed")), 1, ("a: Running", "a: deleted", "b: Succeed")
    ),
    "a job of that name from before or after, and any other, is another": Case(
        (("a/old", "Failed"), ("a", "Succeed"), ("c", "Failed"), ("b", "Succeed")), 0, BOTH
    ),
}


def telling(history: tuple[tuple[str, str], ...]) -> Any:
    """In the place of an informer: it tells all of this as it begins."""

    class Told:
        def __init__(self, *_where: Any, on_change: Callable[[str, JsonDict], None], **_more: Any) -> None:
            for who, phase in history:
                name, _, uid = who.partition("/")
                gone = phase == GONE
                on_change(GONE if gone else "MODIFIED", seen(name, "" if gone else phase, uid))

        def __enter__(self) -> Told:
            return self

        def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
            pass

    return Told


def test_ctrl_c_ends_the_command_and_says_how_to_come_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_where: Any, **_more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(informer, "Informer", stopped)
    cluster: Any = SimpleNamespace(api=None)
    for names, says in (
        ("a", "a goes on in the cluster; `tj logs a -f` shows its output again, `tj delete a` ends it"),
        ("ab", "a b go on in the cluster; `tj get` shows how far they are, `tj delete a b` ends them"),
    ):
        jobs = [FoundJob(AITRAININGJOBS, seen(name, "")) for name in names]
        assert follow(cluster, jobs) == EXIT_INTERRUPTED
        assert capsys.readouterr().err.strip() == says


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_it_waits_for_the_end_of_each(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(informer, "Informer", telling(case.history))

    class Nowhere:
        api = None

    jobs = [FoundJob(AITRAININGJOBS, seen(name, "")) for name in ("a", "b")]
    assert follow(Nowhere(), jobs) == case.want_code  # type: ignore[arg-type]
    assert tuple(capsys.readouterr().out.splitlines()) == case.want_lines
