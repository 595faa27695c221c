"""Places for streams: bounded in all and for each viewer."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tjworker.page.places import NoPlace, StreamPlaces

TAKEN: dict[str, tuple[list[str], str, str]] = {
    "the viewer has fewer than one viewer may have": (["ada"], "ada", "a place"),
    "the viewer has as many as one viewer may have": (["ada", "ada"], "ada", "none of its own"),
    "another viewer has as many as one viewer may have": (["ada", "ada"], "bob", "a place"),
    "all are taken": (["ada", "ada", "bob"], "cleo", "none"),
    "all are taken, and the viewer has its share": (["ada", "ada", "bob"], "ada", "none of its own"),
    "viewers are not told apart": (["", ""], "", "a place"),
}
"""Of three places, two for each viewer: who has them, who asks, and what comes of it."""


@pytest.mark.parametrize("sentence", TAKEN)
def test_who_gets_a_place(sentence: str) -> None:
    holders, viewer, want = TAKEN[sentence]
    places, held = StreamPlaces(most=3, each=2), ExitStack()
    with held:
        for holder in holders:
            held.enter_context(places.take(holder))
        try:
            with places.take(viewer):
                found = "a place"
        except NoPlace as error:
            found = "none of its own" if error.own else "none"
        assert (found, len(places)) == (want, len(holders)), "a refusal and a place that was given back take none"
    assert len(places) == 0
    assert not places._taken, "nothing is remembered of viewers who have gone"
    with places.take(viewer):
        pass
