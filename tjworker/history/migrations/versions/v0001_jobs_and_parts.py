"""Create the tables of jobs, and of the pods and moments of each job."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_SUMMARY = ("resource", "name", "kind", "phase", "created_at", "ended_at", "deleted_at")


def upgrade() -> None:
    op.create_table(
        "tj_history_jobs",
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("uid", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False, server_default="") for name in _SUMMARY),
        sa.Column("restarts", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("message", sa.Text, nullable=False, server_default=""),
        sa.Column("keep_until", sa.Double, nullable=False),
        sa.Column("job", sa.LargeBinary),
        sa.PrimaryKeyConstraint("operator", "namespace", "uid", name="tj_history_jobs_key"),
    )
    op.create_index("tj_history_jobs_keep_until", "tj_history_jobs", ["operator", "keep_until"])
    op.create_table(
        "tj_history_parts",
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("operator", "namespace", "uid", "part", name="tj_history_parts_key"),
        sa.ForeignKeyConstraint(
            ["operator", "namespace", "uid"],
            ["tj_history_jobs.operator", "tj_history_jobs.namespace", "tj_history_jobs.uid"],
            name="tj_history_parts_job",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("tj_history_parts")
    op.drop_table("tj_history_jobs")
