"""The steps from an empty database to `tables.METADATA`, by Alembic. `migrate` takes those that are missing.

Two versions of the operator run beside each other during a rollout, so a step only adds: tables, columns that may be
null or have a server's default, indexes. An older version goes on with a database that a later one has migrated.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from tjworker.history.tables import VERSION_TABLE

HERE = Path(__file__).parent
_LOCK = 0x746A_6869  # any number that nobody else in the database takes: "tjhi"


def migrate(connection: Connection) -> None:
    """In the transaction of `connection`, which the caller commits; two processes take turns."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = configuration()
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    script = ScriptDirectory.from_config(config)
    current = context.get_current_heads()
    if set(current) == set(script.get_heads()) or not all(_knows(script, head) for head in current):
        return
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def configuration() -> Config:
    config = Config()
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    return config


def _knows(script: ScriptDirectory, revision: str) -> bool:
    try:
        return script.get_revision(revision) is not None
    except CommandError:
        return False
