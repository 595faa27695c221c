"""Subresources other than status: scale, binding, eviction, log and a namespace's finalize."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from localcluster import jsontext
from localcluster.apiserver import jsonpath
from localcluster.apiserver.deleting import Deleter
from localcluster.apiserver.errors import StatusError, bad_request, conflict, method_not_supported
from localcluster.apiserver.forms import Presenter, wanted_form
from localcluster.apiserver.options import delete_options, write_options
from localcluster.apiserver.patches import apply_patch
from localcluster.apiserver.reading import Reader
from localcluster.apiserver.registry import Registry
from localcluster.apiserver.route import Target
from localcluster.apiserver.tables.base import selector_text
from localcluster.apiserver.writing import Writer, other_uid
from localcluster.objects import timestamp
from localcluster.resources import Resource
from localcluster.storage import Item, Store
from localcluster.wire import Json, Request, Response, Stream, Watch

LogSource = Callable[[str, str, str, Mapping[str, str]], Response | Watch]
STREAMS = ("exec", "portforward")
NO_UPGRADE = "Upgrade request required: this cluster streams over WebSockets (kubectl 1.31 or newer), not over SPDY"
_SCALE_VERSION = "autoscaling/v1"


class Subresources:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        presenter: Presenter,
        reader: Reader,
        writer: Writer,
        deleter: Deleter,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._registry = registry
        self._presenter = presenter
        self._reader = reader
        self._writer = writer
        self._deleter = deleter
        self._clock = clock
        self.log_source: LogSource | None = None

    def answer(
        self, resource: Resource, target: Target, request: Request, body: Any, content_type: str
    ) -> Response | Watch:
        sub, method = target.subresource, request.method
        if sub == "scale":
            return self._handle_scale(resource, target, request, body, content_type)
        if sub == "log" and method == "GET":
            return self._read_log(target.namespace, target.name, request.query)
        if sub == "binding" and method == "POST":
            return self.bind(target.namespace, target.name, body)
        if sub == "eviction" and method == "POST":
            return self._evict_pod(resource, target, request, body)
        if sub == "finalize" and method == "PUT":
            return self._finalize_namespace(resource, target, request, body)
        if sub in STREAMS and method in ("GET", "POST"):
            self.stream(target, {key: [value] for key, value in request.query.items()})
            raise bad_request(NO_UPGRADE)
        raise method_not_supported()

    # -- scale -------------------------------------------------------------------------------------
    def _handle_scale(
        self, resource: Resource, target: Target, request: Request, body: Any, content_type: str
    ) -> Response:
        item = self._reader.find(resource, target.namespace, target.name)
        # A write may set a field that is not there yet.
        present = self._scale_of(resource, item.obj, must_have=request.method == "GET")
        if request.method == "GET":
            return _json_response(200, present)
        if request.method not in ("PUT", "PATCH"):
            raise method_not_supported()
        options = write_options(request)
        wanted = body
        if request.method == "PATCH":
            kind = content_type.replace("strategic-merge", "merge").replace("apply-patch+yaml", "merge-patch+json")
            wanted = apply_patch(resource, present, body, kind)
        if not isinstance(wanted, dict) or wanted.get("metadata", {}).get("name", target.name) != target.name:
            raise bad_request(f"the name of the object does not match the name on the URL ({target.name})")
        version = wanted.get("metadata", {}).get("resourceVersion")
        if version and version != item.obj["metadata"]["resourceVersion"]:
            raise conflict(resource, target.name)
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if isinstance(replicas, bool) or not isinstance(replicas, int):
            raise _bad_scale(wanted, replicas)
        if replicas < 0 and not resource.custom:
            shown = jsontext.dumps(replicas).decode()
            cause = {
                "reason": "FieldValueInvalid",
                "message": f"Invalid value: {shown}: must be greater than or equal to 0",
                "field": "spec.replicas",
            }
            raise StatusError(
                422,
                "Invalid",
                f'Scale.autoscaling "{target.name}" is invalid: spec.replicas: {cause["message"]}',
                {"name": target.name, "group": "autoscaling", "kind": "Scale", "causes": [cause]},
            )
        new = _with_value(item.obj, self._scale_paths(resource)[0], replicas)
        new["metadata"] = dict(new["metadata"])
        new = jsontext.copied(new)
        saved = self._writer.replace(resource, item, new, options, "", "Update")
        return _json_response(200, self._scale_of(resource, saved.obj))

    def _scale_paths(self, resource: Resource) -> tuple[str, str, str]:
        custom = self._registry.custom(resource)
        if custom is None or custom.scale is None:
            return ".spec.replicas", ".status.replicas", ""
        return (
            custom.scale["specReplicasPath"],
            custom.scale["statusReplicasPath"],
            custom.scale.get("labelSelectorPath", ""),
        )

    def _scale_of(self, resource: Resource, obj: Json, *, must_have: bool = True) -> Json:
        spec_path, status_path, selector_path = self._scale_paths(resource)
        metadata = {
            name: obj["metadata"][name]
            for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if name in obj["metadata"]
        }
        status: Json = {"replicas": _read_path(obj, status_path, 0)}
        if selector_path:
            if selector := _read_path(obj, selector_path, ""):
                status["selector"] = selector
        elif not resource.custom:
            status["selector"] = selector_text(obj["spec"].get("selector"))
        replicas = _read_path(obj, spec_path, None)
        # `ScaleREST.Get` refuses where `scaleFromCustomResource` has not found the field, and does not answer 0.
        if replicas is None and resource.custom and must_have:
            raise StatusError(
                500,
                "InternalError",
                f'Internal error occurred: the spec replicas field "{spec_path}" does not exist',
                {"causes": [{"message": f'the spec replicas field "{spec_path}" does not exist'}]},
            )
        spec = {"replicas": replicas} if replicas else {}
        return {"kind": "Scale", "apiVersion": _SCALE_VERSION, "metadata": metadata, "spec": spec, "status": status}

    # -- pods --------------------------------------------------------------------------------------
    def _pods_resource(self) -> Resource:
        found = self._registry.find("", "v1", "pods")
        assert found is not None  # noqa: S101  a row of the built-in table
        return found

    def bind(self, namespace: str, name: str, body: Json) -> Response:
        """The scheduler's decision: the node's name, and the condition PodScheduled with it."""
        resource = self._pods_resource()
        name = name or body.get("metadata", {}).get("name", "")
        node = (body.get("target") or {}).get("name")
        if not node:
            raise StatusError(500, "", "target.name: Required value")
        item = self._reader.find(resource, namespace, name)
        pod = item.obj
        uid = body.get("metadata", {}).get("uid")
        if uid and uid != pod["metadata"]["uid"]:
            raise other_uid(resource, pod["metadata"], uid)
        held = pod["spec"].get("nodeName")
        # `assignPod`: 409 in both cases, for the scheduler decided on an older state of the pod.
        if "deletionTimestamp" in pod["metadata"]:
            raise _binding_conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
        if held:
            raise _binding_conflict(name, f'pod {name} is already assigned to node "{held}"')
        if pod["spec"].get("schedulingGates"):
            raise _binding_conflict(name, f"pod {name} has non-empty .spec.schedulingGates")
        status = dict(pod.get("status", {}))
        conditions = [c for c in status.get("conditions", ()) if c["type"] != "PodScheduled"]
        status["conditions"] = [
            *conditions,
            {
                "type": "PodScheduled",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(self._clock()),
            },
        ]
        annotations = {**pod["metadata"].get("annotations", {}), **(body.get("metadata", {}).get("annotations") or {})}
        metadata = {**pod["metadata"], **({"annotations": annotations} if annotations else {})}
        self._store.put(
            "pods",
            (namespace, name),
            {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status},
        )
        return _success_response(201)

    def _evict_pod(self, resource: Resource, target: Target, request: Request, body: Json) -> Response:
        item = self._reader.find(resource, target.namespace, target.name)
        options = delete_options(request, body.get("deleteOptions") or {})
        if item.obj.get("status", {}).get("phase") not in ("Succeeded", "Failed") and not options.dry_run:
            status = dict(item.obj.get("status", {}))
            conditions = [c for c in status.get("conditions", ()) if c["type"] != "DisruptionTarget"]
            status["conditions"] = [
                *conditions,
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": timestamp(self._clock()),
                    "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting",
                },
            ]
            self._store.put(
                "pods",
                (target.namespace, target.name),
                {**item.obj, "metadata": dict(item.obj["metadata"]), "status": status},
            )
        self._deleter.delete(resource, target.namespace, target.name, options)
        return _success_response(201)

    def _finalize_namespace(self, resource: Resource, target: Target, request: Request, body: Json) -> Response:
        item = self._reader.find(resource, "", target.name)
        version = body.get("metadata", {}).get("resourceVersion")
        if version and version != item.obj["metadata"]["resourceVersion"]:
            raise conflict(resource, target.name)
        finalizers = (body.get("spec") or {}).get("finalizers") or []
        spec = {**item.obj.get("spec", {}), "finalizers": finalizers}
        if not finalizers:
            del spec["finalizers"]
        new = Item({**item.obj, "metadata": dict(item.obj["metadata"]), "spec": spec}, item.revision)
        saved = self._deleter.settled(resource, new) or self._store.put("namespaces", ("", target.name), new.obj)
        return Response(200, self._presenter.one(resource, saved, wanted_form(request)))

    # -- logs --------------------------------------------------------------------------------------
    def _choose_container(self, pod: Json, query: Mapping[str, str]) -> str:
        spec, name = pod["spec"], pod["metadata"]["name"]
        names = [c["name"] for c in spec.get("containers", ())]
        inits = [c["name"] for c in spec.get("initContainers", ())]
        wanted = query.get("container", "")
        if wanted:
            if wanted not in (*names, *inits):
                raise bad_request(f"container {wanted} is not valid for pod {name}")
            return wanted
        if len(names) == 1:
            return str(names[0])
        choices = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        if inits:
            choices += f" or one of the init containers: [{' '.join(inits)}]"
        raise bad_request(choices)

    def _read_log(self, namespace: str, name: str, query: Mapping[str, str]) -> Response | Watch:
        pod = self._reader.find(self._pods_resource(), namespace, name).obj
        container = self._choose_container(pod, query)
        if not pod["spec"].get("nodeName"):
            return Response(204, b"", "text/plain")
        if self.log_source is None:
            raise StatusError(
                500,
                "InternalError",
                f"Internal error occurred: no kubelet serves the logs of node {pod['spec']['nodeName']}",
                {},
            )
        return self.log_source(namespace, name, container, query)

    def stream(self, target: Target, query: Mapping[str, Sequence[str]]) -> Stream:
        """What a stream is to be opened with. Raises StatusError."""
        pod = self._reader.find(self._pods_resource(), target.namespace, target.name).obj
        container = ""
        if target.subresource == "exec":
            container = self._choose_container(pod, {key: values[0] for key, values in query.items()})
        elif any(not 0 < _parse_port(port) < 65536 for ports in query.get("ports", ()) for port in ports.split(",")):
            raise bad_request(f"ports must be numbers from 1 to 65535, separated by commas: {query['ports'][0]}")
        if not pod["spec"].get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        if target.subresource == "exec" and not query.get("command"):
            raise bad_request("you must specify at least one command for the container")
        uid = pod["metadata"]["uid"]
        return Stream(target.subresource, target.namespace, target.name, uid, container, query)

    def log_url(self, namespace: str, name: str, query: Mapping[str, str]) -> str | None:
        """The kubelet address of the pod's node, None when it has none (then `answer` says why)."""
        item = self._store.get("pods", (namespace, name))
        node = self._store.get("nodes", ("", item.obj["spec"].get("nodeName", ""))) if item else None
        if item is None or node is None:
            return None
        status = node.obj.get("status", {})
        port = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint", {}).get("Port")
        address = next((a["address"] for a in status.get("addresses") or () if a.get("type") == "InternalIP"), None)
        if not port or not address:
            return None
        try:
            container = self._choose_container(item.obj, query)
        except StatusError:
            return None
        rest = {key: value for key, value in query.items() if key != "container"}
        return f"http://{address}:{port}/containerLogs/{namespace}/{name}/{container}" + (
            f"?{urlencode(rest)}" if rest else ""
        )


