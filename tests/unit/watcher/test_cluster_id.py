"""Which cluster this is: '' where it may not be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.scripted_api import answers, status
from tjworker.base import OperatorError, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse
from watcher.cluster_id import ClusterId

NAMESPACE = b'{"metadata":{"name":"kube-system","uid":"red"}}'


class Api:
    """A transport with one answer."""

    def __init__(self, answer: Callable[..., HttpResponse]) -> None:
        self.answer = answer
        self.paths: list[str] = []

    def request(self, method: str, path: str, **_: object) -> HttpResponse:
        self.paths.append(f"{method} {path}")
        return self.answer(None)

    def stream(self, path: str, **_: object) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Case:
    answer: Callable[..., HttpResponse]
    want: str = ""
    raises: type[OperatorError] | None = None


CASES = {
    "The UID of kube-system.": Case(answers(200, NAMESPACE), "red"),
    "An install for one namespace may not read it.": Case(
        answers(403, status(403, "Forbidden", 'namespaces "kube-system" is forbidden: User "tj" cannot get resource'))
    ),
    "A cluster that has no such namespace.": Case(
        answers(404, status(404, "NotFound", kind="namespaces", name="kube-system"))
    ),
    "An API server that is away is asked again.": Case(answers(503, b"no"), raises=Transient),
}


@pytest.mark.parametrize("name", CASES)
def test_who_it_is(name: str) -> None:
    case = CASES[name]
    cluster = ClusterId(KubeClient(Api(case.answer)), lambda: 0.0)  # type: ignore[arg-type]
    if case.raises:
        with pytest.raises(case.raises):
            cluster.read()
    else:
        assert cluster.read() == case.want
