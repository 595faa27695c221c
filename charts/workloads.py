"""Puts the values of the chart into the Deployments, the StatefulSet and the NetworkPolicies of k8s/base, k8s/page
and k8s/history."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tjworker.base import JsonDict

COMPONENTS = {
    **{name: f"base/{name}.yaml" for name in ("watcher", "worker", "beat", "flower", "reporter", "redis")},
    "page": "page/page.yaml",
}
"""Component -> its file in k8s/."""
REDIS = "valkey/valkey"
K8S = Path(__file__).resolve().parent.parent / "k8s"
OPENSHIFT, HISTORY = K8S / "openshift" / "kustomization.yaml", K8S / "history" / "kustomization.yaml"
WITH_HISTORY = "or .Values.history.url .Values.history.existingSecret"
SHARED_LABELS = frozenset({"app.kubernetes.io/name", "app.kubernetes.io/part-of"})
"""The labels, for which `@@labels` is the placeholder."""


def workload(component: str, source: JsonDict) -> JsonDict:
    """A document of the component's file with marks for the values."""
    document = deepcopy(source)
    metadata = document["metadata"]
    metadata["namespace"] = "@@{{ $.Release.Namespace }}"
    metadata["labels"] = with_labels(metadata.get("labels", {}))
    if "spec" not in document:
        return document
    for claim in document["spec"].get("volumeClaimTemplates", ()):
        claim["metadata"]["labels"] = {"@@labels": None}
        claim["spec"]["resources"]["requests"]["storage"] = "@@{{ .Values.redis.storage.size }}"
        claim["spec"]["storageClassName"] = "@@with .Values.redis.storage.className"
    if "template" in document["spec"]:
        _replicas(component, document["spec"])
        _pod(component, document["spec"]["template"])
    return document


def with_labels(own: JsonDict) -> JsonDict:
    return {"@@labels": None, **{name: value for name, value in own.items() if name not in SHARED_LABELS}}


def network_policies(documents: list[JsonDict]) -> list[JsonDict]:
    """The policies of k8s/base/network.yaml, with OpenShift's DNS as another rule of `tj-to-redis`."""
    changed = deepcopy(documents)
    (to_redis,) = (document for document in changed if document["metadata"]["name"] == "tj-to-redis")
    (dns,) = _openshift_patch("NetworkPolicy")
    to_redis["spec"]["egress"].append(f"@@if .Values.openshift @@{json.dumps(dns['value'])}")
    return changed


def _openshift_patch(kind: str) -> list[JsonDict]:
    patches = yaml.safe_load(OPENSHIFT.read_text(encoding="utf-8"))["patches"]
    return [step for row in patches if row["target"]["kind"] == kind for step in yaml.safe_load(row["patch"])]


def _replicas(component: str, spec: JsonDict) -> None:
    if component == "watcher":
        spec["replicas"] = "@@{{ .Values.watcher.replicas }}"
    elif component == "worker":
        # Left out by default: `helm upgrade` must not undo an autoscaler. 0 is a number, too.
        spec["replicas"] = '@@if not (kindIs "invalid" .Values.worker.replicas) @@{{ .Values.worker.replicas }}'


def _pod(component: str, template: JsonDict) -> None:
    template["metadata"]["labels"] = with_labels(template["metadata"]["labels"])
    spec = template["spec"]
    (container,) = spec["containers"]
    if component == "redis":
        template["metadata"]["annotations"] = "@@with .Values.podAnnotations"
    else:
        # A changed setting restarts the pods, as the name by content of kustomize does.
        settings = 'include (print .Template.BasePath "/settings.yaml") . | sha256sum'
        template["metadata"]["annotations"] = (
            f'@@yaml (merge (dict "checksum/settings" ({settings})) .Values.podAnnotations)'
        )
        container["image"] = '@@{{ include "trainingjob-operator.image" . }}'
        container["imagePullPolicy"] = "@@with .Values.image.pullPolicy"
        spec["imagePullSecrets"] = "@@with .Values.image.pullSecrets"
    container["resources"] = f"@@yaml .Values.{component}.resources"
    # Jobs do not need the page: it may wait for room, as with kustomize.
    if component != "page":
        spec["priorityClassName"] = "@@with .Values.priorityClass.name"
    for name in ("nodeSelector", "tolerations", "affinity"):
        spec[name] = f"@@with .Values.{name}"
    if component == "redis":
        _redis(spec, container)
    if component == "worker":
        _worker(container)
    if component in ("watcher", "page"):
        _history(template)


def _history(template: JsonDict) -> None:
    """What the component k8s/history adds, where a database is named."""
    patch = yaml.safe_load(HISTORY.read_text(encoding="utf-8"))["patches"][0]["patch"]
    for step in yaml.safe_load(patch):
        place: Any = template
        for name in step["path"].removeprefix("/spec/template/").removesuffix("/-").split("/"):
            place = place[int(name) if isinstance(place, list) else name]
        value = json.dumps(step["value"]).replace(
            '"tj-history"', '{{ include "trainingjob-operator.history" $ | quote }}'
        )
        place.append(f"@@if {WITH_HISTORY} @@{value}")


def _worker(container: JsonDict) -> None:
    command: list[str] = container["command"]
    command[command.index("--concurrency") + 1] = "@@{{ .Values.worker.concurrency | quote }}"
    (reports,) = (row for row in container["env"] if row["name"] == "TJ_REPORTS_URL")
    url = reports["value"]
    reports["value"] = f'@@{{{{ ternary "{url}" "" .Values.reporter.enabled | quote }}}}'


def _redis(spec: JsonDict, container: JsonDict) -> None:
    container["image"] = "@@{{ .Values.redis.image }}"
    arguments: list[str] = container["args"]
    arguments[arguments.index("--maxmemory") + 1] = "@@{{ .Values.redis.maxMemory | quote }}"
    context = spec["securityContext"]
    # OpenShift chooses the user; its constraint refuses pods that name one.
    for step in _openshift_patch("StatefulSet"):
        name = step["path"].rpartition("/")[2]
        context[name] = f"@@if not .Values.openshift @@{context[name]}"
