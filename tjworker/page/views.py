"""The data of each view, for its template. Pure: a board, a job or a story in, rows of text out.

Templates escape. This module cuts texts to a length that fits a page, and removes control characters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from tjworker.api.kinds.base import text
from tjworker.api.model import TrainingJob
from tjworker.api.node_requests import NOTHING, WAITING
from tjworker.api.status import END_PHASES
from tjworker.autoscale.cluster import has, usable_nodes
from tjworker.base import Json, mapping, printable
from tjworker.cli import rows
from tjworker.cli.happenings import Happening
from tjworker.cli.happenings import row as happening_row
from tjworker.cli.narrative import SHOWN_RECORDS, Section
from tjworker.history.records import GONE_AT, Summary
from tjworker.page.board import Board, JobRow

ROWS_A_PAGE = 100
MOST_CHARS = 4_000
"""Limit of one text. `kubectl get -o yaml` shows the whole text."""
SHOWN_PODS, SHOWN_EVENTS = 300, 60
_LIST_CHARS = 200
GIGA = 1e9

TONES: Mapping[str, str] = {
    **dict.fromkeys(("Running", "Succeed", "Succeeded", "Ready"), "good"),
    **dict.fromkeys(("Failed", "Timeout", "Preempted", "NodeFail"), "bad"),
    **dict.fromkeys(("Error", "OOMKilled", "Evicted", "Not ready"), "bad"),
    **dict.fromkeys(("Restarting", "Scaling", "Terminating", "Suspended", "Cordoned", "Deleted"), "warn"),
}
"""Word of a status -> its colour; `quiet` for other words. The page always shows the word, too."""


def tone(phase: str) -> str:
    word = phase.partition(" ")[0]
    # Reasons of kubelets and container runtimes, of which there is no list.
    if word.endswith(("BackOff", "Error")) or word.startswith("Err"):
        return "bad"
    return TONES.get(phase, TONES.get(word, "quiet"))


def shown(words: object, most: int = MOST_CHARS, keep: str = "") -> str:
    """A foreign text as the page shows it: cut to `most` characters, without control characters except `keep`."""
    whole = str(words)
    # Cut first: a text from the cluster may have a megabyte.
    return printable(whole[:most], keep) + ("\u2026" if len(whole) > most else "")


@dataclass(frozen=True, slots=True)
class Filters:
    namespace: str = ""
    kind: str = ""
    phase: str = ""
    text: str = ""
    page: int = 1

    def query(self, **changed: object) -> str:
        """The query of a link to this view with some filters changed."""
        parts = {"namespace": self.namespace, "kind": self.kind, "phase": self.phase, "q": self.text, "page": self.page}
        wanted = {name: value for name, value in (parts | changed).items() if value not in ("", 1)}
        return f"?{urlencode(wanted)}" if wanted else "?"

    def takes(self, job: JobRow | Summary) -> bool:
        return (
            self.namespace in ("", job.namespace)
            and self.kind in ("", job.kind)
            and self.phase in ("", job.phase or NEW)
            and self.text.lower() in job.name.lower()
        )


NEW = "New"
"""Shown as the phase of a job that has no phase yet."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list, and the choices of its filters."""

    filters: Filters
    rows: Sequence[Any]
    total: int
    """Number of rows on all pages."""
    all_rows: int
    """Number of rows without filters."""
    pages: int
    phases: Sequence[tuple[str, int]]
    """(phase, number of its jobs under the other filters)."""
    namespaces: Sequence[str]
    kinds: Sequence[str]


def job_list(board: Board, may_list: Iterable[tuple[str, str]], filters: Filters, now: datetime) -> Listing:
    """The list of jobs: live jobs first, the newest on top. `may_list`: (resource, namespace) that the viewer may
    list."""
    allowed = frozenset(may_list)
    every = [row for row in board.jobs.values() if (row.resource, row.namespace) in allowed]
    # Sorts are stable: the last one decides, and the earlier ones order equal rows.
    every.sort(key=lambda row: row.name)
    every.sort(key=lambda row: row.created_at or row.ended_at, reverse=True)
    every.sort(key=lambda row: row.phase in END_PHASES)
    return _listing(every, filters, lambda row: _job_cells(row, now))


def history_list(summaries: Iterable[Summary], filters: Filters, now: datetime) -> Listing:
    """The list of the history. `summaries`: the newest first, and only jobs that the viewer may list."""
    return _listing(list(summaries), filters, lambda summary: _past_cells(summary, now))


