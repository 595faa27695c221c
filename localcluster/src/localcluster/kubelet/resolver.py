"""Host names inside Python containers where namespaces are not available: the same hosts file that is otherwise mounted
over /etc/hosts, named by LOCALCLUSTER_HOSTS, and the pod's own name, LOCALCLUSTER_HOSTNAME. Other programs cannot be
helped this way.

The kubelet puts a copy of this file on the containers' PYTHONPATH as `sitecustomize.py`; imported anywhere else, it
does nothing. Standard library only.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

_hosts_file = os.environ.get("LOCALCLUSTER_HOSTS", "")
_real_getaddrinfo = socket.getaddrinfo
_real_gethostbyname = socket.gethostbyname


def _addresses(host: Any) -> list[str]:
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if not isinstance(host, str) or not host:
        return []
    try:
        text = Path(_hosts_file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    wanted = host.rstrip(".").lower()
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words[0] for words in lines if wanted in (word.lower() for word in words[1:])]


def _getaddrinfo(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:  # noqa: A002
    found: list[Any] = []
    for address in _addresses(host):
        try:
            found += _real_getaddrinfo(address, port, family, type, proto, flags)
        except socket.gaierror:
            continue
    return found or _real_getaddrinfo(host, port, family, type, proto, flags)


def _gethostbyname(host: str) -> str:
    found = _addresses(host)
    return found[0] if found else _real_gethostbyname(host)


if _hosts_file:
    socket.getaddrinfo = _getaddrinfo
    socket.gethostbyname = _gethostbyname
    socket.gethostname = lambda: os.environ["LOCALCLUSTER_HOSTNAME"]
