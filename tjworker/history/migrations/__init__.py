"""The steps from an empty database to `tables.METADATA`, by Alembic. `migrate` runs the steps that are missing.

Two versions of the operator run at the same time during a rollout, so a step only adds: tables, indexes, and columns
that may be null or have a server default. An older version works with a database that a later one has migrated.
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
# Any number that no other application in the database uses: "tjhi".
_LOCK = 0x746A_6869


def migrate(connection: Connection) -> None:
    """Migrate in the transaction of `connection`, which the caller commits."""
    if connection.dialect.name == "postgresql":
        # Two watchers must not migrate at the same time.
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = configuration()
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    script = ScriptDirectory.from_config(config)
    current = context.get_current_heads()
    # An unknown revision: a later version of the operator has migrated the database.
    if set(current) == set(script.get_heads()) or not all(_knows(script, head) for head in current):
        return
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def configuration() -> Config:
    config = Config()
    # Alembic's Config is a ConfigParser, which would interpolate a `%` in the path.
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    return config


def _knows(script: ScriptDirectory, revision: str) -> bool:
    try:
        return script.get_revision(revision) is not None
    except CommandError:
        return False
