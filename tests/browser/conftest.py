from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.chromium import MISSING, Tab, chromium, find_chromium
from tests.conftest import RealRedis
from tests.support.page_world import PageWorld


@pytest.fixture
def page(real_redis: RealRedis) -> Iterator[PageWorld]:
    with PageWorld(real_redis, own=True).served() as world:
        yield world


@pytest.fixture(scope="session")
def browser() -> Iterator[Tab]:
    """One for all tests: it takes seconds to start."""
    path = find_chromium()
    if path is None:
        pytest.skip(MISSING)
    with chromium(path) as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab) -> Tab:
    browser.leave()
    browser.problems.clear()
    browser.requested.clear()
    browser.shape(1280)
    return browser
