"""One object's error costs that object alone; an API server that is away ends the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog

from tjworker.base import Conflict, Invalid, Terminal, Transient
from tjworker.controllers.isolation import UNANSWERED_IN_A_ROW, Isolation

Errors = list[Exception | None]


def run(isolation: Isolation, errors: Errors) -> list[int]:
    """The items that were done; each raises its error."""
    isolation.begin()
    done = []
    for number, error in enumerate(errors):
        with isolation.item("write", f"item-{number}"):
            if error is not None:
                raise error
            done.append(number)
    return done


ISOLATED: dict[str, Callable[[], Exception]] = {
    "a refusal": lambda: Terminal("denied", status=403),
    "a conflict": lambda: Conflict("changed", status=409),
    "an object that is invalid": lambda: Invalid("no", status=422),
    "one request without an answer": lambda: Transient("timed out"),
    "a record that cannot be read": lambda: KeyError("metadata"),
}


@pytest.mark.parametrize("error", ISOLATED.values(), ids=ISOLATED.keys())
def test_an_error_costs_its_object_alone(error: Callable[[], Exception]) -> None:
    isolation = Isolation(structlog.get_logger())
    assert run(isolation, [None, error(), None]) == [0, 2]
    assert isolation.failed == 1


def test_an_api_server_that_is_away_is_not_asked_for_every_object() -> None:
    isolation = Isolation(structlog.get_logger())
    away: Errors = [Transient("connection refused") for _ in range(UNANSWERED_IN_A_ROW)]
    with pytest.raises(Transient):
        run(isolation, away)
    # With an answer in between, it is there.
    assert run(isolation, [*away[1:], None, *away[1:], Transient("busy", status=500), *away[1:]]) == [2]


def test_an_error_that_stays_is_logged_once_and_counted_in_every_run() -> None:
    isolation = Isolation(structlog.get_logger())
    with structlog.testing.capture_logs() as logs:
        for errors in ([Terminal("no")], [Terminal("no")], [None], [Terminal("no")]):
            run(isolation, errors)  # type: ignore[arg-type]
    assert [(line["event"], line["error"]) for line in logs] == [("cannot write item-0", "no")] * 2
    assert isolation.failed == 1
