"""`python -m tjstack.flower OPTIONS`: Flower, answering to the names of this machine alone, with a link to
the page of jobs.

The Flower of a local stack asks for no password, and a browser takes any page's word for who 127.0.0.1 is: a page whose
name points there (DNS rebinding) could read which jobs there are. Such a request says the page's name in `Host`.
Flower has no setting for that.
"""

from __future__ import annotations

import sys
from typing import Any

from flower import command
from flower.app import Flower
from tornado.web import ErrorHandler

from tjworker.settings import settings_or_exit
from tjworker.telemetry.flower_link import WithJobs

NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


class LocalFlower(Flower):  # type: ignore[misc,unused-ignore]
    def __init__(self, **options: Any) -> None:
        page = f"http://127.0.0.1:{settings_or_exit().page_port}"
        super().__init__(**{**options, "template_loader": WithJobs(options["template_path"], page)})

    def find_handler(self, request: Any, **kwargs: Any) -> Any:
        if request.host_name in NAMES:
            return super().find_handler(request, **kwargs)
        return self.get_handler_delegate(request, ErrorHandler, {"status_code": 403})


def main() -> None:
    from celery.__main__ import main as celery

    command.Flower = LocalFlower  # what `celery flower` makes
    sys.argv[:] = ["celery", "-A", "tjworker.app", "flower", *sys.argv[1:]]
    celery()


if __name__ == "__main__":
    main()
