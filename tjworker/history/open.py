"""The history store that the settings name. Connects to nothing yet, but a database that is a file."""

from __future__ import annotations

from tjworker.history.redis_history import RedisHistory
from tjworker.history.store import Bounds, HistoryStore
from tjworker.settings import Settings
from tjworker.store.connect import client
from tjworker.store.errors import describe
from tjworker.store.redis_commands import RedisCommands


def open_history(settings: Settings) -> HistoryStore | None:
    """None where the history is off. Raises Terminal for a TJ_HISTORY_URL that cannot be used."""
    bounds = Bounds(settings.history_seconds, settings.history_jobs)
    if not bounds.jobs:
        return None
    commands = RedisCommands(client(settings.redis_url), settings.key_prefix, where=describe(settings.redis_url))
    return RedisHistory(commands, bounds)
