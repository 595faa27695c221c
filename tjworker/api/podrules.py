"""Kubernetes' rules for a pod template that no schema states: which fields exclude each other, which names are valid.

Pure. Each rule is one of kubernetes/pkg/apis/core/validation/validation.go (named at each rule), and
an image's name follows github.com/distribution/reference, which the kubelet parses it with (InvalidImageName). A
template that breaks none can still be refused: quotas, policies and admission need a cluster. A part of another shape
than a Pod's is skipped here, for its shape is reported elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from tjworker.api.model import FieldError
from tjworker.api.podtemplate import DNS_LABEL, DNS_SUBDOMAIN, LABEL_VALUE
from tjworker.api.quantity import milli
from tjworker.base import Json, mapping

_MAX_INT32 = 2**31 - 1
_MAX_LABEL = 63
_MAX_ANNOTATIONS = 256 << 10
_MAX_IMAGE = 255
_is_dns_label = re.compile(DNS_LABEL).fullmatch
_is_dns_subdomain = re.compile(DNS_SUBDOMAIN).fullmatch
_is_label_value = re.compile(LABEL_VALUE).fullmatch
_is_name_part = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]").fullmatch
# IsValidPortName: the names of services at IANA (RFC 6335), in lower case.
_is_port_name = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*").fullmatch
# As in the grammar of distribution/reference: a host name in any case, or an IPv6 address in brackets.
_DOMAIN = (
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])"
)
_PATH = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_is_image = re.compile(
    rf"(?P<name>(?:{_DOMAIN}(?::[0-9]+)?/)?{_PATH}(?:/{_PATH})*)"
    r"(?::[0-9A-Za-z_][0-9A-Za-z_.-]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
).fullmatch
# ParseNormalizedNamed refuses such a name: it would be the ID of an image, which the container runtime has or has not.
_is_image_id = re.compile(r"[0-9a-f]{64}").fullmatch
_SUBDOMAINS = ("serviceAccountName", "serviceAccount", "priorityClassName", "runtimeClassName", "nodeName")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_DEVICES = {"persistentVolumeClaim", "ephemeral"}
_STANDARD = ("cpu", "memory", "ephemeral-storage")


def template_rules(template: object, path: str) -> Iterator[FieldError]:
    """Every rule that the template breaks. `path`: of the template, as kubectl prints it."""
    body = mapping(template)
    yield from _metadata_rules(mapping(body.get("metadata")), f"{path}.metadata")
    yield from _spec_rules(mapping(body.get("spec")), f"{path}.spec")


def image_error(image: str) -> str:
    """Why no registry can have an image of this name; '' if one can (ParseNormalizedNamed)."""
    # The API server accepts any text as an image. Without these rules the job would be created, and its pods would stay
    # in InvalidImageName.
    if image != "".join(image.split()):
        return f"{image!r}: the name of an image has no spaces"
    found = _is_image(image)
    if found is not None and not _is_image_id(image):
        return (
            "" if len(found["name"]) <= _MAX_IMAGE else f"{image[:80]!r}: its name has more than {_MAX_IMAGE} letters"
        )
    # ParseNormalizedNamed also has words of its own for this mistake: the general ones would send the user to look for
    # another.
    if image != image.lower() and _is_image(image.lower()):
        return f"{image!r}: the name of a repository is in lower case"
    return f"{image!r}: is not the name of an image, such as registry.example.com/team/image:tag"


def resource_rules(resources: object, path: str) -> Iterator[FieldError]:
    """The errors of a container's requests and limits (ValidateContainerResourceRequirements)."""
    limits, requests = (mapping(mapping(resources).get(part)) for part in ("limits", "requests"))
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount_rules(str(name), amount, f"{path}.{part}.{name}")
    for name, amount in requests.items():
        asked, most = _amount(amount), _amount(limits.get(name))
        # The shape of a quantity is reported elsewhere: a comparison would add a second error for the same value.
        if asked is None or (name in limits and most is None):
            continue
        where = f"{path}.requests.{name}"
        if _overcommitted(str(name)):
            if most is not None and asked > most:
                yield FieldError(where, f"{amount}: must be at most limits.{name} ({limits[name]})")
        elif most is None:
            yield FieldError(where, f"{amount}: needs the same in limits.{name}, as {name} cannot be overcommitted")
        elif asked != most:
            yield FieldError(
                where, f"{amount}: must equal limits.{name} ({limits[name]}), as it cannot be overcommitted"
            )
    names = {str(name) for name in (*limits, *requests)}
    if not names & {"cpu", "memory"} and any(name.startswith("hugepages-") for name in names):
        yield FieldError(path, "hugepages also need a request or a limit of cpu or memory")


