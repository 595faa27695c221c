"""Tables of the load of the cluster, the queue and the workers, as lines of text that `tj top` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass

from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.autoscale.cluster import has, usable_nodes
from tjworker.base import Json
from tjworker.cli.room import OTHERS, Room
from tjworker.cli.rows import align, duration, job_phase

MAX_NODES = 20
MAX_JOBS = 15
MAX_WORKERS = 20
GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker, by the answers to Celery's `inspect`."""

    name: str
    slots: int
    uptime_seconds: float
    tasks: int
    """The number of tasks since its start."""
    runs: tuple[str, ...]
    """The keys or names of its present tasks."""


def workers(stats: Mapping[str, Json], active: Mapping[str, Sequence[Json]]) -> list[Worker]:
    """The workers by name. A worker may have answered only one of the two questions."""
    return [_worker(name, stats.get(name) or {}, active.get(name) or ()) for name in sorted({*stats, *active})]


def _worker(name: str, stats: Json, active: Sequence[Json]) -> Worker:
    return Worker(
        name=name,
        slots=int((stats.get("pool") or {}).get("max-concurrency") or 0),
        uptime_seconds=float(stats.get("uptime") or 0),
        tasks=sum(int(n) for n in (stats.get("total") or {}).values()),
        runs=tuple(_task(task) for task in active),
    )


def _task(task: Json) -> str:
    """The first key of a `reconcile` task; the name of any other task."""
    arguments = task.get("args") or ()
    name = str(task.get("name") or "").rpartition(".")[2]
    return str(arguments[0]) if isinstance(arguments, list | tuple) and arguments else name


# -- tables ----------------------------------------------------------------------------------------
def cluster_lines(found: Room, gpu_resources: Sequence[str]) -> list[str]:
    """A sentence about the cluster, and a row for each node, the fullest first."""
    nodes = sorted(found.nodes.values(), key=lambda n: (-_part(n, found.requests.get(n.name, NOTHING)), n.name))
    usable = usable_nodes(found.nodes)
    has_gpu = any(has(node, gpu) for node in nodes for gpu in gpu_resources)
    header = ("NODE", "STATE", "CPU", "MEMORY (GB)", *(("GPU",) if has_gpu else ()), "PODS")
    table = [
        _node_row(node, found.requests.get(node.name, NOTHING), gpu_resources if has_gpu else ()) for node in nodes
    ]
    waiting = found.requests.get(WAITING, NOTHING)
    summary = f"Cluster: {len(usable)} of {len(nodes)} nodes take pods; requests of pods and what the nodes have"
    lines = [summary, *(f"  {line}" for line in align([header, *table[:MAX_NODES]]))]
    if len(nodes) > MAX_NODES:
        lines.append(f"  ... and {len(nodes) - MAX_NODES} more")
    if waiting.pods:
        lines.append(f"  {waiting.pods} pods without a node ask for CPU {waiting.cpu_milli / 1000:g}")
    return lines


def _part(node: NodeRecord, asked: NodeRequests) -> float:
    return asked.cpu_milli / (has(node, "cpu") or 1)


def _node_row(node: NodeRecord, asked: NodeRequests, gpu_resources: Sequence[str]) -> tuple[str, ...]:
    state = "ready" if node.ready == "True" else "not ready"
    gpus = [(asked.amount(gpu), has(node, gpu)) for gpu in gpu_resources]
    return (
        node.name,
        f"{state}, cordoned" if node.unschedulable else state,
        _of(asked.cpu_milli / 1000, has(node, "cpu") / 1000),
        _of(asked.memory_bytes / GIGA, has(node, "memory") / GIGA),
        *((_of(sum(a for a, _ in gpus), sum(h for _, h in gpus)),) if gpus else ()),
        f"{asked.pods} of {has(node, 'pods')}",
    )


def _of(asked: float, there: float) -> str:
    share = f" ({asked / there:.0%})" if there else ""
    return f"{asked:.3g} of {there:.3g}{share}"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Columns of a job, from its status; `-` for what the status lacks."""

    phase: str = "-"
    active: str = "-"
    done: str = "-"
    """Its progress, as `41%`."""
    left: str = "-"
    """The time that its program estimates."""


def job_progress(status: Json) -> JobProgress:
    reported = status.get("trainerStatus") or {}
    done, left = reported.get("progressPercentage"), reported.get("estimatedRemainingSeconds")
    return JobProgress(
        job_phase(status) or "-",
        str(status.get("active") or "-"),
        "-" if done is None else f"{done}%",
        "-" if left is None else duration(float(left)),
    )


def job_lines(found: Room, jobs: Mapping[str, JobProgress]) -> list[str]:
    """A row for each job with its requests, the largest first. `jobs`: by `namespace/job`."""
    holders = sorted(found.holders.items(), key=lambda h: (h[0] == OTHERS, -h[1].cpu_milli, -h[1].memory_bytes, h[0]))
    if not holders:
        return ["Jobs: no pod asks for anything"]
    table = [
        (
            name if name != OTHERS else "(other pods)",
            *astuple(jobs.get(name, JobProgress())),
            f"{asked.cpu_milli / 1000:g}",
            f"{asked.memory_bytes / GIGA:.3g}",
            str(sum(n for _, n in asked.extended)),
            str(asked.pods),
        )
        for name, asked in holders[:MAX_JOBS]
    ]
    header = ("JOB", "PHASE", "ACTIVE", "DONE", "LEFT", "CPU", "MEMORY (GB)", "GPU", "PODS")
    lines = ["Jobs: what their pods ask for", *(f"  {line}" for line in align([header, *table]))]
    return [*lines, *([f"  ... and {len(holders) - MAX_JOBS} more"] if len(holders) > MAX_JOBS else [])]


def worker_lines(found: Iterable[Worker]) -> list[str]:
    every = list(found)
    if not every:
        return ["Workers: none answers; `tj doctor` says what to do"]
    busy = sum(len(worker.runs) for worker in every)
    slots = sum(worker.slots for worker in every)
    table = [
        (w.name, f"{len(w.runs)} of {w.slots}", str(w.tasks), duration(w.uptime_seconds), ", ".join(w.runs) or "-")
        for w in sorted(every, key=lambda w: (-len(w.runs), w.name))[:MAX_WORKERS]
    ]
    header = ("WORKER", "BUSY", "TASKS", "UP", "WORKS ON")
    lines = [f"Workers: {busy} of {slots} slots are busy", *(f"  {line}" for line in align([header, *table]))]
    return [*lines, *([f"  ... and {len(every) - MAX_WORKERS} more"] if len(every) > MAX_WORKERS else [])]
