"""What a cluster's network has beside the bridges of its nodes: an address of the API server that pods reach, a
kube-proxy, and a DNS server for the names of Services. For root on Linux; `stop` leaves nothing.
"""

from __future__ import annotations

import json
import socketserver
import struct
import subprocess
import threading
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, ApiException, CoreV1Api, DiscoveryV1Api
from kubernetes.config import new_client_from_config

from controlplane import ControlPlane
from controlplane.credentials import User
from controlplane.process import Process

BRIDGE = "tjplane"
ADDRESS = "10.244.255.1"
PODS = "10.244.0.0/16"
"""Of all nodes."""
DOMAIN = "cluster.local"
PROXY = User("system:kube-proxy")
_A, _NXDOMAIN = 1, 3


class Network:
    """`prepare` before the control plane starts, `start` once a node is there."""

    def __init__(self, plane: ControlPlane, folder: Path, kube_proxy: Path, node: str) -> None:
        self._plane = plane
        self._folder = folder
        self._node = node
        self._config = folder / "kube-proxy.json"
        self._command = [str(kube_proxy), "--config", str(self._config)]
        self.proxy = Process("kube-proxy", self._command, folder / "kube-proxy.log")
        self._names: NameServer | None = None

    @staticmethod
    def prepare() -> None:
        for words in (
            ("link", "add", BRIDGE, "type", "bridge"),
            ("address", "add", f"{ADDRESS}/32", "dev", BRIDGE),
            ("link", "set", BRIDGE, "up"),
        ):
            subprocess.run(("ip", *words), check=True, capture_output=True)

    def start(self) -> None:
        config = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": str(self._plane.kubeconfig_for(PROXY.name))},
            "hostnameOverride": self._node,
            "mode": "iptables",
            "clusterCIDR": PODS,
            # 0: as the machine has them.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        }
        self._config.write_text(json.dumps(config), encoding="utf-8")
        self.proxy.start()
        self._names = NameServer(new_client_from_config(str(self._plane.kubeconfig)))  # type: ignore[no-untyped-call]
        threading.Thread(target=self._names.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Safe to call twice, and after a start that has failed."""
        if self._names is not None:
            self._names.shutdown()
            self._names.server_close()
            self._names = None
        if self._config.exists():
            self.proxy.stop(3.0)
            subprocess.run([*self._command, "--cleanup"], capture_output=True, check=False, timeout=60)
            self._config.unlink()
        subprocess.run(("ip", "link", "delete", BRIDGE), capture_output=True, check=False)


class NameServer(socketserver.ThreadingUDPServer):
    """A records of `SERVICE.NAMESPACE.svc.cluster.local`: the cluster IP, or those of a headless Service's pods;
    and of `HOST.SERVICE.NAMESPACE...`, one of these pods. Other names are not known. Nothing is cached."""

    daemon_threads = True

    def __init__(self, api: ApiClient) -> None:
        self._core, self._discovery = CoreV1Api(api), DiscoveryV1Api(api)
        super().__init__((ADDRESS, 53), _Query)

    def answer(self, query: bytes) -> bytes:
        labels, end = [], 12
        while length := query[end]:
            labels.append(query[end + 1 : end + 1 + length].decode("ascii").lower())
            end += 1 + length
        (kind,) = struct.unpack("!H", query[end + 1 : end + 3])
        found = self.find(labels)
        addresses = [a for a in found or () if kind == _A]
        flags = 0x8580 | (0 if found is not None else _NXDOMAIN)
        head = query[:2] + struct.pack("!HHHHH", flags, 1, len(addresses), 0, 0)
        record = struct.pack("!HHHIH", 0xC00C, _A, 1, 5, 4)
        return head + query[12 : end + 5] + b"".join(record + bytes(map(int, a.split("."))) for a in addresses)

    def find(self, labels: list[str]) -> list[str] | None:
        """None: there is no such name."""
        if labels[-3:] != ["svc", *DOMAIN.split(".")] or len(labels) not in (5, 6):
            return None
        *host, service, namespace = labels[:-3]
        try:
            spec: Any = self._core.read_namespaced_service(service, namespace).spec
        except ApiException:
            return None
        if spec.cluster_ip != "None" and not host:
            return [spec.cluster_ip]
        selector = f"kubernetes.io/service-name={service}"
        slices: Any = self._discovery.list_namespaced_endpoint_slice(namespace, label_selector=selector)
        endpoints = [e for s in slices.items for e in s.endpoints or () if e.conditions.ready is not False]
        addresses = [a for e in endpoints if not host or [e.hostname] == host for a in e.addresses]
        return addresses or None


class _Query(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        query, socket = self.request
        assert isinstance(self.server, NameServer)
        socket.sendto(self.server.answer(query), self.client_address)