def _listing(every: Sequence[Any], filters: Filters, cells: Callable[[Any], dict[str, Any]]) -> Listing:
    matching = [row for row in every if filters.takes(row)]
    # The filter of phases shows the number of each phase, so its own choice does not apply to the numbers.
    of_any_phase = replace(filters, phase="")
    counts = Counter(row.phase or NEW for row in every if of_any_phase.takes(row))
    pages = max(1, -(-len(matching) // ROWS_A_PAGE))
    # Jobs may have gone since the link was drawn: the last page then, not an empty list.
    page = min(max(1, filters.page), pages)
    start = (page - 1) * ROWS_A_PAGE
    return Listing(
        filters=replace(filters, page=page),
        rows=[cells(row) for row in matching[start : start + ROWS_A_PAGE]],
        total=len(matching),
        all_rows=len(every),
        pages=pages,
        phases=sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])),
        namespaces=sorted({row.namespace for row in every}),
        kinds=sorted({row.kind for row in every}),
    )


def age(at: str, now: datetime) -> str:
    return rows.age(at, now) if rows.parse_time(at) else "\u2013"


def _job_cells(row: JobRow, now: datetime) -> dict[str, Any]:
    return {
        "link": job_link(row.resource, row.namespace, row.name),
        "name": shown(row.name, _LIST_CHARS),
        "namespace": shown(row.namespace, _LIST_CHARS),
        "kind": row.kind,
        "phase": shown(row.phase, 40) or NEW,
        "tone": tone(row.phase),
        "replicas": row.replicas,
        "restarts": row.restarts,
        "progress": row.progress,
        "age": age(row.created_at, now),
        "since": row.created_at,
        "message": shown(row.message, _LIST_CHARS),
    }


def _past_cells(one: Summary, now: datetime) -> dict[str, Any]:
    return {
        "link": f"/history/{one.namespace}/{one.uid}",
        "name": shown(one.name, _LIST_CHARS),
        "namespace": shown(one.namespace, _LIST_CHARS),
        "kind": shown(one.kind, 60),
        "phase": shown(one.phase, 40) or NEW,
        "tone": past_tone(one),
        "restarts": one.restarts,
        "ended": f"{age(one.ended_at, now)} ago" if one.ended_at else "\u2013",
        "deleted": f"{age(one.deleted_at, now)} ago" if one.deleted_at else "\u2013",
        "ended_at": one.ended_at,
        "deleted_at": one.deleted_at,
        "message": shown(one.message, _LIST_CHARS),
    }


def past_tone(one: Summary) -> str:
    """The colour of a job's last phase: quiet if the job was deleted before it ended."""
    return tone(one.phase) if one.phase in END_PHASES else "quiet"


def job_link(resource: str, namespace: str, name: str) -> str:
    return f"/jobs/{resource}/{namespace}/{name}"


