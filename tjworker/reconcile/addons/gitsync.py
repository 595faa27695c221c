"""kubedl.io/git-sync-config: an init container clones a repository into a volume that all containers of the pod mount.

As in KubeDL (pkg/code_sync) are the names of the container, the volume and the variables GIT_SYNC_*, the defaults, and
the folder of the code: `destPath` below the container's workingDir. An `image` in the annotation runs its own
entrypoint, which reads these variables. Without one, the setting's image runs the script below.

These differ from KubeDL: the container is the first, so that the job's own init containers have the code, too. It has
its own resources instead of the trainer's GPUs. It fits the Pod Security profile `restricted`. A password is only
accepted as a reference. Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from tjworker.api.labels import ANNOTATION_GIT_SYNC
from tjworker.api.model import FieldError, Role, TrainingJob
from tjworker.api.naming import containers
from tjworker.base import Json
from tjworker.reconcile.addons.addon import Addon, Config, path_of, read_config
from tjworker.reconcile.rules import Rules
from tjworker.reconcile.volumes import add_mount, path_inside

PATH = path_of(ANNOTATION_GIT_SYNC)
CONTAINER, VOLUME = "git-sync-code", "git-sync"
PASSWORD = "GIT_SYNC_PASSWORD"  # noqa: S105  the name of a variable
USER_ID = 65532
"""The user of the container unless the pod sets one: an unused ID, and not root."""
VOLUME_SIZE = "10Gi"
RESOURCES: Json = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
SCRIPT = r"""
set -u
export HOME="$GIT_SYNC_ROOT/.git-sync" GIT_TERMINAL_PROMPT=0
mkdir -p "$HOME" || exit 1
if [ "${GIT_SYNC_SSH:-}" = true ]; then
  export GIT_SSH_COMMAND="ssh -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=$HOME/known_hosts"
  [ -z "${GIT_SSH_KEY_FILE:-}" ] || GIT_SSH_COMMAND="$GIT_SSH_COMMAND -i '$GIT_SSH_KEY_FILE'"
fi
helper='!f() { echo "username=${GIT_SYNC_USERNAME:-git}"; echo "password=$GIT_SYNC_PASSWORD"; }; f'
[ -z "${GIT_SYNC_PASSWORD:-}" ] || git config --global --replace-all credential.helper "$helper"
git config --global --replace-all safe.directory '*'
dest="$GIT_SYNC_ROOT/$GIT_SYNC_DEST"
copy() {
  rm -rf "$dest" && mkdir -p "$dest" || return 1
  set --
  [ -z "${GIT_SYNC_DEPTH:-}" ] || set -- "$@" --depth "$GIT_SYNC_DEPTH"
  [ -z "${GIT_SYNC_BRANCH:-}" ] || set -- "$@" --branch "$GIT_SYNC_BRANCH"
  git clone --quiet "$@" -- "$GIT_SYNC_REPO" "$dest" || return 1
  [ -n "${GIT_SYNC_REV:-}" ] || return 0
  git -C "$dest" checkout --quiet --detach "$GIT_SYNC_REV" -- 2>/dev/null && return 0
  git -C "$dest" fetch --quiet --depth 1 origin "$GIT_SYNC_REV" || return 1
  git -C "$dest" checkout --quiet --detach FETCH_HEAD --
}
failures=0
until copy; do
  failures=$((failures + 1))
  echo "git-sync: attempt $failures to clone $GIT_SYNC_REPO has failed" >&2
  if [ "$GIT_SYNC_MAX_SYNC_FAILURES" -ge 0 ] && [ "$failures" -ge "$GIT_SYNC_MAX_SYNC_FAILURES" ]; then
    echo "git-sync: given up; source, branch and revision of kubedl.io/git-sync-config must exist, and be readable" >&2
    exit 1
  fi
  sleep "$((failures < 30 ? failures : 30))"
