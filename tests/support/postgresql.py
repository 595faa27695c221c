"""A PostgreSQL of its own for a test, of Debian's package (`apt-get install postgresql`), in a temporary folder."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "secret-of-the-database"


def binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, of the newest version that is installed."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(folders, key=lambda one: [int(n) for n in re.findall(r"\d+", str(one))], default=None)


@contextmanager
def running_postgresql(port: int) -> Iterator[str]:
    """The URL of a database of a user `tj`, on 127.0.0.1. It refuses to run as root: then it runs as `nobody`."""
    found = binaries()
    assert found is not None
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    with tempfile.TemporaryDirectory(prefix="tj-postgresql-") as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        data, password = Path(folder) / "data", Path(folder) / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)

        def run(*words: str) -> None:
            subprocess.run(
                words, user=user, cwd=folder, check=True, capture_output=True, env={"PATH": os.environ["PATH"]}
            )

        run(
            *(str(found / "initdb"), "-D", str(data), "-U", "tj", "-A", "scram-sha-256", "--pwfile", str(password)),
            *("-E", "UTF8", "--locale=C", "--no-sync"),
        )
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        control = [str(found / "pg_ctl"), "-D", str(data), "-w"]
        run(*control, "-l", str(Path(folder) / "log"), "-o", options, "start")
        try:
            yield f"postgresql://tj:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            run(*control, "-m", "immediate", "stop")
