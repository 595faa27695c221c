"""The tables of the SQL history, as the newest migration leaves them. `migrations/` creates them; a test compares."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

METADATA = MetaData()
VERSION_TABLE = "tj_history_version"
"""Not Alembic's default, which another application in the same database may use."""

JOBS = Table(
    "tj_history_jobs",
    METADATA,
    # TJ_KEY_PREFIX: two operators can share one database, as they can share one Redis.
    Column("operator", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("uid", Text, nullable=False),
    # The fields of the summary are empty while only pods of the job are known. Every summary has a `resource`.
    Column("resource", Text, nullable=False, server_default=""),
    Column("name", Text, nullable=False, server_default=""),
    Column("kind", Text, nullable=False, server_default=""),
    Column("phase", Text, nullable=False, server_default=""),
    # Times stay RFC 3339 text, as the objects have them: SQLite has no type for times.
    Column("created_at", Text, nullable=False, server_default=""),
    Column("ended_at", Text, nullable=False, server_default=""),
    Column("deleted_at", Text, nullable=False, server_default=""),
    Column("restarts", BigInteger, nullable=False, server_default="0"),
    Column("message", Text, nullable=False, server_default=""),
    Column("keep_until", Double, nullable=False),
    # Not jsonb: PostgreSQL refuses the character NUL in it, which JSON and Kubernetes allow.
    Column("job", LargeBinary),
    PrimaryKeyConstraint("operator", "namespace", "uid", name="tj_history_jobs_key"),
    # Each write looks for jobs to drop, in this order.
    Index("tj_history_jobs_keep_until", "operator", "keep_until"),
)
PARTS = Table(
    "tj_history_parts",
    METADATA,
    Column("operator", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("uid", Text, nullable=False),
    Column("part", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("operator", "namespace", "uid", "part", name="tj_history_parts_key"),
    ForeignKeyConstraint(
        ["operator", "namespace", "uid"],
        ["tj_history_jobs.operator", "tj_history_jobs.namespace", "tj_history_jobs.uid"],
        name="tj_history_parts_job",
        ondelete="CASCADE",
    ),
)
