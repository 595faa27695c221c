"""How a training program reports its progress: where to, and by which token. Pure.

The names are Kubeflow Trainer's (pkg/runtime/framework/plugins/trainjobstatus and pkg/statusserver of
kubeflow/trainer), so that its callbacks work unchanged: three environment variables, and one folder with the
certificate authority of the server and the token of the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tjworker.api.kinds import KNOWN_KINDS
from tjworker.base import GroupResource, Invalid, JobName, parse_key

SERVER_URL = "KUBEFLOW_TRAINER_SERVER_URL"
CA_CERT = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105  the name of a variable
FOLDER = "/var/run/secrets/kubeflow/trainer"
VOLUME = "kubeflow-trainer-token"
CA_FILE, TOKEN_FILE = "ca.crt", "token"
CA_ANNOTATION = "elasticdeeplearning.ai/reports-ca"
"""The pod's annotation with the server's authority, PEM. A downwardAPI volume makes it a file, without a ConfigMap."""
TOKEN_SECONDS = 3600
_AUDIENCE = "trainer-status.elasticdeeplearning.ai/"


@dataclass(frozen=True, slots=True)
class ReportServer:
    """The server to which the pods of every job report."""

    url: str
    """`https://host:port`, without a path."""
    ca_pem: str


def audience(job: JobName) -> str:
    """The audience of a token that reports for this job. The token is valid for no other job or server."""
    return _AUDIENCE + job.key


def status_path(job: JobName) -> str:
    kind = KNOWN_KINDS[job.resource]
    return f"/apis/{kind.group}/{kind.versions[0]}/namespaces/{job.namespace}/{kind.plural}/{job.name}/status"


def job_of_path(path: str) -> JobName | None:
    """The job whose `status_path` this is, in any version of its kind, behind any prefix; None when it is no job's."""
    # Decoded after the split: an encoded slash cannot add a part.
    parts = [unquote(part) for part in path.split("/")]
    if len(parts) < 8 or parts[-8] != "apis" or parts[-5] != "namespaces" or parts[-1] != "status":
        return None
    group, version, namespace, plural, name = parts[-7], parts[-6], parts[-4], parts[-3], parts[-2]
    resource = GroupResource(f"{plural}.{group}")
    if resource not in KNOWN_KINDS or version not in KNOWN_KINDS[resource].versions:
        return None
    try:
        return parse_key(f"{resource}/{namespace}/{name}")
    except Invalid:
        return None


def report_environment(server: ReportServer, job: JobName) -> dict[str, str]:
    return {
        SERVER_URL: server.url.rstrip("/") + status_path(job),
        CA_CERT: f"{FOLDER}/{CA_FILE}",
        TOKEN: f"{FOLDER}/{TOKEN_FILE}",
    }


def report_volume(job: JobName) -> dict[str, Any]:
    """The pod's own token, which the kubelet renews, and the authority of the server."""
    # The API server binds the token to the pod, so that a TokenReview names the pod, and refuses it when the pod is
    # gone.
    token = {"audience": audience(job), "expirationSeconds": TOKEN_SECONDS, "path": TOKEN_FILE}
    ca = {"path": CA_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{CA_ANNOTATION}']"}}
    sources: list[Mapping[str, Any]] = [{"serviceAccountToken": token}, {"downwardAPI": {"items": [ca]}}]
    return {"name": VOLUME, "projected": {"sources": sources}}


def report_mount() -> dict[str, Any]:
    return {"name": VOLUME, "mountPath": FOLDER, "readOnly": True}
