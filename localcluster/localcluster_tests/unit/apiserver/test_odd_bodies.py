"""Whatever a body is, it is answered: taken, or refused with 4xx. Bodies are drawn from the schemas of what is served,
with values in them that fit nowhere."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pytest

from localcluster import jsontext
from localcluster.apiserver import typed
from localcluster.apiserver.typed import TypeNode
from localcluster.resources import Resource
from localcluster.wire import Json, Request, Response
from localcluster_tests.unit.apiserver.world import CONFIGS, DEFINITION, World

SEED = 36
REQUESTS = 1_500
OWN_WORDS = (
    "resourceVersion should not be set",
    "resourceVersion: Invalid value",
    "strconv.ParseUint",
    "unknown patch type",
    "target.name: Required value",
    "failed to create typed patch object",
)
"""A kube-apiserver answers 500 to these, too."""
ODD: tuple[Any, ...] = (
    None, "", 0, -1, 2**63 - 1, 2**63, 10**30, 1.5, True, [], {}, [None], {"a": None}, "x" * 70, "\x00", "1e400",
    "0000-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+23:59", "5-1", "99999999999999999999",
)  # fmt: skip
WORDS = ("a", "default", "Always", "True", "NonIndexed", "Indexed", "0-3", "NoExecute", "1Gi", "Background", "v1", "")
RAW = (b"", b"{", b"null", b"[]", b"\xff", b'"\\ud800"', b"a: &x [*x]", b"1: 2", b"NaN", b'{"a":1,"a":2}')
PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
           "application/apply-patch+yaml")  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


class Draw:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def value(self, node: TypeNode, depth: int = 0) -> Any:
        rng = self.rng
        if rng.random() < 0.1:
            return nested(rng.choice((5, 300))) if rng.random() < 0.1 else rng.choice(ODD)
        if node.kind == "object":
            names = [n for n in node.fields if n in node.required or rng.random() < 0.4] if depth < 6 else []
            return {name: self.value(node.fields[name], depth + 1) for name in names}
        if node.kind in ("array", "map"):
            assert node.child is not None
            inner = [self.value(node.child, depth + 1) for _ in range(rng.choice((0, 1, 2)))]
            return inner if node.kind == "array" else dict(zip(WORDS, inner, strict=False))
        plain = {"bool": True, "int": rng.choice((0, 1, 2)), "float64": 1.5, "quantity": "1", "intstr": 1}
        return plain.get(node.kind, "2026-01-01T00:00:00Z" if node.kind == "time" else rng.choice(WORDS))

    def body(self, resource: Resource) -> Any:
        reference = typed.kind_schemas().get((resource.api_version, resource.kind))
        made = self.value(typed.node_of(reference)) if reference else {"spec": self.rng.choice(ODD)}
        if isinstance(made, dict) and self.rng.random() < 0.9:
            head: Json = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": "a"}}
            made = {**made, **head}
        return made

    def request(self, resource: Resource) -> Request:
        rng = self.rng
        method = rng.choice(("POST", "POST", "PUT", "PATCH", "DELETE", "GET"))
        home = f"/apis/{resource.group}" if resource.group else "/api"
        where = "/namespaces/default" if resource.namespaced else ""
        path = f"{home}/{resource.version}{where}/{resource.plural}" + ("" if method == "POST" else "/a")
        if rng.random() < 0.2 and method != "POST":
            path += rng.choice(("/status", "/scale", "/eviction", "/binding", "/nosuch"))
        kind = rng.choice(PATCHES) if method == "PATCH" else "application/json"
        body = self.body(resource)
        if kind == PATCHES[0]:
            pointer = rng.choice(("/kind", "/metadata", "/spec", "/status", "/metadata/labels/a", "", "a"))
            body = [{"op": rng.choice(("add", "remove", "test", "x")), "path": pointer, "value": rng.choice(ODD)}]
        elif method == "DELETE":
            names = ("gracePeriodSeconds", "preconditions", "propagationPolicy", "dryRun", "orphanDependents")
            body = {name: rng.choice(ODD) for name in names if rng.random() < 0.3}
        raw = rng.choice(RAW) if rng.random() < 0.05 else json.dumps(body).encode()
        return Request(method, path, {}, raw, {"content-type": kind, "accept": "application/json", "user-agent": "f/1"})


def test_no_body_breaks_the_server() -> None:
    world, draw = World(), Draw(SEED)
    world.json("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    seen: set[int] = set()
    for _ in range(REQUESTS):
        request = draw.request(draw.rng.choice(world.api.registry.rows()))
        answer = world.api.handle(request)
        assert isinstance(answer, Response)
        seen.add(answer.status)
        said = answer.body.decode()
        own_words = any(words in said for words in OWN_WORDS)
        assert answer.status < 500 or answer.status == 504 or own_words, f"{said[:300]}\n{request!r:.1500}"
    assert {200, 201, 400, 404, 409, 422} <= seen, "else these were no requests worth the name"


@pytest.mark.parametrize("depth", [10, 260, 1_100, 2_000])
def test_what_nobody_knows_may_be_deep(depth: int) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"k":"v"},"zzz":' + jsontext.dumps(nested(depth)) + b"}"
    headers = {"content-type": "application/json", "accept": "application/json"}
    answer = World().api.handle(Request("POST", CONFIGS, {}, body, headers))
    assert isinstance(answer, Response)
    assert answer.status == 201, answer.body[:300]
    assert json.loads(answer.body)["data"] == {"k": "v"}


def test_too_deep_is_refused_and_python_has_its_limit_back() -> None:
    before = sys.getrecursionlimit()
    body = b'{"zzz":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    answer = World().api.handle(Request("POST", CONFIGS, {}, body, {"content-type": "application/json"}))
    assert isinstance(answer, Response)
    assert answer.status == 400
    assert "too deep" in answer.body.decode()
    assert sys.getrecursionlimit() == before
