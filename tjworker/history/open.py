"""Opens the history store that the settings name."""

from __future__ import annotations

from tjworker.base import Terminal
from tjworker.history.redis_history import RedisHistory
from tjworker.history.store import Bounds, HistoryStore
from tjworker.settings import Settings
from tjworker.store.connect import client
from tjworker.store.errors import describe
from tjworker.store.redis_commands import RedisCommands


def open_history(settings: Settings) -> HistoryStore | None:
    """The store, not connected yet; None if the history is switched off. Raises Terminal if TJ_HISTORY_URL needs
    packages that are missing."""
    bounds = Bounds(settings.history_seconds, settings.history_jobs)
    if not bounds.jobs:
        return None
    if settings.history_url:
        try:
            # Imported on demand: it takes a third of a second, and SQLAlchemy is installed only with the extra.
            from tjworker.history.sql_history import SqlHistory

            return SqlHistory(settings.history_url, settings.key_prefix, bounds)
        except ImportError as error:
            raise Terminal(
                f"TJ_HISTORY_URL is set, and {error.name} is not installed; install the extra `history` (pip install"
                " '.[history]' in the operator's folder), or build the image with --build-arg REQUIREMENTS=history"
            ) from None
    commands = RedisCommands(client(settings.redis_url), settings.key_prefix, where=describe(settings.redis_url))
    return RedisHistory(commands, bounds)
