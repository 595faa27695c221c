"""GET of one object and of lists: selectors, chunks, and what resourceVersion means. Changes nothing."""

from __future__ import annotations

import base64
from typing import NamedTuple

import orjson

from localcluster.apiserver import selectors
from localcluster.apiserver.errors import StatusError, bad_request, gone, not_found, resource_version_too_large
from localcluster.apiserver.forms import Presenter, wanted_form
from localcluster.apiserver.options import parse_number
from localcluster.apiserver.selectors import Match
from localcluster.resources import Resource
from localcluster.storage import Compacted, Item, Key, Store
from localcluster.wire import Json, Request, Response

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)


class Selection(NamedTuple):
    """What a list or a watch shows."""

    namespace: str
    name: str
    """From fieldSelector metadata.name: the common watch of one object needs no scan."""
    labels: Match | None
    fields: Match | None

    def matches(self, obj: Json) -> bool:
        return (self.labels is None or self.labels(obj)) and (self.fields is None or self.fields(obj))

    def covers(self, key: Key) -> bool:
        return (not self.namespace or key[0] == self.namespace) and (not self.name or key[1] == self.name)

    @property
    def filters(self) -> bool:
        return self.labels is not None or self.fields is not None


def parse_selection(resource: Resource, namespace: str, request: Request) -> Selection:
    if "fieldSelector" not in request.query and "labelSelector" not in request.query:
        return Selection(namespace, "", None, None)
    tests = selectors.parse_fields(request.query.get("fieldSelector", ""), resource)
    name = next((value for path, equal, value in tests if path == "metadata.name" and equal), "")
    rest = [test for test in tests if not (test[0] == "metadata.name" and test[1])]
    return Selection(
        namespace,
        name,
        selectors.label_selector(request.query.get("labelSelector", "")),
        selectors.field_selector(rest),
    )


def parse_version(text: str, *, inside: bool = False) -> int:
    """Raises StatusError 400 for a resourceVersion that is no number; `inside`: 500, as where only storage looks at
    it."""
    if not text.isdigit():
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        if inside:
            raise StatusError(500, "", why)
        raise StatusError(400, "BadRequest", f"invalid resource version: {why}")
    return int(text)


class Reader:
    def __init__(self, store: Store, presenter: Presenter) -> None:
        self._store = store
        self._presenter = presenter

    def find(self, resource: Resource, namespace: str, name: str) -> Item:
        item = self._store.get(resource.bucket, (namespace, name))
        if item is None:
            raise not_found(resource, name)
        return item

    def get(self, resource: Resource, namespace: str, name: str, request: Request) -> Response:
        item = self.find(resource, namespace, name)
        if version := request.query.get("resourceVersion"):
            self._not_from_the_future(parse_version(version, inside=True))
        return Response(200, self._presenter.one(resource, item, wanted_form(request)))

    def list_all(self, resource: Resource, namespace: str, request: Request) -> Response:
        query = request.query
        chosen = parse_selection(resource, namespace, request)
        limit = max(0, parse_number(query.get("limit") or "0"))
        if query.get("sendInitialEvents") is not None:
            raise _invalid_list("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list")
        revision, start = self._parse_position(request)
        if query.get("resourceVersion") == "0" and not query.get("continue"):
            limit = 0  # kube-apiserver answers these from its cache, which does not cut lists
        try:
            rows = self._list_rows(resource, chosen, revision)
        except Compacted:
            raise gone(f"The resourceVersion for the provided list is too old: {revision}") from None
        if start is not None:
            rows = [row for row in rows if row[0] > start]
        if chosen.filters:
            rows = [row for row in rows if chosen.matches(row[1].obj)]
        meta: Json = {"resourceVersion": str(revision)}
        if limit and len(rows) > limit:
            # With a selector the number that remains is unknown, and the API leaves it out.
            if not chosen.filters:
                meta["remainingItemCount"] = len(rows) - limit
            rows = rows[:limit]
            meta["continue"] = _continue_token(revision, rows[-1][0])
        form = wanted_form(request, listing=True)
        return Response(200, self._presenter.listing(resource, [item for _, item in rows], form, meta))

    def _list_rows(self, resource: Resource, chosen: Selection, revision: int) -> list[tuple[Key, Item]]:
        if chosen.name and revision == self._store.revision:
            keys = [(chosen.namespace, chosen.name)] if chosen.namespace or not resource.namespaced else None
            if keys is not None:
                item = self._store.get(resource.bucket, keys[0])
                return [(keys[0], item)] if item else []
        rows = self._store.items_at(resource.bucket, revision, chosen.namespace)
        return [row for row in rows if row[0][1] == chosen.name] if chosen.name else rows

    def _parse_position(self, request: Request) -> tuple[int, Key | None]:
        """(revision to list at, key to start behind)."""
        query = request.query
        match, asked = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
        if match and not asked:
            raise _invalid_match("Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided")
        if match not in ("", "Exact", "NotOlderThan"):
            raise _invalid_match(f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""')
        if token := query.get("continue"):
            if asked and asked != "0":
                raise bad_request("specifying resource version is not allowed when using continue")
            revision, start = _read_token(token)
            if revision and revision < self._store.compacted:
                status = gone(_TOO_OLD).status()
                # With this token a client can go on at the present state, at the price of a list of two moments.
                status["metadata"] = {"continue": _continue_token(0, start)}
                raise _Ready(status)
            return revision or self._store.revision, start
        version = parse_version(asked) if asked else 0
        self._not_from_the_future(version)
        if match == "Exact" or (version and not match and query.get("limit") and query.get("limit") != "0"):
            if version == 0:
                raise _invalid_match('Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            return version, None
        return self._store.revision, None

    def _not_from_the_future(self, version: int) -> None:
        if version > self._store.revision:
            raise resource_version_too_large(version, self._store.revision)


class _Ready(StatusError):
    """A Status that carries more than an error usually does."""

    def __init__(self, status: Json) -> None:
        super().__init__(status["code"], status["reason"], status["message"])
        self._status = status

    def status(self) -> Json:
        return self._status


def _invalid_match(why: str) -> StatusError:
    return _invalid_list("resourceVersionMatch", why)


def _invalid_list(field: str, why: str) -> StatusError:
    message = f"{field}: {why}"
    return StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {message}',
        {
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [
                {
                    "reason": "FieldValueForbidden" if why.startswith("Forbidden") else "FieldValueNotSupported",
                    "message": why,
                    "field": field,
                }
            ],
        },
    )


def _continue_token(revision: int, key: Key) -> str:
    start = "/".join(key) + "\0"
    return (
        base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision or -1, "start": start}))
        .decode()
        .rstrip("=")
    )


def _read_token(token: str) -> tuple[int, Key]:
    try:
        body = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, _, name = body["start"].rstrip("\0").partition("/")
        return max(0, int(body["rv"])), (namespace, name)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise bad_request(
            "invalid continue token: continue key is not valid: the token was not made by this server"
        ) from None