done
echo "git-sync: $GIT_SYNC_REPO at $(git -C "$dest" rev-parse HEAD) is in $GIT_SYNC_DEST"
"""
_SCHEMES = ("https", "http", "ssh", "git", "file")
_SCP_LIKE = re.compile(r"^[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:[^:]")
_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET = re.compile(r"PASSW|TOKEN|SECRET|CREDENTIAL", re.IGNORECASE)
_BY_REFERENCE = (
    f'name a Secret in envs: {{"name": "{PASSWORD}", "valueFrom": {{"secretKeyRef": {{"name": ..., "key": ...}}}}}}'
)
_OURS = frozenset(
    {"REPO", "ONE_TIME", "MAX_SYNC_FAILURES", "BRANCH", "REV", "DEPTH", "ROOT", "DEST", "SSH", "USERNAME"}
)


class GitSync(Config):
    source: str
    image: str = ""
    root_path: str = "/code"
    dest_path: str = ""
    envs: list[dict[str, Any]] = Field(default_factory=list, max_length=64)
    branch: str = ""
    revision: str = ""
    depth: str | int = ""
    max_failures: int = 3
    ssh: bool = False
    ssh_file: str = ""
    user: str = ""
    password: str = ""

    @property
    def folder(self) -> str:
        """The folder below the volume, by default with the name of the repository."""
        return self.dest_path or self.source.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")


def _errors(job: TrainingJob, rules: Rules) -> Iterator[FieldError]:
    config, errors = read_config(job, ANNOTATION_GIT_SYNC, GitSync)
    yield from errors
    if config is None:
        return
    wrong = list(_source_errors(config.source))
    yield from wrong or _path_errors(config)
    yield from _env_errors(config)
    if config.password:
        yield FieldError(f"{PATH}.password", f"must not be in an annotation; {_BY_REFERENCE}")
    for name in ("branch", "revision"):
        value = getattr(config, name)
        # git would read a value that starts with - as an option.
        if value.startswith("-") or re.search(r"[\s\x00-\x1f]", value):
            yield FieldError(f"{PATH}.{name}", f"{value[:80]!r}: must not start with - nor have blanks")
    if config.depth != "" and not re.fullmatch(r"[1-9][0-9]{0,8}", str(config.depth)):
        yield FieldError(
            f"{PATH}.depth", f"{str(config.depth)[:80]!r}: must be a number from 1 on; leave it out for all"
        )
    if config.image and re.search(r"\s", config.image):
        yield FieldError(f"{PATH}.image", f"{config.image[:80]!r}: the name of an image has no blanks")
    for role in job.roles:
        yield from _role_errors(config, role)


def _source_errors(source: str) -> Iterator[FieldError]:
    # No message repeats the value, which may hold a password.
    path = f"{PATH}.source"
    forms = f"{', '.join(scheme + '://' for scheme in _SCHEMES)}, or user@host:path"
    try:
        parts = urlsplit(source)
        password, named = parts.password, parts.username
    except ValueError:
        yield FieldError(path, f"is not the URL of a repository; use {forms}")
        return
    if re.search(r"[\s\x00-\x1f]", source) or not (
        _SCP_LIKE.match(source) or (parts.scheme in _SCHEMES and parts.path.strip("/"))
    ):
        yield FieldError(path, f"is not the URL of a repository; use {forms}")
    elif password is not None or (named and parts.scheme in ("http", "https")):
        yield FieldError(
            path, f"must not have a user or a password in the URL; name the user in user, and {_BY_REFERENCE}"
        )


def _path_errors(config: GitSync) -> Iterator[FieldError]:
    root, folder = config.root_path, config.folder
    if not root.startswith("/") or ".." in root.split("/") or ":" in root or not root.strip("/"):
        yield FieldError(f"{PATH}.rootPath", f"{root[:80]!r}: must be an absolute path below /, without .. and :")
    if not folder or folder.startswith(("/", "-")) or {"..", ".", ""} & set(folder.split("/")) or ":" in folder:
        yield FieldError(
            f"{PATH}.destPath", f"{folder[:80]!r}: must be a relative path, without .. and :, such as code"
        )


def _env_errors(config: GitSync) -> Iterator[FieldError]:
    for i, entry in enumerate(config.envs):
        path, name = f"{PATH}.envs[{i}]", entry.get("name")
        if not isinstance(name, str) or not _NAME.match(name) or not entry.keys() <= {"name", "value", "valueFrom"}:
            yield FieldError(path, "must be a variable as in a Pod: name, and value or valueFrom")
        elif not isinstance(entry.get("value", ""), str) or not isinstance(entry.get("valueFrom", {}), dict):
            yield FieldError(path, "must be a variable as in a Pod: value is a string, valueFrom an object")
        elif entry.get("value") and _SECRET.search(name):
            yield FieldError(f"{path}.value", f"of {name} must not be in an annotation; {_BY_REFERENCE}")


def _role_errors(config: GitSync, role: Role) -> Iterator[FieldError]:
    spec = role.template.get("spec") or {}
    where = f"the pods of {role.name} have"
    if any(c.get("name") == CONTAINER for kind in ("containers", "initContainers") for c in spec.get(kind) or ()):
        yield FieldError(PATH, f"{where} a container named {CONTAINER}, which is the one that clones; rename it")
    if any(v.get("name") == VOLUME for v in spec.get("volumes") or () if isinstance(v, Mapping)):
        yield FieldError(PATH, f"{where} a volume named {VOLUME}, which is the one with the code; rename it")
    if config.ssh and config.ssh_file and not config.image and _key_mount(config, role) is None:
        yield FieldError(
            f"{PATH}.sshFile",
            f"{config.ssh_file[:80]!r}: no container of {role.name} mounts it; mount the Secret with the key there",
        )


def _key_mount(config: GitSync, role: Role) -> Json | None:
    """The mount with the SSH key, for the container that clones; None if no container has it."""
    mounts = (m for c in containers(role.template) for m in c.get("volumeMounts") or () if isinstance(m, Mapping))
    return next((m for m in mounts if path_inside(config.ssh_file, str(m.get("mountPath", "")))), None)


def _apply(job: TrainingJob, rules: Rules) -> TrainingJob:
    config, _ = read_config(job, ANNOTATION_GIT_SYNC, GitSync)
    assert config is not None  # noqa: S101  `_errors` has been asked
    return replace(job, roles=tuple(replace(role, template=_with_code(role, config, rules)) for role in job.roles))


def _with_code(role: Role, config: GitSync, rules: Rules) -> Json:
    spec = dict(role.template["spec"])
    clones = _container(config, role, rules)
    every = {
        kind: [_mounted(c, config.folder) for c in spec.get(kind) or ()] for kind in ("initContainers", "containers")
    }
    spec |= every | {"initContainers": [clones, *every["initContainers"]]}
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": VOLUME, "emptyDir": {"sizeLimit": VOLUME_SIZE}}]
    return {**role.template, "spec": spec}


def _mounted(container: Json, folder: str) -> Json:
    path = posixpath.normpath(posixpath.join("/", str(container.get("workingDir") or ""), folder))
    return add_mount(container, {"name": VOLUME, "mountPath": path, "subPath": folder})


def _container(config: GitSync, role: Role, rules: Rules) -> dict[str, Any]:
    pod = (role.template.get("spec") or {}).get("securityContext") or {}
    key = _key_mount(config, role) if config.ssh and config.ssh_file else None
    return {
        "name": CONTAINER,
        "image": config.image or rules.git_sync_image,
        "imagePullPolicy": "IfNotPresent",
        **({} if config.image else {"command": ["/bin/sh", "-c", SCRIPT]}),
        "env": _environment(config),
        "resources": RESOURCES,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            # The image's own user may be root, which `runAsNonRoot` refuses.
            **({} if pod.get("runAsUser") else {"runAsUser": USER_ID}),
        },
        "volumeMounts": [
            {"name": VOLUME, "mountPath": config.root_path},
            *([{**key, "readOnly": True}] if key else []),
        ],
    }


def _environment(config: GitSync) -> list[Json]:
    ours = {
        "REPO": config.source,
        "ONE_TIME": "true",
        "MAX_SYNC_FAILURES": str(config.max_failures or 3),
        "BRANCH": config.branch,
        "REV": config.revision,
        "DEPTH": str(config.depth),
        "ROOT": config.root_path,
        "DEST": config.folder,
        "SSH": "true" if config.ssh else "",
        "USERNAME": config.user,
    }
    # The fields of the annotation win over a variable of the same name in `envs`.
    own = [entry for entry in config.envs if entry["name"].removeprefix("GIT_SYNC_") not in _OURS]
    # Kubernetes expands $(NAME) in values. A `$` in these values is literal.
    made = [{"name": f"GIT_SYNC_{name}", "value": value.replace("$", "$$")} for name, value in ours.items() if value]
    if config.ssh and config.ssh_file:
        made.append({"name": "GIT_SSH_KEY_FILE", "value": config.ssh_file.replace("$", "$$")})
    return [*own, *made]


# `keep`: no new pod may start without the code that the others have.
ADDON = Addon(ANNOTATION_GIT_SYNC, _errors, _apply, keep=lambda job, _: job.without_new_pods())
