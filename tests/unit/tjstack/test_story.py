"""What the demo leaves behind."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tjstack.story import DemoStory


class Api:
    def __init__(self) -> None:
        self.jobs: dict[str, Any] = {
            "digits": {"metadata": {"name": "digits", "uid": "u1"}, "status": {"phase": "Succeed"}}
        }

    def get(self, _resource: str, _namespace: str, name: str) -> Any:
        return self.jobs.get(name)

    def delete(self, _resource: str, _namespace: str, name: str, *, uid: str, propagation: str) -> None:
        assert self.jobs.pop(name)["metadata"]["uid"] == uid
        assert propagation == "Foreground"


def test_the_job_of_the_demo_goes_so_that_its_manifest_can_be_applied_again() -> None:
    """README: `make demo`, then `make up` and `kubectl apply` of the same manifest, in the same state folder."""
    api = Api()
    stack: Any = SimpleNamespace(handle=SimpleNamespace(stopping=threading.Event()))
    cluster: Any = SimpleNamespace(api=api)
    reporter: Any = SimpleNamespace()
    story = DemoStory(stack, cluster, reporter, Path("job.yaml"))
    story.seen.job = api.jobs["digits"]
    story.tidy()
    assert api.jobs == {}
    story.tidy()
    assert story.seen.job["status"]["phase"] == "Succeed", "the summary still tells of it"
