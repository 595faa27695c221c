"""The samples of rows 1 and 7 together leave no write out; `make test` and `make test-long` play each second run of
them."""

from __future__ import annotations

from tests.simulation.faults import api_crashes, paused_holders

LIVES = range(1, 40)
"""So many writes in a life."""


def played(writes: int) -> tuple[list[str], list[str]]:
    every = range(writes)
    crashes = api_crashes.in_turn([f"{number}-{way}" for number in every for way in api_crashes.WAYS])
    pauses = paused_holders.in_turn([f"{number}-{way}" for number in every for way in paused_holders.WAYS])
    return list(crashes), list(pauses)


def test_each_write_of_a_life_is_disturbed_once_by_the_one_row_or_by_the_other() -> None:
    for writes in LIVES:
        crashes, pauses = played(writes)
        numbers = [point.partition("-")[0] for point in (*crashes, *pauses)]
        assert sorted(numbers, key=int) == [str(number) for number in range(writes)]
        assert {point.partition("-")[2] for point in pauses} <= {"before"}
        assert {point.partition("-")[2] for point in crashes} <= {"no-reply", "after"}


def test_lives_that_begin_alike_are_disturbed_in_every_way_at_the_same_write() -> None:
    points = [point for writes in (20, 21, 22) for rows in played(writes) for point in rows]
    for number in range(10):
        ways = {way for point in points for at, _, way in [point.partition("-")] if at == str(number)}
        assert ways == {"before", "no-reply", "after"}
