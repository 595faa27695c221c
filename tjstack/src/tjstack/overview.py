"""Jobs and pods as tables for a terminal of any size: what goes on comes first, what has ended last; a long message
gives way before a name or a phase does. Pure: objects and a time in, something to print out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from tjworker.api.kinds.base import seen_status
from tjworker.api.observed import ENDED_PHASES
from tjworker.api.status import END_PHASES
from tjworker.base import JsonDict, printable
from tjworker.cli import rows
from tjworker.cli.jobs import pod_order

MAX_JOBS = 10
MAX_PODS = 30
_PHASE_COLUMN = 1
_PHASE_STYLES = {
    "Running": "green",
    "Succeed": "bold green",
    "Succeeded": "green",
    "Failed": "bold red",
    "Timeout": "bold red",
    "Preempted": "red",
    "NodeFail": "red",
    "Restarting": "yellow",
    "Scaling": "yellow",
    "Terminating": "yellow",
}


def job_table(jobs: Iterable[JsonDict], now: datetime) -> Table:
    """At most MAX_JOBS; those that have not ended first, then the youngest."""
    found = sorted(jobs, key=lambda j: (j["metadata"]["namespace"], j["metadata"]["name"]))
    found.sort(key=lambda j: str(j["metadata"].get("creationTimestamp")), reverse=True)
    found.sort(key=lambda j: seen_status(j).get("phase") in END_PHASES)
    body = [(*rows.job_row(j, now), rows.job_message(j)) for j in found[:MAX_JOBS]]
    return _table(("JOB", *rows.JOB_HEADER[1:], "MESSAGE"), body, len(found), gives_way="MESSAGE")


def pod_table(pods: Iterable[JsonDict], now: datetime) -> Table:
    """At most MAX_PODS; those that have not ended first, by role and index."""
    found = sorted(pods, key=lambda p: ((p.get("status") or {}).get("phase") in ENDED_PHASES, pod_order(p)))
    return _table(rows.POD_HEADER, [rows.pod_row(p, now) for p in found[:MAX_PODS]], len(found))


def _table(header: Sequence[str], body: Sequence[tuple[str, ...]], of: int, gives_way: str = "") -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for name in header:
        # rich takes room from columns that may wrap before it takes it from others; their text does not wrap all the
        # same.
        table.add_column(name, no_wrap=name != gives_way, overflow="ellipsis")
    for row in body:
        styles = (_PHASE_STYLES.get(cell, "") if i == _PHASE_COLUMN else "" for i, cell in enumerate(row))
        table.add_row(
            *(
                Text(printable(cell), style, no_wrap=True, overflow="ellipsis")
                for cell, style in zip(row, styles, strict=True)
            )
        )
    if of > len(body):
        table.add_row(f"... and {of - len(body)} more")
    return table
