"""Objects and permissions that are not as they should be, beside a job that must live as if alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pytest

from benchmarks.support.inprocess import InProcessTransport, InProcessWatcher
from tests.scenarios.world import World, job, play, role
from tests.support.memory_store import MemoryStore
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse, Stream
from tjworker.settings import Settings
from watcher.projection.jobs import TOO_DEEP

JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/{}/aitrainingjobs"


def forbidden(path: str) -> HttpResponse:
    message = f'pods is forbidden: User "watcher" cannot list resource at {path}'
    return HttpResponse(
        403,
        orjson.dumps({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message}),
    )


class Bound(InProcessTransport):
    """The operator's user is bound in all namespaces but those of `unbound`; `only` narrows that to some resources."""

    unbound: Sequence[str] = ()
    only: Sequence[str] = ()

    def _refused(self, path: str) -> bool:
        parts = path.split("/")
        if "namespaces" not in parts:
            return False
        at = parts.index("namespaces")
        return parts[at + 1] in self.unbound and (not self.only or parts[at + 2] in self.only)

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        return forbidden(path) if self._refused(path) else super().request(method, path, **more)

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        assert not self._refused(path), "only what has been listed is watched"
        return super().stream(path, query=query, read_timeout_seconds=read_timeout_seconds)


class Namespaces(World):
    """An operator that serves two namespaces."""

    served = ("default", "team-b")

    def start_watcher(self) -> None:
        self._token += 1
        self.store = MemoryStore(clock=self.clock)
        self.bound = Bound(self.cluster.apiserver.handle)
        self.watcher = InProcessWatcher(
            self.cluster.apiserver.handle,
            self.store,
            self.queue.publish,
            now=self.clock,
            token=self._token,
            seed=self.seed,
            settings=Settings(namespaces=",".join(self.served)),
            transport=self.bound,
        )

    def make(self, *namespaces: str) -> Namespaces:
        self.worker = self.make_worker("worker-1")
        for namespace in namespaces:
            if namespace != "default":
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                self.cluster.client.create("/api/v1/namespaces", body)
            manifest = job({"trainer": role(1)}, name="digits")
            manifest["metadata"]["namespace"] = namespace
            self.cluster.client.create(JOBS.format(namespace), manifest)
        return self

    def phase_in(self, namespace: str) -> str:
        found = self.cluster.client.get(f"{JOBS.format(namespace)}/digits")
        return str((found.get("status") or {}).get("phase", ""))


def test_a_namespace_without_a_role_binding_costs_itself_alone_and_is_served_when_it_is_bound() -> None:
    world = Namespaces(seed=1).make("default", "team-b")
    world.bound.unbound = ("team-b",)
    world.run().advance(60)
    assert (world.phase_in("default"), world.phase_in("team-b")) == ("Running", "")
    assert world.watcher.report().body()["unserved_namespaces"] == ["team-b"]
    assert world.watcher.report().ready
    world.bound.unbound = ()
    world.advance(60)
    assert (world.phase_in("default"), world.phase_in("team-b")) == ("Running", "Running")
    assert world.watcher.report().body()["unserved_namespaces"] == []


def test_a_job_is_not_decided_on_while_what_belongs_to_it_may_not_be_listed() -> None:
    """Half a Role: the job would look as if it had no pods."""
    world = Namespaces(seed=1).make("default", "team-b")
    world.bound.unbound, world.bound.only = ("team-b",), ("pods",)
    world.run().advance(60)
    assert (world.phase_in("default"), world.phase_in("team-b")) == ("Running", "")


def test_no_namespace_that_may_be_listed_is_no_empty_cluster() -> None:
    world = Namespaces(seed=1).make("default", "team-b")
    world.bound.unbound = ("default", "team-b")
    world.run().advance(60)
    assert not world.store.projection.cluster().synced
    world.bound.unbound = ()
    world.advance(60)
    assert (world.phase_in("default"), world.phase_in("team-b")) == ("Running", "Running")


DEEP = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
"""Deeper than orjson reads. The real API server takes up to 10,000 levels."""


class DeepStream:
    def __init__(self, stream: Stream) -> None:
        self.status, self.headers, self.body, self.close = stream.status, stream.headers, stream.body, stream.close
        self._lines = stream.lines

    def lines(self) -> Iterator[list[bytes]]:
        for lines in self._lines():
            yield [line.replace(b'"@deep@"', DEEP) for line in lines]


class DeepTransport(InProcessTransport):
    """An API server in which the text `@deep@` is an object of 5,000 levels: the local one cannot write such a one."""

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        answer = super().request(method, path, **more)
        return replace(answer, body=answer.body.replace(b'"@deep@"', DEEP))

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        return DeepStream(super().stream(path, query=query, read_timeout_seconds=read_timeout_seconds))


class DeepWorld(World):
    def start_watcher(self) -> None:
        handle = self.cluster.apiserver.handle
        self._token += 1
        self.watcher = InProcessWatcher(
            handle,
            self.store,
            self.queue.publish,
            now=self.clock,
            token=self._token,
            seed=self.seed,
            transport=DeepTransport(handle),
        )
        self.api = KubeClient(DeepTransport(handle))
        self.worker = self.make_worker("worker-1")


def template(value: Any) -> dict[str, Any]:
    return {"spec": {"replicaSpecs": {"trainer": {"template": {"spec": {"zzz": value}}}}}}


@pytest.mark.parametrize("first", ["watched", "listed"])
def test_a_job_that_is_nested_too_deep_is_told_so_and_its_neighbour_lives_as_if_alone(first: str) -> None:
    world = DeepWorld(seed=1)
    deep = job({"trainer": role(1)}, name="deep")
    deep["spec"]["replicaSpecs"]["trainer"]["template"]["spec"]["zzz"] = "@deep@"
    if first == "watched":
        world.run()
    world.apply(deep).apply(job({"trainer": role(1, annotations=play(run_seconds=5))}, name="fine"))
    world.run().advance(30)
    assert world.phase("fine") == "Succeed"
    told = world.condition("Failed", "deep")
    assert (world.phase("deep"), told["reason"]) == ("Failed", "InvalidSpec")
    assert told["message"] == f"spec: {TOO_DEEP}"


def test_a_job_that_runs_goes_on_while_its_spec_is_nested_too_deep_and_after_it_is_mended() -> None:
    world = DeepWorld(seed=1).apply(job({"trainer": role(1)})).run()
    assert world.phase() == "Running"
    pods = world.uids()
    world.patch_job("digits", template("@deep@")).run()
    told = world.condition("Failed")
    assert (told["status"], told["reason"]) == ("False", "InvalidSpec")
    world.patch_job("digits", template(None)).run().advance(60)
    assert (world.phase(), world.uids()) == ("Running", pods)
    assert world.condition("Failed").get("reason") != "InvalidSpec"
