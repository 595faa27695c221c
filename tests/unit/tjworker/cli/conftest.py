"""A cluster in this process for the commands: the local API server without a socket, and `tj` typed at it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner, Result

from benchmarks.support.inprocess import InProcessTransport
from localcluster.apiserver import ApiServer
from localcluster.wire import Request, Response
from tests.support.builders import JobBuilder
from tests.support.crds import install
from tjworker.api.kinds import KINDS
from tjworker.base import GroupResource
from tjworker.cli import cluster as cluster_of_commands
from tjworker.cli import main
from tjworker.kube.client import KubeClient
from tjworker.kube.resources import RESOURCES

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class TypedAt:
    """An API server with both CRDs, and those of these guests. `operator`: see `Cluster.operator`."""

    def __init__(self, *guests: str, operator: Mapping[str, str] | None = None) -> None:
        self.operator = operator
        self._server = ApiServer(clock=lambda: 1e9, rng=random.Random(1), track_fields=False)
        self.transport = InProcessTransport(self._server.handle)
        self.api = KubeClient(self.transport)
        for resource in (*KINDS, *map(GroupResource, guests)):
            install(self._server, resource)

    def add(self, *jobs: JobBuilder) -> None:
        """Each with its status, as the operator would have written it."""
        for job in jobs:
            path = RESOURCES[job.resource].path("default")
            made = self._post(path, job.manifest())
            status = job.build().status.to_json()
            if status:
                self.api.update_status(job.resource, "default", job.raw["metadata"]["name"], made | {"status": status})

    def make(self, resource: GroupResource, body: dict[str, Any]) -> dict[str, Any]:
        return self._post(RESOURCES[resource].path("default"), body)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._server.handle(
            Request("POST", path, {}, orjson.dumps(body), {"content-type": "application/json"})
        )
        assert isinstance(answer, Response)
        assert answer.status == 201, answer.body
        made: dict[str, Any] = orjson.loads(answer.body)
        return made

    def tj(self, *args: str) -> Result:
        """As `main.run` does it, in this process."""
        return CliRunner().invoke(_Run("tj"), list(args))


class _Run(click.Command):
    """What CliRunner takes for a command: its `main` is `tj`'s own, exit codes and messages included."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:
        raise SystemExit(main.run(list(args or ())))


@pytest.fixture
def typed_at(a_cluster: Callable[..., TypedAt]) -> TypedAt:
    return a_cluster()


@pytest.fixture
def a_cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., TypedAt]:
    """Makes one, as TypedAt is made; the commands go to the newest."""

    def make(*guests: str, operator: Mapping[str, str] | None = None) -> TypedAt:
        server = TypedAt(*guests, operator=operator)

        @contextmanager
        def user_cluster(**_: Any) -> Iterator[cluster_of_commands.Cluster]:
            yield cluster_of_commands.Cluster(server.api, server.transport, "default", operator=server.operator)

        monkeypatch.setattr(cluster_of_commands, "user_cluster", user_cluster)
        return server

    return make
