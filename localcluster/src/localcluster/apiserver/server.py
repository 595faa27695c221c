"""The API server: one request in, one answer or one watch out. Holds the parts together and decides nothing itself.

Synchronous and single-threaded; time and randomness are injected. Errors become Status answers here, in one place; a
bug becomes a 500 and a log line, never the end of the server.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localcluster import jsontext
from localcluster.apiserver import admission, discovery, meta, reviews
from localcluster.apiserver.bodies import body_of, content_type, patch_body
from localcluster.apiserver.decoding import find_duplicates
from localcluster.apiserver.definitions import DEFINITIONS, Definitions
from localcluster.apiserver.deleting import Deleter
from localcluster.apiserver.errors import (
    StatusError,
    bad_request,
    internal,
    method_not_supported,
    no_such_path,
    no_such_resource,
    not_found,
)
from localcluster.apiserver.forms import Presenter, wanted_form, yaml_if_asked
from localcluster.apiserver.openapi.document import OpenApi
from localcluster.apiserver.options import WriteOptions, delete_options, write_options
from localcluster.apiserver.patches import Patcher
from localcluster.apiserver.reading import Reader, parse_selection
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.route import Target, as_query, parse
from localcluster.apiserver.strategies import strategy_of
from localcluster.apiserver.subresources import STREAMS, LogSource, Subresources
from localcluster.apiserver.tokens import Tokens
from localcluster.apiserver.watching import Watchers
from localcluster.apiserver.writing import Writer
from localcluster.resources import BUILTIN, Resource
from localcluster.storage import Event, Item, Store
from localcluster.wire import Json, Request, Response, Stream, Watch

_log = logging.getLogger(__name__)
_HISTORY_SECONDS = 300.0
_COMPACT_EVERY_SECONDS = 60.0
_EVENT_TTL_SECONDS = 3600.0
VERSION = "v1.36.3-local"


class ApiServer:
    """`clock` gives unix seconds. With `data_dir` nothing that was answered is lost, whatever kills the process.
    Without `track_fields` ordinary writes leave no managedFields: half the time of a write, for simulations that apply
    nothing. `token_key` signs the tokens of service accounts: with the same one they outlive a restart."""

    def __init__(
        self,
        clock: Callable[[], float],
        rng: random.Random,
        data_dir: Path | None = None,
        version: str = VERSION,
        *,
        track_fields: bool = True,
        token_key: bytes = b"",
    ) -> None:
        self.clock = clock
        self.version = version
        self.store = Store(clock, data_dir)
        self.registry = Registry()
        self._presenter = Presenter(self.registry, clock)
        self._reader = Reader(self.store, self._presenter)
        self._watchers = Watchers(self.store, self._presenter, clock, rng)
        self._deleter = Deleter(self.store, clock)
        self._definitions = Definitions(self.store, self.registry, self._watchers, self._deleter, clock)
        self._writer = Writer(
            self.store,
            self.registry,
            clock,
            rng,
            admission.Admission(self.store, rng).admit,
            self._deleter.settled,
            track_fields=track_fields,
        )
        self._patcher = Patcher(self.store, self.registry, clock, self._writer)
        self._subresources = Subresources(
            self.store, self.registry, self._presenter, self._reader, self._writer, self._deleter, clock
        )
        self._tokens = Tokens(self.store, clock, token_key)
        self._openapi = OpenApi(self.registry, version)
        self._options: WriteOptions | None = None
        self._next_compaction = clock() + _COMPACT_EVERY_SECONDS
        self.store.on_event = self._on_event
        for _, item in self.store.items(DEFINITIONS):
            self._definitions.serve(item.obj)
        admission.first_objects(self.store, self._writer, self.registry)

    @property
    def log_source(self) -> LogSource | None:
        """Answers `GET .../pods/<p>/log`: (namespace, pod, container, query) -> Response, or a Watch of raw bytes to
        follow."""
        return self._subresources.log_source

    @log_source.setter
    def log_source(self, source: LogSource | None) -> None:
        self._subresources.log_source = source

    # -- the outside -------------------------------------------------------------------------------
    def handle(self, request: Request) -> Response | Watch:
        """Never raises."""
        self._options = None
        with jsontext.room():
            return self._answer(request)

    def _answer(self, request: Request) -> Response | Watch:
        try:
            return yaml_if_asked(request, self._route_request(request))
        except StatusError as error:
            response = error.response()
            if self._options is not None and self._options.warnings:
                response = response._replace(headers={**response.headers, **_warning_headers(self._options.warnings)})
            return yaml_if_asked(request, response)
        except RecursionError:
            return bad_request("the object is nested too deeply").response()
        except Exception as error:  # noqa: BLE001  a bug in one request must not end the server
            _log.exception("%s %s failed", request.method, request.path)
            return internal(str(error)).response()

    def tick(self) -> None:
        """What time has made due: bookmarks, the end of watches, compaction."""
        now = self.clock()
        self._watchers.tick(now)
        if now >= self._next_compaction:
            self._next_compaction = now + _COMPACT_EVERY_SECONDS
            self.store.compact(_HISTORY_SECONDS)
            self._expire_events()

    def _expire_events(self) -> None:
        """Events live for an hour after their last change, as kube-apiserver's --event-ttl has it."""
        horizon = self.clock() - _EVENT_TTL_SECONDS
        for key, item in list(self.store.items("events")):
            times = (
                item.obj.get("lastTimestamp"),
                (item.obj.get("series") or {}).get("lastObservedTime"),
                item.obj["metadata"]["creationTimestamp"],
            )
            newest = max(meta.parse_time(text) or 0.0 for text in times)
            if newest < horizon:
                self.store.delete("events", key, {**item.obj, "metadata": dict(item.obj["metadata"])})

    def next_due(self) -> float | None:
        """When `tick` has to be called next, in unix seconds; None while nothing waits for time."""
        return self._watchers.next_due()

    def close(self) -> None:
        self._watchers.end_all()
        self.store.close()

    def remote_log_url(self, request: Request) -> str | None:
        """The URL at which the pod's kubelet serves the log, when no `log_source` is registered. None when `handle`
        answers."""
        target = parse(request.path)
        if target is None or self.log_source is not None or (target.plural, target.subresource) != ("pods", "log"):
            return None
        return self._subresources.log_url(target.namespace, target.name, request.query)

    def stream(self, request: Request, query: Mapping[str, Sequence[str]]) -> Stream | Response | None:
        """Answers a request for a WebSocket: the stream to open, or the refusal. None when `handle` answers."""
        target = parse(request.path)
        if target is None or target.plural != "pods" or target.subresource not in STREAMS:
            return None
        try:
            return self._subresources.stream(target, query)
        except StatusError as error:
            return error.response()

    # -- routing -----------------------------------------------------------------------------------
    def _read_object(self, resource: Resource, request: Request, options: WriteOptions) -> Json:
        """The body of a write. A field that it has twice is reported as an unknown one is: a warning, or an error."""
        body = body_of(request, resource)
        # A body as long as its parsed content written again has no field twice; only others need the slow search.
        skipped = options.field_validation == "Ignore" or content_type(request) not in ("", "application/json")
        if not skipped and len(jsontext.dumps(body)) != len(request.body.rstrip()):
            found = [f'duplicate field "{path}"' for path in find_duplicates(request.body)]
            if found and options.field_validation == "Strict":
                raise bad_request(
                    f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: strict'
                    " decoding "
                    f"error: {', '.join(found)}"
                )
            options.warnings += found
        return body

    def _write_options(self, request: Request) -> WriteOptions:
        """Kept for the whole request: a refusal carries the warnings too."""
        self._options = write_options(request)
        return self._options

    def _route_request(self, request: Request) -> Response | Watch:
        request = as_query(request)
        target = parse(request.path)
        if target is None:
            return self._answer_other_path(request)
        resource = self.registry.find(target.group, target.version, target.plural)
        if resource is None or (target.namespace and not resource.namespaced):
            if (target.group, target.plural) == ("", "bindings") and request.method == "POST":
                return self._subresources.bind(target.namespace, "", body_of(request))
            built_in = any(row.group == target.group and row.version == target.version for row in BUILTIN)
            raise no_such_resource() if built_in else no_such_path()
        if resource.verbs == ("create",):
            if request.method != "POST":
                raise method_not_supported()
            return _json_response(201, self._review(resource, request))
        if target.subresource:
            return self._handle_subresource(resource, target, request)
        if target.name:
            return self._handle_object(resource, target, request)
        return self._handle_collection(resource, target, request)

    def _answer_other_path(self, request: Request) -> Response:
        path = request.path.rstrip("/") or "/"
        if path in ("/healthz", "/livez", "/readyz") or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return Response(200, b"ok", "text/plain; charset=utf-8")
        if path == "/version":
            return _json_response(200, discovery.version_info(self.version))
        if path.startswith("/openapi/"):
            found = self._openapi.answer(path, request)
        else:
            found = discovery.answer(self.registry, path, request)
        if found is None:
            raise no_such_path()
        return found

    def _handle_object(self, resource: Resource, target: Target, request: Request) -> Response | Watch:
        method = request.method
        if method == "GET":
            # Never a watch, whatever the query says: kube-apiserver watches lists.
            return self._read(resource, self._reader.get(resource, target.namespace, target.name, request))
        self._writable_scope(resource, target)
        if method == "PUT":
            options = self._write_options(request)
            body = self._read_object(resource, request, options)
            item = self._writer.update(resource, target.namespace, target.name, body, options)
            return self._respond(resource, item, request, options, 200)
        if method == "PATCH":
            options = self._write_options(request)
            item, created = self._patcher.patch(
                resource, target.namespace, target.name, patch_body(request), content_type(request), options
            )
            return self._respond(resource, item, request, options, 201 if created else 200)
        if method == "DELETE":
            return self._delete_object(resource, target, request)
        raise method_not_supported()

    def _handle_collection(self, resource: Resource, target: Target, request: Request) -> Response | Watch:
        method = request.method
        if method == "GET":
            if request.query.get("watch") in ("true", "1"):
                custom = self.registry.custom(resource)
                return self._watchers.open(resource, target.namespace, request, custom.since if custom else 0)
            return self._read(resource, self._reader.list_all(resource, target.namespace, request))
        if method == "POST":
            if resource.namespaced and not target.namespace:
                raise no_such_path() if resource.custom else method_not_supported()
            self._refuse_while_terminating(resource)
            options = self._write_options(request)
            item = self._writer.create(
                resource, target.namespace, self._read_object(resource, request, options), options
            )
            return self._respond(resource, item, request, options, 201)
        if method == "DELETE" and "deletecollection" in resource.verbs:
            return self._delete_many(resource, target, request)
        raise method_not_supported()

    def _handle_subresource(self, resource: Resource, target: Target, request: Request) -> Response | Watch:
        if target.subresource not in resource.subresources:
            raise not_found(resource, target.name) if resource.custom else no_such_resource()
        if target.subresource == "token":
            return self._request_token(target, request)
        if target.subresource != "status":
            body = patch_body(request) if request.method == "PATCH" else body_of(request) if request.body else {}
            return self._subresources.answer(resource, target, request, body, content_type(request))
        if request.method == "GET":
            return self._reader.get(resource, target.namespace, target.name, request)
        options = self._write_options(request)
        if request.method == "PUT":
            body = self._read_object(resource, request, options)
            item = self._writer.update(resource, target.namespace, target.name, body, options, "status")
        elif request.method == "PATCH":
            item, _ = self._patcher.patch(
                resource, target.namespace, target.name, patch_body(request), content_type(request), options, "status"
            )
        else:
            raise method_not_supported()
        return self._respond(resource, item, request, options, 200)

    def _review(self, resource: Resource, request: Request) -> Json:
        body = body_of(request)
        if resource.kind == "TokenReview":
            return self._tokens.review(body)
        return reviews.review(resource, body, request.user)

    def _request_token(self, target: Target, request: Request) -> Response:
        if request.method != "POST":
            raise method_not_supported()
        return _json_response(201, self._tokens.request(target.namespace, target.name, body_of(request)))

    def _read(self, resource: Resource, response: Response) -> Response:
        custom = self.registry.custom(resource)
        # The warning of a deprecated version comes with every answer, also to a read.
        if custom is None or not custom.deprecation:
            return response
        return response._replace(headers={**response.headers, **_warning_headers([custom.deprecation])})

    @staticmethod
    def _writable_scope(resource: Resource, target: Target) -> None:
        if resource.namespaced and not target.namespace:
            raise no_such_path()

    # -- deletes -----------------------------------------------------------------------------------
    def _delete_object(self, resource: Resource, target: Target, request: Request) -> Response:
        options = delete_options(request, body_of(request) if request.body else {})
        item, gone = self._deleter.delete(resource, target.namespace, target.name, options)
        headers = {}
        # `jobStrategy.DefaultGarbageCollectionPolicy` orphans the pods of a batch/v1 Job for compatibility; the Job
        # storage's `Delete` warns of it.
        if strategy_of(resource).orphans_by_default and not options.propagation:
            headers = _warning_headers(
                [
                    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to "
                    "remove them or set "
                    "propagationPolicy=Orphan to suppress this warning"
                ]
            )
        if gone and not strategy_of(resource).returns_deleted:
            metadata = item.obj["metadata"]
            details = {
                "name": metadata["name"],
                **({"group": resource.group} if resource.group else {}),
                "kind": resource.plural,
                "uid": metadata["uid"],
            }
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            return Response(200, jsontext.dumps(body) + b"\n", headers=headers)
        return Response(200, self._presenter.one(resource, item, wanted_form(request)), headers=headers)

    def _delete_many(self, resource: Resource, target: Target, request: Request) -> Response:
        options = delete_options(request, body_of(request) if request.body else {})
        chosen = parse_selection(resource, target.namespace, request)
        found = [
            (key, item)
            for key, item in self.store.items(resource.bucket, target.namespace)
            if chosen.covers(key) and chosen.matches(item.obj)
        ]
        deleted = []
        for (namespace, name), item in found:
            try:
                self._deleter.delete(resource, namespace, name, options)
            except StatusError as error:
                # `DeleteCollection` ignores this: another client may have deleted the object meanwhile.
                if error.code != 404:
                    raise
            deleted.append(item)
        return Response(
            200,
            self._presenter.listing(
                resource, deleted, wanted_form(request), {"resourceVersion": str(self.store.revision)}
            ),
        )

    # -- bodies ------------------------------------------------------------------------------------
    def _respond(self, resource: Resource, item: Item, request: Request, options: WriteOptions, code: int) -> Response:
        custom = self.registry.custom(resource)
        if custom is not None and custom.deprecation:
            options.warnings.insert(0, custom.deprecation)
        return Response(
            code, self._presenter.one(resource, item, wanted_form(request)), headers=_warning_headers(options.warnings)
        )

    def _refuse_while_terminating(self, resource: Resource) -> None:
        custom = self.registry.custom(resource)
        if custom is None:
            return
        # `crdHandler`: while new objects come, the cleanup of a deleted definition would never end.
        definition = self.store.get(DEFINITIONS, ("", custom.definition))
        if definition is not None and "deletionTimestamp" in definition.obj["metadata"]:
            raise StatusError(
                405,
                "MethodNotAllowed",
                f'create is not supported on resources of kind "{resource.group_resource}"',
                {"group": resource.group, "kind": resource.plural},
            )

    # -- after each write --------------------------------------------------------------------------
    def _on_event(self, event: Event) -> None:
        self._watchers.dispatch(event)
        if event.bucket == DEFINITIONS:
            self._definitions.changed(event)
        # A deleted definition may have waited for this object, its last.
        elif event.type == "DELETED" and "." in event.bucket:
            self._definitions.end(event.bucket)


def _warning_headers(texts: list[str]) -> dict[str, str]:
    if not texts:
        return {}
    return {"warning": ", ".join(f'299 - "{text.translate(_ESCAPED)}"' for text in dict.fromkeys(texts))}


_ESCAPED: Mapping[int, str] = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): " "}


def _json_response(code: int, body: Json) -> Response:
    return Response(code, jsontext.dumps(body) + b"\n")
