"""Flower's link to the page of jobs, as the first entry of its navigation. Flower has no setting for that."""

from __future__ import annotations

import sys
from pathlib import Path

from tornado.escape import xhtml_escape
from tornado.template import Loader, Template

FIRST_ENTRY = '<li class="nav-item">'


class WithJobs(Loader):
    """Flower's templates with the link. `root`: their folder. `page`: an http address without braces."""

    def __init__(self, root: str, page: str) -> None:
        super().__init__(root)
        address = xhtml_escape(page)
        self._entry = f'<li class="nav-item"><a class="nav-link" href="{address}" rel="noreferrer">Jobs</a></li>'

    def _create_template(self, name: str) -> Template:
        if name != "navbar.html":
            return super()._create_template(name)
        text = (Path(self.root) / name).read_text(encoding="utf-8")
        # A Flower with another navigation has no place for the link, and is shown without it.
        return Template(text.replace(FIRST_ENTRY, f"{self._entry}{FIRST_ENTRY}", 1), name=name, loader=self)


def link_flower(page: str) -> None:
    """Give the Flower of this process the link. `page` '': it has none. Call it before Flower is made."""
    # Celery's command line imports Flower before the app. Other processes never have it.
    urls = sys.modules.get("flower.urls")
    if page and urls is not None:
        urls.settings["template_loader"] = WithJobs(urls.settings["template_path"], page)