def _amount_rules(name: str, amount: object, path: str) -> Iterator[FieldError]:
    if "/" not in name:
        # Without a domain only Kubernetes' own names are valid: `gpu` is no resource.
        if name not in _STANDARD and not name.startswith("hugepages-"):
            yield FieldError(
                path, f"{name} is not a resource of containers: {', '.join(_STANDARD)}, or one like nvidia.com/gpu"
            )
    elif why := _key_error(name):
        yield FieldError(path, why)
    value = _amount(amount)
    if value is not None and value < 0:
        yield FieldError(path, f"{amount}: must not be negative")
    # A device plugin allocates whole devices.
    elif value is not None and "/" in name and value % 1000:
        yield FieldError(path, f"{amount}: must be a whole number, as {name} is counted in pieces")


def _overcommitted(resource: str) -> bool:
    """IsOvercommitAllowed: requests of it may be below the limits."""
    is_native = "/" not in resource or "kubernetes.io/" in resource
    return is_native and not resource.startswith("hugepages-")


def _amount(value: object) -> int | None:
    """In thousandths; None for none, and for what is not a quantity."""
    try:
        return None if value is None else milli(value)
    except ValueError:
        return None


# -- metadata ----------------------------------------------------------------------------------------
def _metadata_rules(metadata: Json, path: str) -> Iterator[FieldError]:
    """ValidateLabels and ValidateAnnotations."""
    yield from _label_rules(metadata.get("labels"), f"{path}.labels")
    annotations = mapping(metadata.get("annotations"))
    for key in annotations:
        # Case does not matter in the key of an annotation. In the domain of a label's key it does.
        if why := _key_error(str(key).lower()):
            yield FieldError(f"{path}.annotations.{key}", why)
    # Bytes of keys and values together, as ValidateAnnotationsSize counts them.
    size = sum(len(str(part).encode()) for pair in annotations.items() for part in pair)
    if size > _MAX_ANNOTATIONS:
        yield FieldError(f"{path}.annotations", f"{size} bytes: all annotations together may have {_MAX_ANNOTATIONS}")


def _label_rules(labels: object, path: str) -> Iterator[FieldError]:
    for key, value in mapping(labels).items():
        if why := _key_error(str(key)):
            yield FieldError(f"{path}.{key}", why)
        if isinstance(value, str) and not (_is_label_value(value) and len(value) <= _MAX_LABEL):
            yield FieldError(
                f"{path}.{key}",
                f"{value[:80]!r}: at most {_MAX_LABEL} letters, digits, '-', '_' and '.', with a letter or digit at"
                " both ends",
            )


