"""One line of a table of refusals. Data only."""

from __future__ import annotations

from typing import Any

from tests.support.builders import JobBuilder

Json = dict[str, Any]
GANG = "spec.runPolicy.schedulingPolicy"


class Refusal:
    """`want_path`: where the parser sees it, which reads JSON without the API server in front; None: it has nothing to
    object. `after`: what has been applied before."""

    def __init__(
        self, apply: JobBuilder | Json, want_path: str | None = None, *, after: JobBuilder | Json | None = None
    ) -> None:
        self.apply = _manifest(apply)
        self.want_path = want_path
        self.after = None if after is None else _manifest(after)


def _manifest(job: JobBuilder | Json) -> Json:
    return job.manifest() if isinstance(job, JobBuilder) else job
