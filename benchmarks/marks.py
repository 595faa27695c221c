"""Notes when a process of the operator begins and ends each step on a job's way, for `benchmarks.hops`.

`python -m benchmarks.marks` is the watcher, `celery -A benchmarks.marks worker` a worker, `python -m benchmarks.marks
player ...` the player of pods; each is the real one but for two lines in the file TJ_BENCH_MARKS at each step. The
clock is the machine's monotonic one, the same for all processes.
"""

from __future__ import annotations

import functools
import os
import pkgutil
import sys
import time
from collections.abc import Callable
from typing import Any

FILE = "TJ_BENCH_MARKS"
WATCHER = {
    "watcher.projector.Projector.events": "watcher: event read and projected",
    "tjworker.store.redis_projection.RedisProjection.apply": "watcher: apply (script)",
    "tjworker.store.redis_projection.RedisProjection.apply_node_requests": "watcher: node requests",
    "tjworker.publisher.Publisher.publish": "watcher: publish",
}
MAIN = {"tjworker.worker.broker.Channel._brpop_read": "worker: message read"}
CHILD = {
    "tjworker.controllers.jobs.JobReconciler.run": "child: task",
    "tjworker.store.redis_work_queue.RedisWorkQueue.acquire_views": "child: claim and view",
    "tjworker.store.redis_projection.RedisProjection.nodes": "child: nodes",
    "tjworker.store.redis_work_queue.RedisWorkQueue.renew": "child: renew",
    "tjworker.store.redis_work_queue.RedisWorkQueue.finish_all": "child: finish",
    "tjworker.controllers.jobs.reconcile": "child: decide",
    "tjworker.kube.transport.KubeTransport.request": "child:",
}
PLAYER = {
    "benchmarks.player.Player._see": "player: sees a pod",
    "benchmarks.wire.Connection.merge_patch": "player: patches a pod",
}


class Marks:
    """A line is one write, so those of several processes and threads do not mix."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, at: float | None = None) -> None:
        os.write(self._file, f"{time.monotonic() if at is None else at:.6f} {what}\n".encode())

    def around(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def marked(*arguments: Any, **named: Any) -> Any:
            began = time.monotonic()
            try:
                return call(*arguments, **named)
            finally:
                name = _request(what, *arguments[1:3]) if what.endswith(":") else what
                self.note(f"+{name}", began)
                self.note(f"-{name}")

        return marked

    def on(self, steps: dict[str, str]) -> None:
        for name, what in steps.items():
            path, _, attribute = name.rpartition(".")
            owner = pkgutil.resolve_name(path)
            setattr(owner, attribute, self.around(what, getattr(owner, attribute)))


def _request(what: str, method: str, path: str) -> str:
    """`child: PUT aitrainingjobs/status`; a name in between is left out."""
    parts = path.split("/")
    named = parts[parts.index("namespaces") + 2 :] if "namespaces" in parts else parts[-1:]
    return f"{what} {method} {'/'.join([*named[:1], *named[2:]])}"


def main(arguments: list[str]) -> int:
    marks = Marks(os.environ[FILE])
    if arguments[:1] == ["player"]:
        from benchmarks.player import Player
        from benchmarks.wire import Server

        marks.on(PLAYER)
        Player(Server(arguments[1], int(arguments[2])), arguments[3]).run()
        return 0
    from watcher.__main__ import main as watch

    marks.on(WATCHER)
    return watch()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
else:
    from tjworker.app import app

    __all__ = ["app"]
    if FILE in os.environ:
        Marks(os.environ[FILE]).on(MAIN | CHILD)