def _key_error(key: str) -> str:
    """IsQualifiedName."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (_is_dns_subdomain(prefix) and len(prefix) <= 253):
        return f"{key[:80]!r}: the part before the / must be a domain in lower case, such as example.com"
    if not (_is_name_part(name) and len(name) <= _MAX_LABEL):
        return (
            f"{key[:80]!r}: a key has at most {_MAX_LABEL} letters, digits, '-', '_' and '.', with a letter or digit at"
            " both ends, and may have a domain and a / before that"
        )
    return ""


# -- the pod -----------------------------------------------------------------------------------------
def _spec_rules(spec: Json, path: str) -> Iterator[FieldError]:
    yield from _volume_rules(spec, path)
    yield from _container_names(spec, path)
    volumes = {str(v["name"]): v for v in _maps(spec.get("volumes")) if "name" in v}
    # Ephemeral containers are left out: a template cannot have them, because only a running pod gets them.
    for part in ("containers", "initContainers"):
        for index, container in _numbered(spec.get(part)):
            yield from _container_rules(container, f"{path}.{part}[{index}]", volumes, init=part == "initContainers")
    yield from _port_conflicts(spec, path)
    yield from _label_rules(spec.get("nodeSelector"), f"{path}.nodeSelector")
    # These name objects of the cluster, whose names may have dots. The two fields below become host names, which may
    # not.
    for name in _SUBDOMAINS:
        value = spec.get(name)
        if isinstance(value, str) and value and not (_is_dns_subdomain(value) and len(value) <= 253):
            yield FieldError(f"{path}.{name}", f"{value[:80]!r}: lower-case letters, digits, '-' and '.'")
    for name in ("hostname", "subdomain"):
        value = spec.get(name)
        if isinstance(value, str) and value and not (_is_dns_label(value) and len(value) <= _MAX_LABEL):
            yield FieldError(f"{path}.{name}", f"{value[:80]!r}: lower-case letters, digits and '-'")
    deadline = spec.get("activeDeadlineSeconds")
    if _is_number(deadline) and not 1 <= deadline <= _MAX_INT32:
        yield FieldError(f"{path}.activeDeadlineSeconds", f"{deadline}: must be from 1 to {_MAX_INT32}")
    # ValidatePodSecurityContext: a pod has one process namespace.
    if spec.get("hostPID") is True and spec.get("shareProcessNamespace") is True:
        yield FieldError(f"{path}.shareProcessNamespace", "cannot be true together with hostPID")
    dns = mapping(spec.get("dnsConfig"))
    # validatePodDNSConfig: the pod could resolve no name.
    if spec.get("dnsPolicy") == "None" and not dns.get("nameservers"):
        yield FieldError(f"{path}.dnsConfig.nameservers", "dnsPolicy None needs at least one name server")
    for index, toleration in _numbered(spec.get("tolerations")):
        yield from _toleration_rules(toleration, f"{path}.tolerations[{index}]")


def _toleration_rules(toleration: Json, path: str) -> Iterator[FieldError]:
    """ValidateTolerations."""
    key, operator = toleration.get("key"), toleration.get("operator") or "Equal"
    # An empty key is valid: with Exists it tolerates every taint.
    if key and isinstance(key, str) and (why := _key_error(key)):
        yield FieldError(f"{path}.key", why)
    if not key and operator != "Exists":
        yield FieldError(f"{path}.operator", f"{operator}: must be Exists where key is empty")
    # Exists looks at the key alone: the value would promise more.
    if operator == "Exists" and toleration.get("value"):
        yield FieldError(f"{path}.value", f"{toleration['value']}: must be empty where operator is Exists")
    # Only NoExecute evicts a pod that runs, so only there is a time to wait.
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield FieldError(f"{path}.effect", "must be NoExecute where tolerationSeconds is set")


def _volume_rules(spec: Json, path: str) -> Iterator[FieldError]:
    """ValidateVolumes."""
    first: dict[str, int] = {}
    for index, volume in _numbered(spec.get("volumes")):
        where, name = f"{path}.volumes[{index}]", volume.get("name")
        if isinstance(name, str):
            if not (_is_dns_label(name) and len(name) <= _MAX_LABEL):
                yield FieldError(f"{where}.name", f"{name[:80]!r}: lower-case letters, digits and '-'")
            if (other := first.setdefault(name, index)) != index:
                yield FieldError(f"{where}.name", f"{name}: volumes[{other}] has this name already; rename one of them")
        sources = [str(key) for key, value in volume.items() if key != "name" and value is not None]
        # A volume without any source is valid: the API server makes it an emptyDir.
        if len(sources) > 1:
            yield FieldError(where, f"{' and '.join(sources)}: a volume has one source; make two volumes of it")
        folder = mapping(volume.get("hostPath")).get("path")
        if isinstance(folder, str) and ".." in folder.split("/"):
            yield FieldError(f"{where}.hostPath.path", f"{folder!r}: must not have '..' in it")


def _container_names(spec: Json, path: str) -> Iterator[FieldError]:
    """Over both lists (validateInitContainers)."""
    first: dict[str, str] = {}
    for part in ("containers", "initContainers"):
        for index, container in _numbered(spec.get(part)):
            name, where = container.get("name"), f"{part}[{index}]"
            if isinstance(name, str) and (other := first.setdefault(name, where)) != where:
                yield FieldError(f"{path}.{where}.name", f"{name}: {other} has this name already; rename one of them")


def _port_conflicts(spec: Json, path: str) -> Iterator[FieldError]:
    """checkHostPortConflicts, and ValidateHostNetwork."""
    taken: dict[tuple[Any, ...], str] = {}
    for index, container in _numbered(spec.get("containers")):
        for number, port in _numbered(container.get("ports")):
            where, host = f"containers[{index}].ports[{number}]", port.get("hostPort")
            # Port 0 means that no port of the node is asked for.
            if not host or isinstance(host, bool):
                continue
            # As AccumulateUniqueHostPorts: the same number of another protocol or address is another port. Init
            # containers do not count, because they run one by one.
            key = (host, port.get("protocol") or "TCP", port.get("hostIP"))
            if (other := taken.setdefault(key, where)) != where:
                yield FieldError(f"{path}.{where}.hostPort", f"{host}: {other} takes this port of the node already")
            if spec.get("hostNetwork") is True and host != port.get("containerPort"):
                yield FieldError(
                    f"{path}.{where}.hostPort",
                    f"{host}: must equal containerPort ({port.get('containerPort')}) on hostNetwork; leave it out",
                )


# -- a container -------------------------------------------------------------------------------------
def _container_rules(container: Json, path: str, volumes: Mapping[str, Json], *, init: bool) -> Iterator[FieldError]:
    image = container.get("image")
    if image is None or image == "":
        yield FieldError(f"{path}.image", "is missing")
    elif isinstance(image, str) and (why := image_error(image)):
        yield FieldError(f"{path}.image", why)
    yield from resource_rules(container.get("resources"), f"{path}.resources")
    yield from _port_rules(container.get("ports"), f"{path}.ports")
    for index, variable in _numbered(container.get("env")):
        yield from _variable_rules(variable, f"{path}.env[{index}]")
    yield from _mount_rules(container, path, volumes)
    # A sidecar is in the list of init containers and runs like a main container, so it may have probes and hooks.
    always = init and container.get("restartPolicy") == "Always"
    for name in (*_PROBES, "lifecycle"):
        if container.get(name) is None:
            continue
        if init and not always:
            yield FieldError(
                f"{path}.{name}",
                "an init container runs to its end: it has none, unless it is a sidecar (restartPolicy Always)",
            )
        elif name == "lifecycle":
            for hook, handler in mapping(container[name]).items():
                if isinstance(handler, Mapping):
                    yield from _handler_rules(handler, f"{path}.{name}.{hook}")
        else:
            yield from _probe_rules(mapping(container[name]), name, f"{path}.{name}")
    security = mapping(container.get("securityContext"))
    # ValidateSecurityContext: a privileged container has nothing left to escalate to.
    if security.get("privileged") is True and security.get("allowPrivilegeEscalation") is False:
        yield FieldError(f"{path}.securityContext.allowPrivilegeEscalation", "cannot be false where privileged is true")


def _port_rules(ports: object, path: str) -> Iterator[FieldError]:
    """validateContainerPorts."""
    first: dict[str, int] = {}
    for index, port in _numbered(ports):
        name = port.get("name")
        if isinstance(name, str) and name:
            if len(name) > 15 or not _is_port_name(name):
                yield FieldError(
                    f"{path}[{index}].name",
                    f"{name[:80]!r}: at most 15 lower-case letters, digits and single '-', at least one letter",
                )
            if (other := first.setdefault(name, index)) != index:
                yield FieldError(f"{path}[{index}].name", f"{name}: ports[{other}] has this name already; rename one")
        host = port.get("hostPort")
        if _is_number(host) and not 0 <= host <= 65535:
            yield FieldError(f"{path}[{index}].hostPort", f"{host}: must be from 1 to 65535")


def _variable_rules(variable: Json, path: str) -> Iterator[FieldError]:
    """ValidateEnv."""
    name, source = variable.get("name"), variable.get("valueFrom")
    # The relaxed rule (IsRelaxedEnvVarName), which Kubernetes 1.34 and later always apply; programs such as Java's read
    # names with dots.
    if isinstance(name, str) and ("=" in name or not name.isprintable() or not name.isascii()):
        yield FieldError(f"{path}.name", f"{name[:80]!r}: printable ASCII without '='")
    if not isinstance(source, Mapping):
        return
    if variable.get("value") not in (None, ""):
        yield FieldError(
            f"{path}.valueFrom", "is set together with value: a variable has one of them; remove the other"
        )
    sources = [str(key) for key, value in source.items() if value is not None]
    if not sources:
        yield FieldError(f"{path}.valueFrom", "needs fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef")
    elif len(sources) > 1:
        yield FieldError(f"{path}.valueFrom", f"{' and '.join(sources)}: a variable has one source; remove the others")


def _mount_rules(container: Json, path: str, volumes: Mapping[str, Json]) -> Iterator[FieldError]:
    """ValidateVolumeMounts and ValidateVolumeDevices."""
    at: dict[str, str] = {}
    for part, field in (("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")):
        for index, mount in _numbered(container.get(part)):
            where, name, place = f"{part}[{index}]", mount.get("name"), mount.get(field)
            if isinstance(name, str) and name not in volumes:
                there = f"the pod has {', '.join(sorted(volumes))}" if volumes else "the pod has no volumes"
                yield FieldError(f"{path}.{where}.name", f"{name}: no volume of this name; {there}")
            elif part == "volumeDevices" and not _DEVICES & volumes.get(str(name), {}).keys():
                yield FieldError(
                    f"{path}.{where}.name", f"{name}: a device must be a persistentVolumeClaim or ephemeral volume"
                )
            if place == "":
                yield FieldError(f"{path}.{where}.{field}", "is missing")
            elif isinstance(place, str) and (other := at.setdefault(place, where)) != where:
                yield FieldError(f"{path}.{where}.{field}", f"{place}: {other} is at this path already")
            yield from _sub_path_rules(mount, f"{path}.{where}")


def _sub_path_rules(mount: Json, path: str) -> Iterator[FieldError]:
    """validateLocalDescendingPath."""
    for field in ("subPath", "subPathExpr"):
        value = mount.get(field)
        if isinstance(value, str) and (value.startswith("/") or ".." in value.split("/")):
            yield FieldError(
                f"{path}.{field}", f"{value!r}: must be a path inside the volume, without '/' in front or '..'"
            )
    if mount.get("subPath") and mount.get("subPathExpr"):
        yield FieldError(
            f"{path}.subPathExpr", "is set together with subPath: a mount has one of them; remove the other"
        )


def _probe_rules(probe: Json, name: str, path: str) -> Iterator[FieldError]:
    """validateProbe, validateLivenessProbe, validateReadinessProbe."""
    yield from _handler_rules(probe, path)
    for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        value = probe.get(field)
        if _is_number(value) and value < 0:
            yield FieldError(f"{path}.{field}", f"{value}: must not be negative")
    threshold = probe.get("successThreshold")
    # After a failure of one of these probes the kubelet kills the container: no series of successes can follow.
    if name != "readinessProbe" and _is_number(threshold) and threshold > 1:
        yield FieldError(f"{path}.successThreshold", f"{threshold}: must be 1 in a {name}")
    grace = probe.get("terminationGracePeriodSeconds")
    if name == "readinessProbe" and grace is not None:
        yield FieldError(f"{path}.terminationGracePeriodSeconds", "a readinessProbe ends no container: leave it out")
    elif _is_number(grace) and grace < 1:
        yield FieldError(f"{path}.terminationGracePeriodSeconds", f"{grace}: must be at least 1")


def _handler_rules(handler: Json, path: str) -> Iterator[FieldError]:
    """validateHandler: of a probe, or of a hook of lifecycle."""
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        yield FieldError(path, "needs exec, httpGet or tcpSocket")
    elif len(given) > 1:
        yield FieldError(path, f"{' and '.join(given)}: must have one of them; remove the others")
    for name in ("httpGet", "tcpSocket", "grpc"):
        port = mapping(handler.get(name)).get("port")
        where = f"{path}.{name}.port"
        if _is_number(port) and not 1 <= port <= 65535:
            yield FieldError(where, f"{port}: must be from 1 to 65535")
        # YAML's "8080" in quotes is text, and the API server looks for a port of that name; IsValidPortName says only
        # that a letter is missing.
        elif isinstance(port, str) and port.isdecimal():
            yield FieldError(where, f"{port!r} is text, which names a port: write the number without quotes")
        elif isinstance(port, str) and (len(port) > 15 or not _is_port_name(port)):
            yield FieldError(where, f"{port[:80]!r}: a number, or the name of a port of the container")
    if isinstance(handler.get("exec"), Mapping) and not handler["exec"].get("command"):
        yield FieldError(f"{path}.exec.command", "is missing")


# -- reading what users wrote ------------------------------------------------------------------------
def _maps(value: object) -> list[Json]:
    return [item for _, item in _numbered(value)]


def _numbered(value: object) -> list[tuple[int, Json]]:
    """The objects of a list, with their places in it."""
    listed = value if isinstance(value, list | tuple) else ()
    return [(index, item) for index, item in enumerate(listed) if isinstance(item, Mapping)]


def _is_number(value: object) -> TypeGuard[int]:
    # Python's True is an int, and YAML's `yes` is True.
    return isinstance(value, int) and not isinstance(value, bool)
