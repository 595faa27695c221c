"""The form of an answer: whole objects, metadata only, or a table; in the API version that was asked for.

Pure besides the cached bytes of the items. The bytes of a whole object in its storage version are never made twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import yaml

from localcluster import jsontext
from localcluster.apiserver import events
from localcluster.apiserver.errors import bad_request, not_acceptable
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.tables import table
from localcluster.resources import Resource
from localcluster.storage import Item
from localcluster.wire import Encoded, Json, Request, Response, Watch

_META = "meta.k8s.io/v1"
_MEDIA = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


@dataclass(frozen=True, slots=True)
class Form:
    kind: Literal["plain", "table", "partial"] = "plain"
    include_object: str = "Metadata"

    @property
    def key(self) -> str:
        return self.kind + self.include_object


PLAIN = Form()


def wanted_form(request: Request, *, listing: bool = False) -> Form:
    """From the Accept header. What we cannot produce (CBOR) falls through to the next; protobuf alone is answered as
    JSON. Raises 406 when nothing in it can be had."""
    return _parse_form(
        request.headers.get("accept", ""), request.query.get("includeObject", "Metadata"), listing=listing
    )


@lru_cache(maxsize=256)
def _parse_form(accept: str, include: str, *, listing: bool) -> Form:
    offers = [offer.strip() for offer in accept.split(",") if offer.strip()]
    readable = False
    for offer in offers:
        options = dict(part.strip().partition("=")[::2] for part in offer.split(";")[1:])
        media = offer.partition(";")[0].strip()
        if media in ("application/vnd.kubernetes.protobuf", "*/*", "application/*"):
            readable = True
        if media == "application/yaml" and "as" not in options:
            return PLAIN
        if media != "application/json":
            continue
        readable = readable or "as" in options
        if options.get("as") == "Table" and options.get("v") == "v1":
            if include not in ("", "Metadata", "Object", "None"):
                raise bad_request(
                    f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": must be '
                    "'Metadata', 'Object', 'None', or empty"
                )
            return Form("table", include or "Metadata")
        if options.get("as", "").startswith("PartialObjectMetadata") and options.get("v") == "v1":
            return Form("partial")
        if "as" not in options:
            return PLAIN
    if any("as=" in offer for offer in offers):
        raise not_acceptable(f"only the following media types are accepted: {', '.join(_MEDIA)}")
    if offers and not readable:
        offered = (*_MEDIA, *(f"{media};stream=watch" for media in (_MEDIA[0], _MEDIA[2]))) if listing else _MEDIA
        raise not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(offered)}")
    return PLAIN


def yaml_if_asked(request: Request, response: Response | Watch) -> Response | Watch:
    """The same answer as YAML, when the client's first choice is that."""
    wants = request.headers.get("accept", "").lstrip().startswith("application/yaml")
    if not wants or isinstance(response, Watch) or response.content_type != "application/json":
        return response
    text = yaml.safe_dump(jsontext.loads(response.body), allow_unicode=True)
    return response._replace(content=text.encode(), content_type="application/yaml")


class Presenter:
    """Shows stored items as one resource row and form have them."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock

    def obj(self, resource: Resource, obj: Json) -> Json:
        """The object in the row's API version."""
        if obj.get("apiVersion") == resource.api_version:
            return obj
        if resource.bucket == "events":
            return events.from_core(obj)
        return {**obj, "kind": resource.kind, "apiVersion": resource.api_version}

    def whole(self, resource: Resource, item: Item) -> Encoded:
        if item.obj.get("apiVersion") == resource.api_version:
            return item
        return Encoded(self.obj(resource, item.obj))

    def one(self, resource: Resource, item: Item, form: Form) -> Encoded:
        if form.kind == "plain":
            return self.whole(resource, item)
        if form.kind == "partial":
            return Encoded(partial(item.obj))
        return Encoded(self.table(resource, [item.obj], form, item.obj["metadata"].get("resourceVersion", "")))

    def table(
        self, resource: Resource, objs: list[Json], form: Form, version: str, *, headers: bool = True, **meta: object
    ) -> Json:
        columns, cells = table(
            resource, self._registry.custom(resource), [self.obj(resource, obj) for obj in objs], self._clock()
        )
        rows = []
        for obj, (row, conditions) in zip(objs, cells, strict=True):
            line: Json = {"cells": row}
            if conditions:
                line["conditions"] = conditions
            if form.include_object == "Metadata":
                line["object"] = partial(obj)
            elif form.include_object == "Object":
                line["object"] = self.obj(resource, obj)
            else:
                line["object"] = None
            rows.append(line)
        return {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": {"resourceVersion": version, **meta},
            "columnDefinitions": columns if headers else None,
            "rows": rows,
        }

    def listing(self, resource: Resource, items: list[Item], form: Form, meta: Json) -> bytes:
        if form.kind == "table":
            return jsontext.dumps(
                self.table(
                    resource,
                    [item.obj for item in items],
                    form,
                    **{"version" if k == "resourceVersion" else k: v for k, v in meta.items()},
                )
            )
        if form.kind == "partial":
            body = {
                "kind": "PartialObjectMetadataList",
                "apiVersion": _META,
                "metadata": meta,
                "items": [partial(item.obj) for item in items],
            }
            return jsontext.dumps(body)
        head = jsontext.dumps({"kind": resource.list_name, "apiVersion": resource.api_version, "metadata": meta})
        # Items of built-in lists carry neither kind nor apiVersion on a real server; clients that rely on them break
        # there.
        start = b'{"kind":"%b","apiVersion":"%b",' % (resource.kind.encode(), resource.api_version.encode())
        rows = [self.whole(resource, item).data for item in items]
        if not resource.custom:
            rows = [b"{" + row[len(start) :] if row.startswith(start) else row for row in rows]
        return head[:-1] + b',"items":[' + b",".join(rows) + b"]}\n"


def partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}
