"""`python -m tjworker.cli.alive`: is the worker of this host alive, that is, does it take tasks? Exit code 0 or 1, and
one line that says why. For liveness probes; changes nothing.

A ping does not tell: a worker that has stopped consuming still answers it, and no job moves. So the worker is asked
what it consumes. Its main process answers, busy children or not; it hears nothing while Redis is away, which a probe
must have the patience for.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

TIMEOUT_SECONDS = 10.0
Consumed = Mapping[str, Sequence[Mapping[str, Any]]]
"""Worker -> the queues that it consumes, as Celery's `inspect active_queues` answers."""


def idlers(consumed: Consumed, queue: str) -> list[str]:
    """The workers that answer and take nothing from this queue."""
    return sorted(name for name, queues in consumed.items() if queue not in {q.get("name") for q in queues or ()})


def main() -> int:
    from celery.utils.nodenames import default_nodename
    from kombu.exceptions import OperationalError

    from tjworker.app import app

    name, queue = default_nodename(None), app.conf.task_default_queue
    try:
        consumed = app.control.inspect(destination=[name], timeout=TIMEOUT_SECONDS).active_queues() or {}
    except (OperationalError, OSError) as error:
        sys.stderr.write(f"{name} cannot be asked: {type(error).__name__}: Redis is away\n")
        return 1
    if name not in consumed:
        sys.stderr.write(f"{name} does not answer\n")
    elif idlers(consumed, queue):
        sys.stderr.write(f"{name} answers and takes no task: it does not consume the queue {queue}\n")
    else:
        sys.stdout.write(f"{name} takes tasks from the queue {queue}\n")
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
