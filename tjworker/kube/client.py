"""The client of the API server: builds paths and queries, sends raw JSON, raises the errors of `kube.errors`.

No cache, no retry. Thread-safe if its transport is. Safe to run twice: a second create raises Conflict/AlreadyExists, a
second delete returns None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import orjson

from tjworker.api.resources import PODS
from tjworker.base import Conflict, GroupResource, JsonDict, OperatorError, Terminal, Transient
from tjworker.kube.decode import loads
from tjworker.kube.errors import NOT_FOUND, to_error
from tjworker.kube.port import HttpResponse, ListPage, Stream, Transport
from tjworker.kube.resources import RESOURCES

MERGE_PATCH = "application/merge-patch+json"
# The page of kubectl (`DefaultChunkSize`): the API server reads and encodes a page at a time, not 50,000 jobs.
PAGE_SIZE = 500


class KubeClient:
    """Every method raises Transient, Conflict, Invalid or Terminal. `resource` names a row of `kube.resources`."""

    def __init__(
        self, transport: Transport, *, request_timeout_seconds: float = 15, watch_read_timeout_seconds: float = 60
    ) -> None:
        self._transport = transport
        self._timeout_seconds = request_timeout_seconds
        self._watch_read_timeout_seconds = watch_read_timeout_seconds

    def get(self, resource: GroupResource, namespace: str, name: str) -> JsonDict | None:
        """The object; None if there is none."""
        what = f"get {resource} {namespace}/{name}"
        try:
            return self._request_json("GET", RESOURCES[resource].path(namespace, name), what=what)
        except Conflict as error:
            # Not any 404: a missing namespace or CRD says nothing about the object.
            if error.reason == NOT_FOUND:
                return None
            raise

    def list_page(
        self,
        resource: GroupResource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        token: str = "",
    ) -> ListPage:
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = _without_empty(**selectors, limit=str(limit) if limit else "", **{"continue": token})
        answer = self._request_json(
            "GET", RESOURCES[resource].path(namespace), query=query, what=f"list {resource} {namespace or '*'}"
        )
        meta = answer.get("metadata") or {}
        try:
            version = int(meta.get("resourceVersion") or 0)
        except ValueError as error:
            raise Terminal(
                f"list {resource}: resourceVersion {meta.get('resourceVersion')!r} is not a number"
            ) from error
        return ListPage(answer.get("items") or [], version, meta.get("continue") or "")

    def list_all(
        self,
        resource: GroupResource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        before_page: Callable[[], object] = lambda: None,
    ) -> Iterator[JsonDict]:
        """The objects, page by page; `namespace` '' means all. Raises Conflict with reason Expired if the list expires
        between two pages."""
        token = ""
        while True:
            before_page()
            page = self.list_page(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=page_size,
                token=token,
            )
            yield from page.items
            token = page.next_token
            if not token:
                return

    def create(self, resource: GroupResource, namespace: str, body: Mapping[str, Any]) -> JsonDict:
        """Raises Conflict with reason AlreadyExists if the name is taken."""
        row = RESOURCES[resource]
        what = f"create {resource} {namespace}/{(body.get('metadata') or {}).get('name', '')}"
        # The API server's default is Warn: it drops a misspelt `command` of a user's template, and the container runs
        # something else.
        query = {"fieldValidation": "Strict"} if row.templated else None
        return self._request_json("POST", row.path(namespace), query=query, body=body, what=what)

    def update(self, resource: GroupResource, namespace: str, name: str, body: Mapping[str, Any]) -> JsonDict:
        path = RESOURCES[resource].path(namespace, name)
        return self._request_json("PUT", path, body=body, what=f"update {resource} {namespace}/{name}")

    def update_status(self, resource: GroupResource, namespace: str, name: str, body: Mapping[str, Any]) -> JsonDict:
        """`body.metadata` has uid and resourceVersion, the proof that the view was recent."""
        path = RESOURCES[resource].path(namespace, name, "status")
        return self._request_json("PUT", path, body=body, what=f"update status of {resource} {namespace}/{name}")

    def merge_patch(
        self, resource: GroupResource, namespace: str, name: str, body: Mapping[str, Any], *, subresource: str = ""
    ) -> JsonDict:
        path = RESOURCES[resource].path(namespace, name, subresource)
        return self._request_json(
            "PATCH", path, body=body, content_type=MERGE_PATCH, what=f"patch {resource} {namespace}/{name}"
        )

    def delete(
        self,
        resource: GroupResource,
        namespace: str,
        name: str,
        *,
        uid: str,
        version: int = 0,
        grace_seconds: int | None = None,
        propagation: str = "Background",
    ) -> JsonDict | None:
        """Returns None if the object was gone already. Raises Conflict if another object has the name now (another
        UID), or if the object has another version than `version`; 0: any."""
        options: JsonDict = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid} | ({"resourceVersion": str(version)} if version else {}),
            # Always named: the API server's default for a batch Job is Orphan, and its pods would run on.
            "propagationPolicy": propagation,
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        what = f"delete {resource} {namespace}/{name}"
        try:
            return self._request_json("DELETE", RESOURCES[resource].path(namespace, name), body=options, what=what)
        except Conflict as error:
            # A 409 does not mean that the object is gone: another object has the name, or the server met a race. The
            # view was old, and the caller reads the object again.
            if error.status == 404:
                return None
            raise

    def log_tail(
        self, namespace: str, pod: str, container: str, *, lines: int, limit_bytes: int, timeout_seconds: float
    ) -> str:
        """The last lines of a container's log. The caller gives a time-out, since the API server passes the request on
        to the pod's kubelet, which may be silent."""
        query = _without_empty(container=container, tailLines=str(lines), limitBytes=str(limit_bytes))
        path = RESOURCES[PODS].path(namespace, pod, "log")
        answer = self._request(
            "GET", path, query=query, what=f"log of {namespace}/{pod}", timeout_seconds=timeout_seconds
        )
        # `limitBytes` may cut a character, and a program may log anything.
        return answer.body.decode("utf-8", "replace")

    def watch(
        self,
        resource: GroupResource,
        namespace: str = "",
        *,
        resource_version: int,
        timeout_seconds: int,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Stream:
        """An open watch with bookmarks. Raises Conflict with reason Expired if the version is too old (410)."""
        query = _without_empty(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=str(resource_version),
            timeoutSeconds=str(timeout_seconds),
            labelSelector=label_selector,
            fieldSelector=field_selector,
        )
        path = RESOURCES[resource].path(namespace)
        stream = self._transport.stream(path, query=query, read_timeout_seconds=self._watch_read_timeout_seconds)
        if stream.status == 200:
            return stream
        try:
            raise to_error(
                HttpResponse(stream.status, stream.body(), stream.headers), f"watch {resource} {namespace or '*'}"
            )
        finally:
            stream.close()

    def served_resources(self, groups: Collection[str]) -> frozenset[str]:
        """`plural.group` of each resource that the API server serves in these API groups."""
        listed = self._request_json("GET", "/apis", what="list API groups")
        if listed.get("kind") == "APIGroupDiscoveryList":
            return frozenset(
                f"{resource['resource']}.{group['metadata']['name']}"
                for group in listed.get("items") or ()
                if group["metadata"]["name"] in groups
                for version in group.get("versions") or ()
                for resource in version.get("resources") or ()
            )
        # An API server before 1.30 does not aggregate its discovery: one more request for each version of a group.
        versions = [
            (str(group["name"]), str(version["groupVersion"]))
            for group in listed.get("groups") or ()
            if group["name"] in groups
            for version in group.get("versions") or ()
        ]
        return frozenset(
            f"{row['name']}.{group}" for group, version in versions for row in self.resources_of(version) or ()
        )

    def resources_of(self, api_version: str) -> list[JsonDict] | None:
        """The rows of discovery for `v1` or `<group>/<version>`, with their subresources; None if the API server does
        not serve it."""
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            rows = self._request_json("GET", path, what=f"list resources of {api_version}").get("resources")
            return list(rows or ())
        except OperatorError as error:
            if error.status == 404:
                return None
            raise

    def alive(self) -> bool:
        """True if the API server answers a cheap request, which never reads etcd. Raises nothing."""
        try:
            answer = self._transport.request("GET", "/version", timeout_seconds=min(5.0, self._timeout_seconds))
        except Transient:
            return False
        # A refusal, such as 401, is an answer, too.
        return answer.status < 500

    def close(self) -> None:
        self._transport.close()

    def _request_json(
        self, method: str, path: str, *, what: str, body: Mapping[str, Any] | None = None, **options: Any
    ) -> JsonDict:
        answer = self._request(method, path, what=what, body=None if body is None else orjson.dumps(body), **options)
        try:
            parsed = loads(answer.body)
        except orjson.JSONDecodeError as error:
            # A proxy cut the body off, or answered in place of the server. The next answer may be whole.
            message = f"{what}: {answer.status} with a body that is not JSON: {error}"
            raise Transient(message, status=answer.status) from error
        if not isinstance(parsed, dict):
            raise Terminal(f"{what}: {answer.status} with a body that is no object", status=answer.status)
        return parsed

    def _request(
        self,
        method: str,
        path: str,
        *,
        what: str,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        """`timeout_seconds` counts only if it is shorter than the time-out of every request."""
        seconds = min(timeout_seconds or self._timeout_seconds, self._timeout_seconds)
        try:
            answer = self._transport.request(
                method, path, query=query, body=body, content_type=content_type, timeout_seconds=seconds
            )
        except Transient as error:
            raise Transient(f"{what}: {error.message}") from error
        if answer.status < 300:
            return answer
        raise to_error(answer, what)


def _without_empty(**parts: str) -> dict[str, str]:
    return {name: value for name, value in parts.items() if value}
