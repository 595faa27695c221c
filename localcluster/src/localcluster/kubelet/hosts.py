"""Host names: each pod has a hosts file with its own name, rewritten in place as services and their pods come and go.

Addresses come from the pods that a service selects, not from its EndpointSlices: pods here have addresses of the
loopback, which a real API server allows in no EndpointSlice. Only a service without selector is looked up there. Ready
pods count, or all with publishNotReadyAddresses.

The file is bind-mounted over /etc/hosts of each container, so it must stay the same inode. Names of services:
`<svc>` in the service's own namespace, `<svc>.<ns>`, `<svc>.<ns>.svc` and `<svc>.<ns>.svc.cluster.local` everywhere,
and `<hostname>.` before each for pods with a hostname. A pod's own name, and its hostAliases, are as the kubelet writes
them (`managedHostsFileContent`). Writes only what has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import is_ready, is_terminal, matches
from localcluster.wire import Json

SERVICE_LABEL = "kubernetes.io/service-name"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
HEADER = "# Managed by localcluster: this pod, then services, then the machine's own names.\n"
LONGEST_NAME = 63


def names_of(service: str, namespace: str, *, local: bool) -> list[str]:
    short = [service] if local else []
    return [*short, f"{service}.{namespace}", f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local"]


def lines_for(namespace: str, services: Iterable[Json], pods: Iterable[Json], slices: Iterable[Json]) -> list[str]:
    """The lines for one namespace's file, in a stable order."""
    lines: dict[str, None] = {}
    pods_of: dict[str, list[Json]] = {}
    for pod in sorted(pods, key=key_of):
        pods_of.setdefault(pod["metadata"]["namespace"], []).append(pod)
    slices = sorted(slices, key=key_of)
    for service in sorted(services, key=key_of):
        meta = service["metadata"]
        names = names_of(meta["name"], meta["namespace"], local=meta["namespace"] == namespace)
        mine = pods_of.get(meta["namespace"], ())
        found = (
            _selected_addresses(service, mine)
            if service["spec"].get("selector")
            else _sliced_addresses(service, slices)
        )
        for hostname, address in found:
            own = [f"{hostname}.{name}" for name in names] if hostname else []
            lines[f"{address}\t{' '.join([*own, *names])}"] = None
    return list(lines)


def _selected_addresses(service: Json, pods: Iterable[Json]) -> Iterator[tuple[str, str]]:
    """(host name or '', address) of each pod that serves."""
    selector, unready = (
        {"matchLabels": service["spec"]["selector"]},
        bool(service["spec"].get("publishNotReadyAddresses")),
    )
    for pod in pods:
        address = (pod.get("status") or {}).get("podIP")
        serves = unready or (is_ready(pod) and "deletionTimestamp" not in pod["metadata"])
        if address and serves and not is_terminal(pod) and matches(selector, pod["metadata"].get("labels")):
            # DNS gives a pod its own name below a service only where its subdomain names that service.
            named = pod["spec"].get("subdomain") == service["metadata"]["name"]
            yield pod["spec"].get("hostname", "") if named else "", address


def _sliced_addresses(service: Json, slices: Iterable[Json]) -> Iterator[tuple[str, str]]:
    for each in slices:
        meta = each["metadata"]
        of = (meta["namespace"], (meta.get("labels") or {}).get(SERVICE_LABEL))
        if of != (service["metadata"]["namespace"], service["metadata"]["name"]):
            continue
        for endpoint in each.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                yield from ((endpoint.get("hostname", ""), address) for address in endpoint["addresses"])


def hostname_of(pod: Json) -> str:
    """The host name that the kubelet gives: spec.hostname, else the pod's name, cut to the longest host name."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"][:LONGEST_NAME].rstrip("-."))


def own_lines(pod: Json, address: str) -> list[str]:
    spec, name = pod["spec"], hostname_of(pod)
    domain = f"{spec['subdomain']}.{pod['metadata']['namespace']}.svc.cluster.local" if spec.get("subdomain") else ""
    names = f"{name}.{domain}\t{name}" if domain else name
    aliases = [f"{alias['ip']}\t" + "\t".join(alias.get("hostnames") or ()) for alias in spec.get("hostAliases") or ()]
    return [f"{address}\t{names}", *aliases]


@dataclass(slots=True)
class _File:
    path: Path
    namespace: str
    own: list[str]
    content: bytes = b""


class HostsFiles(KeyedMachine):
    """Keys are namespaces. `keep` writes a pod's file at once, so that its containers can be started on it."""

    name = "hosts-files"

    def __init__(self, informers: Informers, machine_hosts: str) -> None:
        super().__init__(informers.pump)
        self._machine_hosts = machine_hosts
        self._services = informers.get("/api/v1/services")
        self._pods = informers.get("/api/v1/pods")
        self._slices = informers.get(SLICES)
        self._files: dict[str, _File] = {}
        self._services.subscribe(lambda old, new: self._changed(old, new, _of_service))
        self._pods.subscribe(lambda old, new: self._changed(old, new, _of_pod))
        self._slices.subscribe(lambda old, new: self._changed(old, new, _of_slice))

    def _changed(self, old: Json | None, new: Json | None, look: Callable[[Json], object]) -> None:
        if old is not None and new is not None and old is not new and look(old) == look(new):
            return
        for namespace in {each.namespace for each in self._files.values()}:
            self.enqueue(namespace)

    def keep(self, pod: Json, address: str, path: Path) -> None:
        """From here on this file is the pod's. Safe to call twice."""
        meta = pod["metadata"]
        if meta["uid"] not in self._files:
            self._files[meta["uid"]] = _File(path, meta["namespace"], own_lines(pod, address))
            self.reconcile(meta["namespace"], 0.0)

    def forget(self, uid: str) -> None:
        self._files.pop(uid, None)

    def reconcile(self, key: str, now: float) -> None:
        lines = lines_for(key, self._services.store.values(), self._pods.store.values(), self._slices.store.values())
        for each in self._files.values():
            if each.namespace != key:
                continue
            text = HEADER + "".join(line + "\n" for line in (*each.own, *lines)) + self._machine_hosts
            content = text.encode()
            if each.content != content:
                rewrite_in_place(each.path, content)
                each.content = content


def _of_service(service: Json) -> object:
    return service["spec"].get("selector"), service["spec"].get("publishNotReadyAddresses")


def _of_pod(pod: Json) -> object:
    meta = pod["metadata"]
    address = (pod.get("status") or {}).get("podIP")
    return address, is_ready(pod), is_terminal(pod), "deletionTimestamp" in meta, meta.get("labels")


def _of_slice(each: Json) -> object:
    return each.get("endpoints")


def rewrite_in_place(path: Path, content: bytes) -> None:
    """One write, padded to the old length first, so that a reader hardly ever sees half a file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        longer = os.fstat(fd).st_size - len(content)
        os.pwrite(fd, content + b"\n" * max(0, longer), 0)
        os.ftruncate(fd, len(content))
    finally:
        os.close(fd)
