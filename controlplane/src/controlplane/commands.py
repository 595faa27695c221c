"""The command line of each program. Pure: paths and ports in, argument lists out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AUDIT_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
# One line a request, without bodies: enough to count by user, verb and resource. A watch counts when it begins.
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""
CLIENT_QPS, CLIENT_BURST = "500", "1000"
"""Far above the programs' defaults (20 to 50 a second), which are made for clusters with many other clients: with them
a measurement would show their throttle and nothing else."""


LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one control plane, and the ports on which it listens."""

    folder: Path
    api_port: int
    etcd_port: int
    peer_port: int
    audit_log: Path
    address: str = LOOPBACK
    """The address of the API server. etcd always listens on the loopback."""

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.api_port}"

    @property
    def is_for_pods(self) -> bool:
        """Pods reach the API server, by the Service `kubernetes` and with their service account's token."""
        return self.address != LOOPBACK

    @property
    def certificates(self) -> Path:
        return self.folder / "certs"

    @property
    def certificate(self) -> Path:
        """Made by the API server at its first start: its own authority, too."""
        return self.certificates / "apiserver.crt"

    @property
    def internal_certificate(self) -> Path:
        """What etcd, the API server as its client, and the API server as a client of kubelets show and trust: any
        other user of the machine reaches these ports too, and lacks the key."""
        return self.folder / "internal.crt"

    @property
    def internal_key(self) -> Path:
        return self.folder / "internal.key"

    @property
    def signing_key(self) -> Path:
        return self.folder / "service-account.key"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.yaml"

    def kubeconfig(self, who: str) -> Path:
        return self.folder / f"{who}.kubeconfig"

    def log(self, program: str) -> Path:
        return self.folder / f"{program}.log"


ADMISSION = ("OwnerReferencesPermissionEnforcement", "PodSecurity", "ResourceQuota")
"""Enabled besides the other defaults: what users' clusters refuse must be refused here, too. OpenShift always enables
the first; the last two are on by default."""


GANG_GATES = "GenericWorkload=true,GangScheduling=true"
"""Alpha gates of 1.36, for PodGroups of Kubernetes' own scheduler. Each program accepts all of them."""
GANG_API = "scheduling.k8s.io/v1alpha2=true"


def etcd(program: Path, at: Layout) -> list[str]:
    client, peer = f"https://127.0.0.1:{at.etcd_port}", f"https://127.0.0.1:{at.peer_port}"
    certificate, key = str(at.internal_certificate), str(at.internal_key)
    return [
        str(program),
        "--data-dir",
        str(at.folder / "etcd"),
        "--log-level",
        "warn",
        # A test cluster may lose its data in a crash of the machine; waiting for the disk would slow each write.
        "--unsafe-no-fsync",
        "--listen-client-urls",
        client,
        "--advertise-client-urls",
        client,
        "--listen-peer-urls",
        peer,
        "--initial-advertise-peer-urls",
        peer,
        "--initial-cluster",
        f"default={peer}",
        # Every user of the machine reaches the port.
        "--client-cert-auth",
        "--trusted-ca-file",
        certificate,
        "--cert-file",
        certificate,
        "--key-file",
        key,
        "--peer-client-cert-auth",
        "--peer-trusted-ca-file",
        certificate,
        "--peer-cert-file",
        certificate,
        "--peer-key-file",
        key,
        "--quota-backend-bytes",
        str(4 << 30),
    ]


def kube_apiserver(program: Path, at: Layout) -> list[str]:
    return [
        str(program),
        "--etcd-servers",
        f"https://127.0.0.1:{at.etcd_port}",
        "--etcd-cafile",
        str(at.internal_certificate),
        "--etcd-certfile",
        str(at.internal_certificate),
        "--etcd-keyfile",
        str(at.internal_key),
        "--kubelet-client-certificate",
        str(at.internal_certificate),
        "--kubelet-client-key",
        str(at.internal_key),
        "--bind-address",
        at.address,
        # A machine without a default route has no other address to advertise.
        "--advertise-address",
        at.address,
        # Endpoints may not hold a loopback address.
        "--endpoint-reconciler-type",
        "lease" if at.is_for_pods else "none",
        "--secure-port",
        str(at.api_port),
        "--cert-dir",
        str(at.certificates),
        "--token-auth-file",
        str(at.tokens),
        "--authorization-mode",
        "RBAC",
        "--service-cluster-ip-range",
        "10.96.0.0/16",
        # With it every pod needs a service account and a volume with its token, which played nodes do not mount.
        *(() if at.is_for_pods else ("--disable-admission-plugins", "ServiceAccount")),
        "--enable-admission-plugins",
        ",".join(ADMISSION),
        "--service-account-key-file",
        str(at.signing_key),
        "--service-account-signing-key-file",
        str(at.signing_key),
        "--service-account-issuer",
        "https://kubernetes.default.svc",
        "--audit-policy-file",
        str(at.audit_policy),
        "--audit-log-path",
        str(at.audit_log),
        "--audit-log-maxsize",
        "4000",
        # Logs of pods come from kubelets, which have no signed certificate.
        "--kubelet-preferred-address-types",
        "InternalIP,Hostname",
    ]


def kube_controller_manager(program: Path, at: Layout) -> list[str]:
    return [
        str(program),
        "--kubeconfig",
        str(at.kubeconfig("controller-manager")),
        "--secure-port",
        "0",
        "--leader-elect=false",
        "--service-account-private-key-file",
        str(at.signing_key),
        "--allocate-node-cidrs=false",
        "--kube-api-qps",
        CLIENT_QPS,
        "--kube-api-burst",
        CLIENT_BURST,
    ]


def kube_scheduler(program: Path, at: Layout) -> list[str]:
    kubeconfig = str(at.kubeconfig("scheduler"))
    return [
        str(program),
        "--kubeconfig",
        kubeconfig,
        "--authentication-kubeconfig",
        kubeconfig,
        "--secure-port",
        "0",
        "--leader-elect=false",
        "--kube-api-qps",
        CLIENT_QPS,
        "--kube-api-burst",
        CLIENT_BURST,
    ]


def all_commands(programs: Mapping[str, Path], at: Layout, *, gangs: bool = False) -> dict[str, list[str]]:
    """In the order in which they start. `gangs`: with gang scheduling."""
    gates = ["--feature-gates", GANG_GATES] if gangs else []
    api = ["--runtime-config", GANG_API] if gangs else []
    return {
        "etcd": etcd(programs["etcd"], at),
        "kube-apiserver": [*kube_apiserver(programs["kube-apiserver"], at), *gates, *api],
        "kube-controller-manager": [*kube_controller_manager(programs["kube-controller-manager"], at), *gates],
        "kube-scheduler": [*kube_scheduler(programs["kube-scheduler"], at), *gates],
    }
