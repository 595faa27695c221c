"""Pod templates with changed containers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tjworker.base import Json


def with_environment(template: Json, added: Mapping[str, str | Mapping[str, Any]]) -> Json:
    """The template with these variables (name -> value, or its source) in every container that does not set them."""
    return with_containers(template, lambda container: _with_env(container, added)) if added else template


def with_containers(template: Json, change: Callable[[Json], Json]) -> Json:
    pod = template.get("spec")
    containers = pod.get("containers") if isinstance(pod, Mapping) else None
    if not isinstance(pod, Mapping) or not isinstance(containers, list):
        return template
    # These variables are torchrun's and other programs' own settings: init containers train nothing and get only the
    # operator's variables (`podbody`).
    changed = [change(c) if isinstance(c, Mapping) else c for c in containers]
    return {**template, "spec": {**pod, "containers": changed}}


def _with_env(container: Json, added: Mapping[str, str | Mapping[str, Any]]) -> Json:
    own = container.get("env") if isinstance(container.get("env"), list) else []
    named = {entry.get("name") for entry in own or () if isinstance(entry, Mapping)}
    # The API server accepts a name twice, and in the container the later entry wins: an entry of the operator would
    # silently replace the user's.
    ours = [env_entry(name, value) for name, value in added.items() if name not in named]
    return {**container, "env": [*(own or ()), *ours]}


def env_entry(name: str, value: str | Mapping[str, Any]) -> Json:
    """An item of a container's `env`."""
    return {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}
