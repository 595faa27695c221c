"""Defaults of a pod (and of a pod template), as `pkg/apis/core/v1/defaults.go` sets them. In place; safe to run
twice."""

from __future__ import annotations

from localcluster.wire import Json

_NOT_READY_SECONDS = 300
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_VOLUME_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")


def default_pod_spec(spec: Json) -> None:
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    if spec.setdefault("terminationGracePeriodSeconds", 30) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    host_network = bool(spec.get("hostNetwork"))
    for name in ("containers", "initContainers"):
        for container in spec.get(name, ()):
            _default_container(container, host_network)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def _default_volume(volume: Json) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source in _VOLUME_SOURCES_WITH_MODE:
        if source in volume:
            volume[source].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for part in (volume.get("projected") or {}).get("sources", ()):
        if "serviceAccountToken" in part:
            part["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    for item in (volume.get("downwardAPI") or {}).get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _default_container(container: Json, host_network: bool) -> None:
    resources = container.setdefault("resources", {})
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            # `SetDefaults_Pod`: a limit without a request becomes the request.
            requests.setdefault(name, value)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = "Always" if _tag(container.get("image", "")) == "latest" else "IfNotPresent"
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        # `defaultHostNetworkPorts`: two pods with the same port then conflict in the scheduler.
        if host_network and "containerPort" in port:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env", ()):
        _default_variable(variable.get("valueFrom") or {})
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http(hook["httpGet"])


def _default_variable(source: Json) -> None:
    if (reference := source.get("fieldRef")) is not None:
        reference.setdefault("apiVersion", "v1")
    if (quantity := source.get("resourceFieldRef")) is not None:
        quantity.setdefault("divisor", "0")


def _default_probe(probe: Json) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        if not probe.get(name):
            probe[name] = value
    if "httpGet" in probe:
        _default_http(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http(get: Json) -> None:
    get.setdefault("path", "/")
    get.setdefault("scheme", "HTTP")


def _tag(image: str) -> str:
    if "@" in image:
        return ""
    name, colon, tag = image.rpartition(":")
    return tag if colon and "/" not in tag and name else "latest"


def admit_pod(pod: Json) -> None:
    """What admission plug-ins that are always on add, such as tolerations for nodes in trouble."""
    spec = pod["spec"]
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    add_tolerations(spec)


def add_tolerations(spec: Json) -> None:
    """On updates too, as admission does."""
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": _NOT_READY_SECONDS}
            )


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key", key) == key and toleration.get("effect") in (None, "", "NoExecute")
