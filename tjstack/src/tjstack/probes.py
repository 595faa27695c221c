"""How one sees from outside that a service is ready. Each probe answers within a second, changes nothing, never
raises."""

from __future__ import annotations

import http.client
import json
import re
import socket
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tjworker.api.resources import NODES

Probe = Callable[[], bool]
_TIMEOUT_SECONDS = 0.8


def http_says(port: int, path: str, judge: Callable[[bytes], bool] = lambda body: True) -> Probe:
    """The answer is 2xx, with a body of which `judge` is true."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback is never behind a proxy

    def probe() -> bool:
        try:
            with opener.open(f"http://127.0.0.1:{port}{path}", timeout=_TIMEOUT_SECONDS) as answer:
                return judge(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return False

    return probe


def listens(port: int) -> Probe:
    """Somebody takes connections there: of a server whose answers need a token."""

    def probe() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS):
                return True
        except OSError:
            return False

    return probe


def leads(body: bytes) -> bool:
    """A watcher's /readyz. A standby calls itself ready too; here there is no other, so it must lead."""
    said = json.loads(body)
    return isinstance(said, dict) and bool(said.get("leading") and said.get("synced"))


def redis_answers(redis_url: str) -> Probe:
    """PING is answered: a Redis that still loads its data refuses it."""

    def probe() -> bool:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        timeouts = {"socket_timeout": _TIMEOUT_SECONDS, "socket_connect_timeout": _TIMEOUT_SECONDS}
        try:
            with redis.Redis.from_url(redis_url, retry=Retry(NoBackoff(), 0), **timeouts) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    return probe


def log_says(log: Path, pattern: str) -> Probe:
    """The log has a line that matches, in what was written since this probe was made or since it last matched: a
    restarted service is not ready because of what its predecessor wrote."""
    seen = log.stat().st_size if log.exists() else 0
    wanted = re.compile(pattern.encode())

    def probe() -> bool:
        nonlocal seen
        try:
            written = log.read_bytes()
        except OSError:
            return False
        if len(written) < seen:  # it was emptied
            seen = 0
        if wanted.search(written, seen):
            seen = len(written)
            return True
        return False

    return probe


def cluster_ready(kubeconfig: Path, nodes: int) -> Probe:
    """The kubeconfig is there, its server answers, and as many nodes are Ready as were asked for."""

    def probe() -> bool:
        if not kubeconfig.exists():
            return False
        from tjworker.cli.cluster import open_cluster

        try:
            with open_cluster(kubeconfig) as cluster:
                items = cluster.api.list_page(NODES).items
        except Exception:  # noqa: BLE001  not ready, for whatever reason: asked again
            return False
        conditions = [c for node in items for c in (node.get("status") or {}).get("conditions") or []]
        return len([c for c in conditions if c.get("type") == "Ready" and c.get("status") == "True"]) >= nodes

    return probe
