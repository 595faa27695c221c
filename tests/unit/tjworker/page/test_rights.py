"""What a viewer may see: the questions to the API server, what is remembered of its answers, and how errors read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from kubernetes.client import Configuration

from tjworker.api.resources import NODES
from tjworker.base import GroupResource, OperatorError, Terminal, Transient
from tjworker.kube.port import HttpResponse
from tjworker.page import access
from tjworker.page.access import GOOD_SECONDS, REVIEWS, NotAllowed, Viewer, Viewers, readable_error

AITJ, PYTORCH = GroupResource("aitrainingjobs.elasticdeeplearning.ai"), GroupResource("pytorchjobs.kubeflow.org")


@dataclass
class Api:
    """Answers reviews: `may` has (resource, namespace); '' for all namespaces."""

    may: set[tuple[str, str]] = field(default_factory=set)
    status: int = 201
    asked: list[tuple[str, str]] = field(default_factory=list)
    last: Any = None

    def request(self, method: str, path: str, **options: Any) -> HttpResponse:
        assert (method, path, options["timeout_seconds"]) == ("POST", REVIEWS, access.REQUEST_SECONDS)
        self.last = orjson.loads(options["body"])
        attributes = self.last["spec"]["resourceAttributes"]
        place = attributes["resource"], attributes["namespace"]
        self.asked.append(place)
        return HttpResponse(self.status, orjson.dumps({"status": {"allowed": place in self.may}}))


def viewer(api: Api, now: list[float]) -> Viewer:
    return Viewer(api, None, lambda: now[0])  # type: ignore[arg-type]


def test_a_right_is_asked_for_with_verb_group_resource_and_namespace() -> None:
    api = Api({("aitrainingjobs", "team-a")})
    one = viewer(api, [0.0])
    assert one.may("list", AITJ, "team-a") is True
    assert api.last == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "verb": "list",
                "group": "elasticdeeplearning.ai",
                "resource": "aitrainingjobs",
                "namespace": "team-a",
            }
        },
    }
    assert one.may("list", NODES) is False


def test_each_answer_is_remembered_for_its_own_right_and_time() -> None:
    api, now = Api({("aitrainingjobs", "team-a")}), [0.0]
    one = viewer(api, now)
    rights = [("list", AITJ, "team-a"), ("list", AITJ, "team-b"), ("get", AITJ, "team-a"), ("list", PYTORCH, "team-a")]
    want = [True, False, True, False]
    assert [one.may(*right) for right in rights] == want
    now[0] = GOOD_SECONDS - 1
    assert [one.may(*right) for right in rights] == want
    assert len(api.asked) == len(rights)
    api.may.clear()
    now[0] = GOOD_SECONDS
    assert not any(one.may(*right) for right in rights)
    assert len(api.asked) == 2 * len(rights)
    now[0] += GOOD_SECONDS - 1
    assert not one.may(*rights[0])
    assert len(api.asked) == 2 * len(rights), "from the last answer on"


def test_a_viewer_who_asks_for_many_namespaces_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_RIGHTS", 3)
    one = viewer(Api({("aitrainingjobs", "n7")}), [0.0])
    assert [one.may("list", AITJ, f"n{number}") for number in range(9)] == [number == 7 for number in range(9)]
    assert len(one._rights) == 3


ANSWERS = {200: None, 201: None, 299: None, 300: OperatorError, 401: NotAllowed, 403: Terminal, 503: Transient}


@pytest.mark.parametrize("status", ANSWERS)
def test_an_answer_that_is_none_is_an_error_and_is_not_remembered(status: int) -> None:
    api = Api({("aitrainingjobs", "team-a")}, status)
    one, error = viewer(api, [0.0]), ANSWERS[status]
    if error is None:
        assert one.may("list", AITJ, "team-a")
        return
    with pytest.raises(error):
        one.may("list", AITJ, "team-a")
    api.status = 201
    assert one.may("list", AITJ, "team-a")


PLACES = [(AITJ, "a"), (AITJ, "b"), (AITJ, "c"), (PYTORCH, "a"), (PYTORCH, "b")]
LISTABLE: dict[str, tuple[set[tuple[str, str]], str, set[tuple[GroupResource, str]], int]] = {
    "all of one kind, nothing of the other": ({("aitrainingjobs", "")}, "", {(AITJ, "a"), (AITJ, "b"), (AITJ, "c")}, 0),
    "all of one kind, a namespace of the other": (
        {("aitrainingjobs", ""), ("pytorchjobs", "b")},
        "",
        {(AITJ, "a"), (AITJ, "b"), (AITJ, "c"), (PYTORCH, "b")},
        0,
    ),
    "each namespace, of which two are checked": (
        {(kind.partition(".")[0], namespace) for kind, namespace in PLACES},
        "",
        {(AITJ, "a"), (AITJ, "b")},
        3,
    ),
    "each namespace, the chosen one first": (
        {(kind.partition(".")[0], namespace) for kind, namespace in PLACES},
        "b",
        {(AITJ, "b"), (PYTORCH, "b")},
        3,
    ),
}


@pytest.mark.parametrize("sentence", LISTABLE)
def test_where_a_viewer_may_list(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    may, chosen, want, unchecked = LISTABLE[sentence]
    monkeypatch.setattr(access, "MOST_NAMESPACES", 2)
    with ThreadPoolExecutor(2) as threads:
        found = viewer(Api(may), [0.0]).listable(PLACES, threads, chosen)
    assert found == (frozenset(want), unchecked)


def test_a_viewer_talks_to_the_cluster_of_the_page_with_no_credential_but_its_token() -> None:
    own = Configuration()
    own.host, own.ssl_ca_cert, own.verify_ssl = "https://api:6443", "/ca.crt", False
    own.proxy, own.no_proxy = "http://proxy:3128", "local"
    own.api_key, own.cert_file, own.key_file = {"authorization": "Bearer own"}, "/own.crt", "/own.key"
    own.username, own.password = "own", "secret"
    made: list[Configuration] = []

    def connect(given: Configuration) -> Any:
        made.append(given)
        return Api()

    viewers = Viewers(own, own=False, connect=connect, now=lambda: 0.0)
    assert viewers.viewer("bearer  ada ") is viewers.viewer("Bearer ada")
    [given] = made
    assert (given.host, given.ssl_ca_cert, given.verify_ssl) == ("https://api:6443", "/ca.crt", False)
    assert (given.proxy, given.no_proxy) == ("http://proxy:3128", "local")
    assert given.api_key == {"authorization": "Bearer ada"}
    assert not any((given.cert_file, given.key_file, given.username, given.password))


TOKENS = {
    "none": "",
    "another scheme": "Basic ada",
    "no token after the scheme": "Bearer  ",
    "letters that no token has": "Bearer \u00e4",
    "one too long": f"Bearer {'t' * (access.MOST_TOKEN_CHARS + 1)}",
}


@pytest.mark.parametrize("sentence", TOKENS)
def test_what_is_no_token_is_401_and_costs_no_connection(sentence: str) -> None:
    viewers = Viewers(Configuration(), own=False, connect=lambda given: pytest.fail("no connection"))
    with pytest.raises(NotAllowed) as raised:
        viewers.viewer(TOKENS[sentence])
    assert raised.value.code == 401
    assert not viewers.names_no_one
    assert viewers.challenge == "Bearer"


ERRORS: dict[str, tuple[OperatorError, int, str]] = {
    "it may not": (Terminal("no", status=403), 403, "your token may not do that: no; ask"),
    "a bug": (Terminal("bad", status=400), 503, "bad; reload the page in a moment, and `tj doctor`"),
    "the API server is away": (Transient("away"), 503, "away; reload the page in a moment, and `tj doctor`"),
}


@pytest.mark.parametrize("sentence", ERRORS)
def test_an_error_for_a_viewer(sentence: str) -> None:
    error, code, words = ERRORS[sentence]
    found = readable_error(error)
    assert found[0] == code
    assert found[1].startswith(words)


REFUSED = {
    "a viewer's token that has run out": (False, 401, "sign in again"),
    "the token of the page's kubeconfig": (True, 503, "kubectl get aitj"),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_token_that_has_run_out_asks_to_sign_in(sentence: str) -> None:
    own, code, words = REFUSED[sentence]
    viewers = Viewers(Configuration(), own=own, connect=lambda given: Api(status=401))  # type: ignore[arg-type,return-value]
    found = viewers.readable(Terminal("no", status=401))
    assert (found[0], words in found[1]) == (code, True)
    with pytest.raises(NotAllowed) as raised:
        viewers.viewer("Bearer ada").may("list", AITJ)
    assert (raised.value.code, raised.value.message) == found
