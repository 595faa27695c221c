"""How one sees from outside that a service is ready. Each probe answers within a second, changes nothing, never raises."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable
from pathlib import Path

Probe = Callable[[], bool]
_TIMEOUT_SECONDS = 0.8


def http_ok(port: int, path: str, host: str = "127.0.0.1") -> Probe:
    """Any answer below 400 counts."""

    def probe() -> bool:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return probe


def http_says(port: int, path: str, judge: Callable[[dict[str, object]], bool], host: str = "127.0.0.1") -> Probe:
    """The answer is 200 with a JSON object of which `judge` is true."""

    def probe() -> bool:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = json.loads(answer.read())
            return answer.status == 200 and isinstance(body, dict) and judge(body)
        except (OSError, http.client.HTTPException, ValueError):
            return False
        finally:
            connection.close()

    return probe


def redis_answers(redis_url: str) -> Probe:
    """PING is answered: a Redis that still loads its data refuses it."""

    def probe() -> bool:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        # Without retries of its own: with them a Redis that is not there yet would hold up the supervisor for seconds.
        client = redis.Redis.from_url(
            redis_url,
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    return probe


def log_says(log: Path, pattern: str) -> Probe:
    """The log has a line that matches, in what was written since this probe was made or since it last matched: a restarted
    service is not ready because of what its predecessor wrote."""
    seen = [log.stat().st_size if log.exists() else 0]
    wanted = re.compile(pattern.encode())

    def probe() -> bool:
        try:
            with log.open("rb") as file:
                size = file.seek(0, 2)
                if size < seen[0]:
                    seen[0] = 0
                file.seek(seen[0])
                text = file.read()
        except OSError:
            return False
        if wanted.search(text):
            seen[0] = size
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
                items = cluster.api.list_page("nodes").items
        except Exception:  # noqa: BLE001  not ready, for whatever reason: asked again
            return False
        return sum(1 for node in items if _node_ready(node)) >= nodes

    return probe


def _node_ready(node: dict[str, object]) -> bool:
    status = node.get("status")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
