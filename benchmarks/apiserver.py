"""etcd and kube-apiserver of the benchmark: nothing else, with an audit log and one token for each client.

No scheduler, no controllers: pods come with their node, and nothing but the operator is to be measured. The programs
are those of `make control-plane` (or KUBEBUILDER_ASSETS). Ends with its processes.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import yaml

from benchmarks.audit import AUDIT_MEGABYTES, POLICY, AuditLog
from benchmarks.processes import Processes
from benchmarks.wire import Connection, Json, Server
from controlplane.binaries import locate
from controlplane.releases import release

USERS = ("client", "player", "watcher", "worker", "peer")
START_SECONDS = 60.0
NODE = "bench-node"
JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"


class ApiServer:
    def __init__(self, folder: Path, processes: Processes, crds: Path) -> None:
        self._folder = folder
        self._processes = processes
        self._crds = crds
        self.server = Server("127.0.0.1", _free_port())
        self.audit = AuditLog(folder / "audit.log")

    def start(self) -> None:
        programs = locate(release())
        absent = [name for name in ("etcd", "kube-apiserver") if name not in programs]
        if absent:
            raise SystemExit(
                f"{' and '.join(absent)} is not there: run `make control-plane` once, or set "
                "KUBEBUILDER_ASSETS to a folder that has it"
            )
        self._write_files()
        etcd = self._start_etcd(programs["etcd"])
        here = self._folder
        self._processes.start(
            "kube-apiserver",
            [
                str(programs["kube-apiserver"]),
                *_flags(
                    etcd_servers=etcd,
                    secure_port=self.server.port,
                    bind_address="127.0.0.1",
                    cert_dir=here / "certs",
                    token_auth_file=here / "tokens.csv",
                    authorization_mode="RBAC",
                    disable_admission_plugins="ServiceAccount",
                    service_account_key_file=here / "sa.key",
                    service_account_signing_key_file=here / "sa.key",
                    service_account_issuer="https://kubernetes.default",
                    service_cluster_ip_range="10.0.0.0/16",
                    audit_policy_file=here / "audit.yaml",
                    audit_log_path=here / "audit.log",
                    audit_log_maxsize=AUDIT_MEGABYTES,
                ),
            ],
        )
        self._until("the API server is ready", self._ready)
        self._until(
            "the namespace is there", lambda: self.connection().send("GET", "/api/v1/namespaces/default")[0] == 200
        )
        self._prepare()

    def serve(self, crds: Path, path: str) -> None:
        """Returns once it lists there."""
        client = self.connection()
        for document in yaml.safe_load_all(crds.read_text()):
            client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document)
        # A new kind answers 404, then 429 while its storage is being made.
        self._until("the CRD is served", lambda: client.send("GET", path)[0] == 200)

    def _start_etcd(self, program: Path) -> str:
        url = f"http://127.0.0.1:{_free_port()}"
        self._processes.start(
            "etcd",
            [
                str(program),
                *_flags(
                    data_dir=self._folder / "etcd",
                    unsafe_no_fsync=True,
                    listen_client_urls=url,
                    advertise_client_urls=url,
                    listen_peer_urls=f"http://127.0.0.1:{_free_port()}",
                    log_level="warn",
                ),
            ],
        )
        return url

    def connection(self, user: str = "client") -> Connection:
        return Connection(self.server, user)

    def kubeconfig(self, user: str) -> Path:
        return self._folder / f"{user}.kubeconfig"

    def _ready(self) -> bool:
        with suppress(OSError, HTTPException):
            return self.connection().send("GET", "/api/v1/namespaces")[0] == 200
        return False

    def _until(self, what: str, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not true():
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"waited {START_SECONDS:.0f} s: {what}? {self._processes.log('kube-apiserver')[-1500:]}"
                )
            time.sleep(0.1)

    def _write_files(self) -> None:
        subprocess.run(
            ["openssl", "genrsa", "-out", str(self._folder / "sa.key"), "2048"], check=True, capture_output=True
        )
        (self._folder / "audit.yaml").write_text(POLICY)
        (self._folder / "tokens.csv").write_text("".join(f"{u},{u},{u},system:masters\n" for u in USERS))
        for user in USERS:
            self.kubeconfig(user).write_text(
                f"apiVersion: v1\nkind: Config\ncurrent-context: bench\n"
                f'clusters: [{{name: bench, cluster: {{server: "{self.server.url}", insecure-skip-tls-verify:'
                " true}}]\n"
                f"users: [{{name: bench, user: {{token: {user}}}}}]\n"
                f"contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]\n"
            )

    def _prepare(self) -> None:
        client = self.connection()
        self.serve(self._crds, JOBS)
        client.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        client.merge_patch(f"/api/v1/nodes/{NODE}/status", {"status": node_status()})


def node_status() -> Json:
    room = {"cpu": "100000", "memory": "1000000Gi", "pods": "1000000"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Bench",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    }
    return {"capacity": room, "allocatable": room, "conditions": [ready]}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _flags(**flags: object) -> list[str]:
    """`--data-dir=/x --unsafe-no-fsync=true`"""
    return [
        f"--{name.replace('_', '-')}={str(value).lower() if value is True else value}" for name, value in flags.items()
    ]
