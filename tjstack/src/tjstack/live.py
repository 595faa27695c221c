"""Shows the running stack: a live table on a terminal, otherwise a line for each change. Reads only.

Jobs and pods come from informers (list and watch), the queue from Redis once a second, and only for the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from tjstack.local import Stack
from tjstack.overview import job_table, pod_table
from tjstack.paths import words
from tjstack.reporter import Reporter
from tjworker.api.kinds.base import seen_status
from tjworker.api.resources import PODS
from tjworker.base import JsonDict, OperatorError
from tjworker.cli import rows
from tjworker.cli.cluster import Cluster, open_cluster
from tjworker.cli.informer import Informer
from tjworker.cli.kinds import chosen_kinds
from tjworker.store.connect import open_store

_REFRESH_PER_SECOND = 2


@contextmanager
def looking_on(stack: Stack, reporter: Reporter) -> Iterator[Cluster]:
    """Shows jobs and pods while the block runs; yields a client for the stack's cluster."""
    with ExitStack() as opened:
        cluster = opened.enter_context(open_cluster(stack.plan.paths.kubeconfig))
        report_job, report_pod = _changes(reporter, _job_state), _changes(reporter, _pod_state)
        kinds = chosen_kinds()
        informers = {
            resource: opened.enter_context(
                Informer(cluster.api, resource, on_change=report if reporter.plain else None)
            )
            for resource, report in (*((kind, report_job) for kind in kinds), (PODS, report_pod))
        }
        if not reporter.plain:
            view = _LiveView(stack, [informers[kind] for kind in kinds], informers[PODS])
            opened.enter_context(
                Live(
                    get_renderable=view.render,
                    console=reporter.rich,
                    refresh_per_second=_REFRESH_PER_SECOND,
                    transient=True,
                    vertical_overflow="ellipsis",
                )
            )
        yield cluster


# -- one line a change -----------------------------------------------------------------------------
def _changes(reporter: Reporter, describe: Callable[[JsonDict], str]) -> Callable[[str, JsonDict], None]:
    said: dict[str, str] = {}

    def on_change(kind: str, obj: JsonDict) -> None:
        uid = str(obj["metadata"].get("uid"))
        state = (
            f"{obj.get('kind', 'object').lower()} {obj['metadata']['name']} deleted"
            if kind == "DELETED"
            else describe(obj)
        )
        # Most changes of an object change nothing that is shown.
        if said.get(uid) != state:
            said[uid] = state
            reporter.say(state)

    return on_change


def _job_state(job: JsonDict) -> str:
    status = seen_status(job)
    active = f", {status['active']} active" if status.get("active") else ""
    restarts = (
        f", {status['restarts']} restart{'s' if status['restarts'] > 1 else ''}" if status.get("restarts") else ""
    )
    return f"job {job['metadata']['name']}: {status.get('phase') or 'seen'}{active}{restarts}"


def _pod_state(pod: JsonDict) -> str:
    node = (pod.get("spec") or {}).get("nodeName")
    return f"pod {pod['metadata']['name']}: {rows.pod_phase(pod)}" + (f" on {node}" if node else "")


# -- the table -------------------------------------------------------------------------------------
class _LiveView:
    """What the table shows now. Rendered by rich's own thread."""

    def __init__(self, stack: Stack, jobs: Sequence[Informer], pods: Informer) -> None:
        self._stack, self._jobs, self._pods = stack, jobs, pods
        self._work_queue = open_store(stack.plan.redis_url, stack.plan.key_prefix).queue
        self._queue = ""
        self._ticks = 0

    def render(self) -> RenderableType:
        if self._ticks % _REFRESH_PER_SECOND == 0:
            self._queue = self._queue_line()
        self._ticks += 1
        pods = pod_table(self._pods.objects(), rows.utc_now())
        return Group(Text(), self._services(), Text(self._queue, style="dim"), self._job_table(), pods)

    def _services(self) -> RenderableType:
        line = Text()
        for name, state in self._stack.handle.states().items():
            if name != "crds":
                style = {"ready": "green", "starting": "yellow"}.get(state, "bold red")
                line.append(f"{'●' if state == 'ready' else '○'} {name}  ", style=style)
        return line

    def _queue_line(self) -> str:
        try:
            stats = self._work_queue.stats()
        except OperatorError as error:
            return f"queue: {error.message}"
        return f"queue: {rows.queue_line(stats)}"

    def _job_table(self) -> RenderableType:
        jobs = [job for informer in self._jobs for job in informer.objects()]
        if not jobs:
            return Text(f"no jobs yet: kubectl apply -f {words(self._stack.plan.root).demo_manifest}", style="dim")
        return job_table(jobs, rows.utc_now())