# -- one job ---------------------------------------------------------------------------------------
def section_blocks(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The sections of the narrative. Log lines are apart: they are shown as they were written."""
    blocks = []
    for section in sections:
        parts: list[tuple[str, str]] = []
        for line in section.lines:
            if line.startswith("    | "):
                log = shown(line[6:])
                if parts and parts[-1][0] == "log":
                    parts[-1] = "log", f"{parts[-1][1]}\n{log}"
                else:
                    parts.append(("log", log))
            elif line.startswith("! "):
                parts.append(("warning", shown(line[2:])))
            else:
                parts.append(("line", shown(line)))
        blocks.append({"title": section.title, "parts": parts})
    return blocks


def pod_rows(pods: Sequence[Json], now: datetime) -> list[dict[str, Any]]:
    found = []
    for pod in pods[:SHOWN_PODS]:
        name, phase, _, attempt, node, since = rows.pod_row(pod, now)
        if phase in ("Running", "Pending") and text(mapping(pod.get("metadata")).get(GONE_AT)):
            phase = "Deleted"
        found.append(
            {
                "name": shown(name, _LIST_CHARS),
                "phase": shown(phase, 60),
                "tone": tone(phase),
                "attempt": shown(attempt, 20),
                "node": shown(node.replace("<none>", "\u2013"), _LIST_CHARS),
                "age": since,
            }
        )
    return found


def scale_rows(job: TrainingJob, now: datetime) -> list[dict[str, Any]]:
    """The changes of scale of a job that has more of them than the narrative shows; [] otherwise."""
    if len(job.status.scale_records) <= SHOWN_RECORDS:
        return []
    return [
        {
            "ago": f"{age(one.time, now)} ago",
            "at": one.time,
            "role": shown(one.role, 60),
            "change": f"{one.from_} \u2192 {one.to}",
            "reason": shown(one.reason, MOST_CHARS),
        }
        for one in job.status.scale_records
    ]


def event_rows(seen: Sequence[Happening], now: datetime) -> list[dict[str, Any]]:
    """The rows of events, the newest first."""
    found = []
    for one in list(reversed(seen))[:SHOWN_EVENTS]:
        when, kind, reason, about, message = happening_row(one, now)
        found.append(
            {
                "when": when,
                "tone": "warn" if kind == "Warning" else "quiet",
                "reason": shown(reason, 80),
                "object": shown(about, _LIST_CHARS),
                "message": shown(message, 1_000),
            }
        )
    return found


# -- the cluster -----------------------------------------------------------------------------------
def node_rows(board: Board, may_list: Iterable[tuple[str, str]], gpu_resources: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of nodes. `may_list`: as in `job_list`. Other jobs count in the sums and are not named."""
    allowed = frozenset(may_list)
    on_node: dict[str, Counter[tuple[str, str]]] = {}
    for row in board.jobs.values():
        if (row.resource, row.namespace) in allowed:
            for pod in row.pods:
                if pod.node:
                    where = f"{row.namespace}/{row.name}", job_link(row.resource, row.namespace, row.name)
                    on_node.setdefault(pod.node, Counter())[where] += 1
    found = []
    for name, node in board.nodes.items():
        asked = board.requests.get(name, NOTHING)
        state = "Cordoned" if node.unschedulable else "Ready" if node.ready == "True" else "Not ready"
        gpus = sum(asked.amount(gpu) for gpu in gpu_resources)
        has_gpus = sum(has(node, gpu) for gpu in gpu_resources)
        found.append(
            {
                "name": shown(name, _LIST_CHARS),
                "state": state,
                "tone": tone(state),
                "cpu": _share(asked.cpu_milli / 1000, has(node, "cpu") / 1000),
                "memory": _share(asked.memory_bytes / GIGA, has(node, "memory") / GIGA),
                "gpu": _share(gpus, has_gpus) if has_gpus else None,
                "pods": f"{asked.pods} of {has(node, 'pods')}",
                "jobs": [
                    {"name": shown(job, _LIST_CHARS), "link": link, "pods": count}
                    for (job, link), count in sorted(on_node.get(name, Counter()).items())
                ],
            }
        )
    return found


def worker_rows(board: Board, may_list: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """The worker processes and the jobs that they hold. A job that the viewer may not list is not named."""
    allowed = frozenset(may_list)
    works: dict[str, list[str]] = {name: [] for name in board.workers}
    for key, owner in sorted(board.running.items()):
        row = board.jobs.get(key)
        if row is not None and (row.resource, row.namespace) in allowed:
            works.setdefault(owner, []).append(shown(f"{row.namespace}/{row.name}", _LIST_CHARS))
        else:
            works.setdefault(owner, []).append("another job")
    return [{"name": shown(owner, 100), "jobs": jobs} for owner, jobs in sorted(works.items())]


def _share(asked: float, there: float) -> dict[str, Any]:
    return {"words": f"{asked:.3g} of {there:.3g}", "percent": min(100, round(100 * asked / there)) if there else 0}


def queue_figures(board: Board) -> list[tuple[str, str]]:
    stats = board.queue
    if stats is None:
        return [("Queue", "not known")]
    oldest = f", the oldest for {stats.oldest_seconds:.1f} s" if stats.queued else ""
    return [
        ("Unfinished jobs", str(stats.unfinished)),
        ("Queued", f"{stats.queued}{oldest}"),
        ("Being reconciled", str(stats.running)),
        ("Delayed", str(stats.delayed)),
        ("Failing", str(stats.failing)),
    ]


def figures(board: Board) -> list[tuple[str, str]]:
    usable = len(usable_nodes(board.nodes))
    asked = board.requests.get(WAITING, NOTHING)
    pods = f"{asked.pods}, for {asked.cpu_milli / 1000:g} CPUs" if asked.pods else "0"
    return [
        ("Nodes that take pods", f"{usable} of {len(board.nodes)}"),
        ("Pods without a node", pods),
        *queue_figures(board),
    ]


STUCK_SECONDS = 30.0


def workers_note(board: Board) -> str:
    """What a viewer should know of the workers as a whole; '' if nothing."""
    stats = board.queue
    if stats is None:
        return "The queue cannot be read."
    if stats.queued and not board.running and stats.oldest_seconds > STUCK_SECONDS:
        return (
            f"No worker has a job, and {stats.queued} jobs wait, the oldest for {rows.duration(stats.oldest_seconds)}:"
            " `tj doctor` says whether workers run."
        )
    if not board.workers and not board.running:
        return "No worker has said in the last seconds that it runs: `tj doctor` says whether one does."
    return ""
