"""The history store of these settings. Connects to nothing yet."""

from __future__ import annotations

from tjworker.history.redis_history import RedisHistory
from tjworker.history.store import Bounds, HistoryStore
from tjworker.settings import Settings
from tjworker.store.connect import client
from tjworker.store.errors import describe
from tjworker.store.redis_commands import RedisCommands


def open_history(settings: Settings) -> HistoryStore | None:
    """None if the history is switched off."""
    bounds = Bounds(settings.history_seconds, settings.history_jobs)
    if not bounds.jobs:
        return None
    commands = RedisCommands(client(settings.redis_url), settings.key_prefix, where=describe(settings.redis_url))
    return RedisHistory(commands, bounds)
