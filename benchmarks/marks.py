"""Notes when a process of the operator begins and ends each step on a job's way, for `benchmarks.hops`.

`python -m benchmarks.marks` is the watcher, `celery -A benchmarks.marks worker` a worker, `python -m benchmarks.marks
player ...` the player of pods; each is the real one but for two lines in the file TJ_BENCH_MARKS at each step. The
clock is the machine's monotonic one, the same for all processes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from benchmarks.support.replacing import replace

FILE = "TJ_BENCH_MARKS"
Steps = Sequence[tuple[Any, Callable[..., Any], str]]
"""(class, or module that imports the function and calls it; function; what it is in the table)"""


def watcher_steps() -> Steps:
    # Here and below: imported in the process that needs it alone, as a process of the product does.
    from tjworker.publisher import Publisher
    from tjworker.store.redis_projection import RedisProjection
    from watcher.projector import Projector

    return (
        (Projector, Projector.events, "watcher: event read and projected"),
        (RedisProjection, RedisProjection.apply, "watcher: apply (script)"),
        (RedisProjection, RedisProjection.apply_node_requests, "watcher: node requests"),
        (Publisher, Publisher.publish, "watcher: publish"),
    )


def worker_steps() -> Steps:
    from tjworker.controllers import jobs
    from tjworker.controllers.jobs import JobReconciler
    from tjworker.kube.transport import KubeTransport
    from tjworker.reconcile import reconcile
    from tjworker.store.redis_projection import RedisProjection
    from tjworker.store.redis_work_queue import RedisWorkQueue
    from tjworker.worker.broker import Channel

    return (
        (Channel, Channel._brpop_read, "worker: message read"),
        (JobReconciler, JobReconciler.run, "child: task"),
        (RedisWorkQueue, RedisWorkQueue.acquire_views, "child: claim and view"),
        (RedisProjection, RedisProjection.nodes, "child: nodes"),
        (RedisWorkQueue, RedisWorkQueue.renew, "child: renew"),
        (RedisWorkQueue, RedisWorkQueue.finish_all, "child: finish"),
        (jobs, reconcile, "child: decide"),
        (KubeTransport, KubeTransport.request, "child:"),
    )


def player_steps() -> Steps:
    from benchmarks.player import Player
    from benchmarks.wire import Connection

    return ((Player, Player._see, "player: sees a pod"), (Connection, Connection.merge_patch, "player: patches a pod"))


class Marks:
    """A line is one write, so those of several processes and threads do not mix."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, at: float | None = None) -> None:
        os.write(self._file, f"{time.monotonic() if at is None else at:.6f} {what}\n".encode())

    def around(self, what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def marked(*arguments: Any, **named: Any) -> Any:
            began = time.monotonic()
            try:
                return call(*arguments, **named)
            finally:
                name = _request(what, *arguments[1:3]) if what.endswith(":") else what
                self.note(f"+{name}", began)
                self.note(f"-{name}")

        return marked

    def on(self, steps: Steps) -> None:
        for owner, function, what in steps:
            replace(owner, function, self.around(what, function))


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

        marks.on(player_steps())
        Player(Server(arguments[1], int(arguments[2])), arguments[3]).run()
        return 0
    from watcher.__main__ import main as watch

    marks.on(watcher_steps())
    return watch()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
else:
    from tjworker.app import app

    __all__ = ["app"]
    if FILE in os.environ:
        Marks(os.environ[FILE]).on(worker_steps())
