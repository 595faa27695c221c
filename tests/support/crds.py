"""The CRD of each kind, built once a process, because pydantic takes 40 to 80 ms for one schema."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import orjson

from localcluster.apiserver import ApiServer
from localcluster.apiserver.definitions import DEFINITIONS
from localcluster.wire import Request
from tjworker.api import crd
from tjworker.api.kinds import KNOWN_KINDS
from tjworker.base import GroupResource


def crd_of(resource: GroupResource) -> dict[str, Any]:
    """A new copy for each caller, who may change it."""
    definition: dict[str, Any] = orjson.loads(_built(resource))
    return definition


@cache
def _built(resource: GroupResource) -> bytes:
    return orjson.dumps(crd.build(KNOWN_KINDS[resource]))


def install(server: ApiServer, resource: GroupResource) -> None:
    """Serve this kind, as after a POST of its CRD. The server decodes and checks it once a process, not once a test."""
    stored = _stored(resource)
    server.store.put(DEFINITIONS, ("", str(resource)), {**stored, "metadata": dict(stored["metadata"])})


@cache
def _stored(resource: GroupResource) -> dict[str, Any]:
    server = ApiServer(clock=lambda: 1e9, rng=random.Random(1), track_fields=False)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    server.handle(Request("POST", path, {}, _built(resource), {"content-type": "application/json"}))
    item = server.store.get(DEFINITIONS, ("", str(resource)))
    assert item is not None, f"the API server refuses the CRD of {resource}"
    return item.obj
