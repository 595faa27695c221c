"""The volumes of a pod as folders on this machine, and where each container wants them.

emptyDir, configMap, secret, downwardAPI, projected (of these) and hostPath. Everything else is refused in the kubelet's
words. Files of ConfigMaps and Secrets are written when the pod starts and not updated later. Safe to run twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from localcluster.kubelet.env import ConfigError, Lookup, PodFacts, data_of, field_value, resource_value
from localcluster.wire import Json

Bind = tuple[str, str, bool]
"""(source, target, read-only)"""


class MountError(Exception):
    """A volume that cannot be had; the pod waits (FailedMount)."""


def prepare(pod: Json, folder: Path, facts: PodFacts, lookup: Lookup) -> dict[str, Path]:
    """The folder of each volume by name. Raises MountError."""
    made: dict[str, Path] = {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        try:
            if "hostPath" in volume:
                made[name] = _host_path(name, volume["hostPath"])
                continue
            path = folder / name
            path.mkdir(parents=True, exist_ok=True)
            for file, content in _files(pod, volume, facts, lookup).items():
                target = path / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
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


def _files(pod: Json, volume: Json, facts: PodFacts, lookup: Lookup) -> Mapping[str, bytes]:
    if "emptyDir" in volume:
        return {}
    if "configMap" in volume:
        return _items(pod, "configmaps", volume["configMap"], volume["configMap"].get("name", ""), lookup)
    if "secret" in volume:
        return _items(pod, "secrets", volume["secret"], volume["secret"].get("secretName", ""), lookup)
    if "downwardAPI" in volume:
        return _downward(pod, volume["downwardAPI"], facts)
    if "projected" in volume:
        files: dict[str, bytes] = {}
        for source in volume["projected"].get("sources") or ():
            if "configMap" in source:
                files.update(
                    _items(pod, "configmaps", source["configMap"], source["configMap"].get("name", ""), lookup)
                )
            elif "secret" in source:
                files.update(_items(pod, "secrets", source["secret"], source["secret"].get("name", ""), lookup))
            elif "downwardAPI" in source:
                files.update(_downward(pod, source["downwardAPI"], facts))
        return files
    kinds = sorted(set(volume) - {"name"})
    raise ConfigError(f"volumes of type {', '.join(kinds) or 'none'} are not supported on this machine")


def _items(pod: Json, resource: str, source: Json, name: str, lookup: Lookup) -> dict[str, bytes]:
    obj = lookup(resource, pod["metadata"]["namespace"], name)
    if obj is None:
        if source.get("optional"):
            return {}
        raise ConfigError(f'{resource[:-1]} "{name}" not found')
    data = data_of(resource, obj)
    if not source.get("items"):
        return data
    missing = [i["key"] for i in source["items"] if i["key"] not in data]
    if missing and not source.get("optional"):
        raise ConfigError(f"references non-existent {resource[:-1]} key: {missing[0]}")
    return {_inside(i["path"]): data[i["key"]] for i in source["items"] if i["key"] in data}


def _downward(pod: Json, source: Json, facts: PodFacts) -> dict[str, bytes]:
    files = {}
    for item in source.get("items") or ():
        if "fieldRef" in item:
            value = field_value(pod, item["fieldRef"]["fieldPath"], facts)
        else:
            value = resource_value(pod, pod["spec"]["containers"][0], item["resourceFieldRef"], facts)
        files[_inside(item["path"])] = value.encode()
    return files


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in Path(path).parts:
        raise ConfigError(f"path {path!r} must be relative and may not contain '..'")
    return path


def binds_of(container: Json, volumes: Mapping[str, Path]) -> list[Bind]:
    """Where this container wants its volumes, outer folders first."""
    binds: list[Bind] = []
    for mount in container.get("volumeMounts") or ():
        source = volumes.get(mount["name"])
        if source is None:
            raise MountError(
                f'volumeMounts name "{mount["name"]}" of container {container["name"]} is no volume of the pod'
            )
        if mount.get("subPath"):
            source = source / _inside(mount["subPath"])
            if not source.exists():
                source.mkdir(parents=True)
        binds.append((str(source), mount["mountPath"].rstrip("/") or "/", bool(mount.get("readOnly"))))
    return sorted(binds, key=lambda b: b[1])
