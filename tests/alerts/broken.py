"""A release with a bug in what is pure, which no input is known to reach: a pass over a job raises, and so does the
projection of one. The rest of worker and watcher is as it is.

`celery -A tests.alerts.broken worker`, and `python -m tests.alerts.broken` for a watcher.
"""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

from tjworker.app import app
from tjworker.controllers import jobs
from watcher import known_objects
from watcher.projection import project

__all__ = ["app"]


def _decide(*_: Any) -> Any:
    raise KeyError("replicaSpecs")


def _project_no_pod(resource: Any, obj: Any, before: Any = None) -> Any:
    projected = project(resource, obj, before)
    if resource == "pods" and projected is not None:
        raise KeyError("containerStatuses")
    return projected


patch.object(jobs, "reconcile", _decide).start()
patch.object(known_objects, "project", _project_no_pod).start()

if __name__ == "__main__":
    from watcher.__main__ import main

    sys.exit(main())
