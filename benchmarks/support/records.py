"""The record key of the benchmarks: watchers and workers seal there as in the product, so that it is in the figures."""

from __future__ import annotations

from typing import Any

from tjworker.settings import Settings

RECORD_KEY = "a-key-of-the-benchmarks-that-is-long-enough"


def with_records(url: str, prefix: str = "tj", **settings: Any) -> Settings:
    """Settings of a watcher or a worker at this Redis."""
    return Settings(redis_url=url, key_prefix=prefix, record_keys=RECORD_KEY, **settings)


def environment(url: str, prefix: str) -> dict[str, str]:
    """The same for a process of its own."""
    return {"TJ_REDIS_URL": url, "TJ_KEY_PREFIX": prefix, "TJ_RECORD_KEYS": RECORD_KEY}
