"""The volumes of a pod as folders on this machine, and where each container wants them.

emptyDir, configMap, secret, downwardAPI, projected (of these and of service account tokens), hostPath, and claims whose
volume is a path of this machine (hostPath, local). Everything else is refused in the kubelet's words. Tokens are
renewed before they end; all other files are written when the pod starts and not updated later. Safe to run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from localcluster.client import ApiError
from localcluster.kubelet.env import ConfigError, Lookup, PodFacts, data_of, field_value, resource_value
from localcluster.wire import Json

Bind = tuple[str, str, bool]
"""(source, target, read-only)"""
RequestToken = Callable[[str, str, Json], Json]
"""(namespace, service account, TokenRequest) -> the answer. Raises ApiError."""
RENEW_AT = 0.8
"""Part of a token's life after which the kubelet asks for another, as Kubernetes' does."""


class MountError(Exception):
    """A volume that cannot be had; the pod waits (FailedMount)."""


def token_sources(pod: Json) -> list[tuple[str, Json, int]]:
    """(volume, its serviceAccountToken, mode) of each token that the pod wants."""
    return [
        (volume["name"], source["serviceAccountToken"], volume["projected"].get("defaultMode", DEFAULT_MODE))
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if "serviceAccountToken" in source
    ]


def write_tokens(pod: Json, folder: Path, now: float, request: RequestToken) -> float | None:
    """Each token into its file, whole: a reader sees the old one or the new one. When they are due again, in unix
    seconds; None where the pod has none. Raises MountError."""
    due: list[float] = []
    for volume, source, mode in token_sources(pod):
        seconds: int = source.get("expirationSeconds") or 3600
        try:
            target = folder / volume / _check_relative(source["path"])
            content = _request_token(pod, source, seconds, request)
        except (ApiError, ConfigError) as error:
            why = error.message if isinstance(error, ApiError) else str(error)
            raise MountError(
                f'MountVolume.SetUp failed for volume "{volume}" : failed to fetch token: {why}'
            ) from error
        target.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when complete: a program that reads the token during a renewal never gets half of one.
        fresh = target.with_name(f".{target.name}.new")
        fresh.write_text(content, encoding="ascii")
        fresh.chmod(mode)
        fresh.replace(target)
        due.append(now + RENEW_AT * seconds)
    return min(due, default=None)


def _request_token(pod: Json, source: Json, seconds: int, request: RequestToken) -> str:
    meta = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
    spec: Json = {"expirationSeconds": seconds, "boundObjectRef": bound}
    if source.get("audience"):
        spec["audiences"] = [source["audience"]]
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = request(meta["namespace"], pod["spec"].get("serviceAccountName") or "default", body)
    return str(answer["status"]["token"])


def prepare_volumes(pod: Json, folder: Path, facts: PodFacts, lookup: Lookup) -> dict[str, Path]:
    """The folder of each volume by name, without tokens. Raises MountError."""
    made: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        try:
            if "hostPath" in volume:
                made[name] = _host_path(name, volume["hostPath"])
                continue
            if "persistentVolumeClaim" in volume:
                made[name] = _claim_folder(pod, name, volume["persistentVolumeClaim"]["claimName"], lookup)
                continue
            path = folder / name
            path.mkdir(parents=True, exist_ok=True)
            for file, (content, mode) in _render_files(pod, volume, facts, lookup).items():
                target = path / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                target.chmod(mode)
            made[name] = path
        except ConfigError as error:
            raise MountError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error
    return made


def _host_path(name: str, source: Json) -> Path:
    path = Path(source["path"])
    if source.get("type") in ("DirectoryOrCreate", "FileOrCreate") and not path.exists():
        if source["type"] == "FileOrCreate":
            path.touch()
        else:
            path.mkdir(parents=True)
    if not path.exists():
        raise MountError(
            f'MountVolume.SetUp failed for volume "{name}" : hostPath type check failed: {path} is not there'
        )
    return path


def _claim_folder(pod: Json, name: str, claim_name: str, lookup: Lookup) -> Path:
    namespace = pod["metadata"]["namespace"]
    why = f"error processing PVC {namespace}/{claim_name}"
    claim = lookup("persistentvolumeclaims", namespace, claim_name)
    if claim is None:
        raise MountError(f'{why}: failed to fetch PVC from API server: persistentvolumeclaims "{claim_name}" not found')
    if (claim.get("status") or {}).get("phase") != "Bound" or not claim["spec"].get("volumeName"):
        raise MountError(f"{why}: PVC is not bound")
    found = lookup("persistentvolumes", "", claim["spec"]["volumeName"])
    if found is None:
        raise MountError(f'{why}: failed to get PV: persistentvolumes "{claim["spec"]["volumeName"]}" not found')
    spec = found["spec"]
    if (spec.get("claimRef") or {}).get("uid") != claim["metadata"]["uid"]:
        # The volume's claimRef decides: the claim may name a volume that is bound to another claim.
        raise MountError(f"{why}: PV {found['metadata']['name']} is bound to another claim")
    source = spec.get("hostPath") or spec.get("local")
    if source is None:
        kinds = sorted(set(spec) & {"csi", "nfs", "iscsi", "fc", "rbd", "cephfs"}) or ["unknown"]
        raise MountError(f"{why}: PV of type {kinds[0]} is not supported on this machine; hostPath and local are")
    return _host_path(name, source)


Files = dict[str, tuple[bytes, int]]
"""Path -> content and mode."""
DEFAULT_MODE = 0o644


def _render_files(pod: Json, volume: Json, facts: PodFacts, lookup: Lookup) -> Files:
    if "emptyDir" in volume:
        return {}
    if "configMap" in volume:
        return _select_items(pod, "configmaps", volume["configMap"], volume["configMap"].get("name", ""), lookup)
    if "secret" in volume:
        return _select_items(pod, "secrets", volume["secret"], volume["secret"].get("secretName", ""), lookup)
    if "downwardAPI" in volume:
        return _downward_files(pod, volume["downwardAPI"], facts)
    if "projected" in volume:
        files: Files = {}
        common = {"defaultMode": volume["projected"].get("defaultMode", DEFAULT_MODE)}
        for source in volume["projected"].get("sources") or ():
            if "configMap" in source:
                of = common | source["configMap"]
                files.update(_select_items(pod, "configmaps", of, of.get("name", ""), lookup))
            elif "secret" in source:
                of = common | source["secret"]
                files.update(_select_items(pod, "secrets", of, of.get("name", ""), lookup))
            elif "downwardAPI" in source:
                files.update(_downward_files(pod, common | source["downwardAPI"], facts))
        return files
    kinds = sorted(set(volume) - {"name"})
    raise ConfigError(f"volumes of type {', '.join(kinds) or 'none'} are not supported on this machine")


def _select_items(pod: Json, resource: str, source: Json, name: str, lookup: Lookup) -> Files:
    default: int = source.get("defaultMode", DEFAULT_MODE)
    obj = lookup(resource, pod["metadata"]["namespace"], name)
    if obj is None:
        # A missing object that is optional leaves its volume empty, or its variables unset.
        if source.get("optional"):
            return {}
        raise ConfigError(f'{resource[:-1]} "{name}" not found')
    data = data_of(resource, obj)
    if not source.get("items"):
        return {key: (content, default) for key, content in data.items()}
    missing = [i["key"] for i in source["items"] if i["key"] not in data]
    if missing and not source.get("optional"):
        raise ConfigError(f"references non-existent {resource[:-1]} key: {missing[0]}")
    return {
        _check_relative(i["path"]): (data[i["key"]], i.get("mode", default))
        for i in source["items"]
        if i["key"] in data
    }


def _downward_files(pod: Json, source: Json, facts: PodFacts) -> Files:
    files: Files = {}
    for item in source.get("items") or ():
        if "fieldRef" in item:
            value = field_value(pod, item["fieldRef"]["fieldPath"], facts)
        else:
            value = resource_value(pod, pod["spec"]["containers"][0], item["resourceFieldRef"], facts)
        mode = item.get("mode", source.get("defaultMode", DEFAULT_MODE))
        files[_check_relative(item["path"])] = value.encode(), mode
    return files


def _check_relative(path: str) -> str:
    if path.startswith("/") or ".." in Path(path).parts:
        raise ConfigError(f"path {path!r} must be relative and may not contain '..'")
    return path


def read_only_volumes(pod: Json) -> frozenset[str]:
    """The names of the volumes that are mounted read-only, because the pod uses the claim so."""
    volumes = pod["spec"].get("volumes") or ()
    return frozenset(v["name"] for v in volumes if (v.get("persistentVolumeClaim") or {}).get("readOnly"))


def binds_of(container: Json, volumes: Mapping[str, Path], only_read: frozenset[str] = frozenset()) -> list[Bind]:
    """The bind mounts of this container, outer folders first."""
    binds: list[Bind] = []
    for mount in container.get("volumeMounts") or ():
        source = volumes.get(mount["name"])
        if source is None:
            raise MountError(
                f'volumeMounts name "{mount["name"]}" of container {container["name"]} is no volume of the pod'
            )
        if mount.get("subPath"):
            source = source / _check_relative(mount["subPath"])
            if not source.exists():
                source.mkdir(parents=True)
        fixed = bool(mount.get("readOnly")) or mount["name"] in only_read
        binds.append((str(source), mount["mountPath"].rstrip("/") or "/", fixed))
    # A mount inside another one would be hidden by it if it came first.
    return sorted(binds, key=lambda b: b[1])


def rewrite_unmounted(text: str, binds: Sequence[Bind]) -> str:
    """A path in a volume, as it is where nothing can be mounted; any other text as it is."""
    for source, target, _ in reversed(binds):
        if text == target or text.startswith(f"{target}/"):
            return source + text.removeprefix(target)
    return text