def _binding_conflict(name: str, why: str) -> StatusError:
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on pods/binding "{name}": {why}',
        {"name": name, "kind": "pods/binding"},
    )


def _parse_port(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1


def _read_path(obj: Json, path: str, default: Any) -> Any:
    try:
        found = jsonpath.compile_path(path)(obj)
    except jsonpath.PathError:  # the API server, too, takes any path that begins with a dot
        return default
    return found[0] if found else default


def _with_value(obj: Json, path: str, value: Any) -> Json:
    """A copy of `obj` with the value at a dotted path; only the dicts on the way are copied."""
    head, _, rest = path.lstrip(".").partition(".")
    head = head.replace("\\", "")
    return {**obj, head: _with_value(obj.get(head) or {}, rest, value) if rest else value}


def _bad_scale(wanted: Json, replicas: Any) -> StatusError:
    got = {str: "string", bool: "bool", list: "array", dict: "object"}.get(type(replicas), "number")
    why = f"json: cannot unmarshal {got} into Go struct field ScaleSpec.spec.replicas of type int32"
    cause = {
        "reason": "FieldValueInvalid",
        "message": f"Invalid value: {jsontext.dumps(jsontext.dumps(wanted).decode()).decode()}: {why}",
        "field": "patch",
    }
    return StatusError(422, "Invalid", f' "" is invalid: patch: {cause["message"]}', {"causes": [cause]})


def _success_response(code: int) -> Response:
    return _json_response(
        code, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    )


def _json_response(code: int, body: Json) -> Response:
    return Response(code, jsontext.dumps(body) + b"\n")
