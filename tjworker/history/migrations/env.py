"""Alembic runs this file for each command: it runs the migrations on the connection that `migrate` passes."""

from __future__ import annotations

from alembic import context

from tjworker.history.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
