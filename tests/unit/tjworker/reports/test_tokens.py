"""Whose a token is, by the review of the API server: each answer that one may give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tjworker.base import GroupResource
from tjworker.reports.tokens import GOOD_SECONDS, MOST_TOKEN_CHARS, Sender, Tokens

POD = {"authentication.kubernetes.io/pod-name": ["p"], "authentication.kubernetes.io/pod-uid": ["u"]}
USER = {"username": "system:serviceaccount:team:default", "extra": POD}
GOOD = {"authenticated": True, "audiences": ["reports"], "user": USER}
ANSWERS: dict[str, tuple[dict[str, Any], Sender | None]] = {
    "a pod's token": (GOOD, Sender("team", "p", "u")),
    "one that is not authenticated": ({**GOOD, "authenticated": False}, None),
    "one for another audience": ({**GOOD, "audiences": ["other"]}, None),
    "one of an authenticator that knows no audiences: it is meant for the API server": (
        {"authenticated": True, "user": USER},
        None,
    ),
    "one that is bound to no pod": ({**GOOD, "user": {"username": USER["username"]}}, None),
    "a person's": ({**GOOD, "user": {"username": "ada", "extra": POD}}, None),
}


class Api:
    def __init__(self, status: dict[str, Any]) -> None:
        self.status, self.asked = status, 0

    def create(self, resource: GroupResource, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        assert (resource, namespace) == ("tokenreviews.authentication.k8s.io", "")
        assert body["spec"]["audiences"] == ["reports"]
        self.asked += 1
        return {"status": self.status}


@pytest.mark.parametrize("sentence", ANSWERS)
def test_whose_a_token_is(sentence: str) -> None:
    status, want = ANSWERS[sentence]
    tokens = Tokens(Api(status), lambda: 0.0)  # type: ignore[arg-type]
    assert tokens.sender("t", "reports") == want


def test_a_good_token_is_reviewed_once_a_minute_and_a_bad_one_each_time() -> None:
    now = [0.0]
    for status, want in ((GOOD, [1, 1, 2]), ({}, [1, 2, 3])):
        api = Api(status)
        tokens, found = Tokens(api, lambda: now[0]), []  # type: ignore[arg-type]
        for now[0] in (0.0, GOOD_SECONDS - 1, GOOD_SECONDS):
            tokens.sender("t", "reports")
            found.append(api.asked)
        assert found == want


@pytest.mark.parametrize("token", ["", "ä", "t" * (MOST_TOKEN_CHARS + 1)])
def test_what_can_be_no_token_costs_no_review(token: str) -> None:
    api = Api(GOOD)
    assert Tokens(api, lambda: 0.0).sender(token, "reports") is None  # type: ignore[arg-type]
    assert not api.asked


def test_a_token_that_is_good_for_one_job_is_good_for_no_other_a_moment_later() -> None:
    class ByAudience:
        def create(self, resource: GroupResource, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
            return {"status": GOOD if body["spec"]["audiences"] == ["reports"] else {"authenticated": False}}

    tokens = Tokens(ByAudience(), lambda: 0.0)  # type: ignore[arg-type]
    assert tokens.sender("t", "reports") == Sender("team", "p", "u")
    assert tokens.sender("t", "reports of another job") is None
