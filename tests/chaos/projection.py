"""What Redis holds, against what the API server has: every job, every child, every node, record for record (so UID and
version too). What is missing, what has gone and is still there, and what is of an older state each has its line.

Both sides are read by what the operator itself uses, a list of all namespaces by the admin and the store of a worker.
Of a finished job its own small record is held and nothing of its children (`tjworker/store/projection.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.chaos.served import WATCHED
from tjworker.api.observed import NodeRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import NODES
from tjworker.base import GroupResource, OperatorError
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NOT_INSTALLED
from tjworker.store.projection import Projection
from watcher.projection import project, project_node

Records = Mapping[tuple[str, str, str], object]
"""(job key, resource, name) -> record."""


def differences(api: KubeClient, projection: Projection) -> list[str]:
    """A sentence each; none when the two agree. They are not read in one moment: ask again until nothing moves."""
    there, held = of_the_api_server(api), of_redis(projection)
    return [
        f"{resource} {name} of {key or 'the cluster'}: Redis has {held.get(it)!r}, the API server {there.get(it)!r}"
        for it in sorted({*there, *held})
        if there.get(it) != held.get(it)
        for key, resource, name in (it,)
    ]


def of_the_api_server(api: KubeClient) -> Records:
    found: dict[tuple[str, str, str], object] = {}
    finished = set()
    for row in (row for row in WATCHED if not row.is_named):
        for item in _everything(api, row.name):
            projected = project_node(item) if row.name == NODES else project(row.name, item)
            if projected is None:
                continue
            change, record = projected.change, projected.change.record or b""
            found[change.key, row.name, change.name] = _timeless(record) if row.name == NODES else record
            if change.finished:
                finished.add(change.key)
    return {
        (key, resource, name): record
        for (key, resource, name), record in found.items()
        if key not in finished or key.startswith(f"{resource}/")
    }


def of_redis(projection: Projection) -> Records:
    found: dict[tuple[str, str, str], object] = {
        ("", NODES, name): _timeless(record) for name, record in projection.nodes(projection.known_nodes()).items()
    }
    for key in projection.known_keys():
        view, (of_job, _, name) = projection.view(key), key.split("/")
        if view.job is not None:
            found[key, of_job, name] = view.job
        found |= {
            (key, resource, child): record
            for resource, records in view.children.items()
            for child, record in records.items()
        }
    return found


def _everything(api: KubeClient, resource: GroupResource) -> list[dict[str, object]]:
    try:
        return list(api.list_page(resource).items)
    except OperatorError as error:
        if error.reason == NOT_INSTALLED:
            return []
        raise


def _timeless(record: bytes) -> NodeRecord:
    """A heartbeat changes nothing but the version, and is not written."""
    node = decode(NODES, record)
    assert isinstance(node, NodeRecord)
    return replace(node, rv=0)
