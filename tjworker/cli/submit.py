"""`tj submit`: make jobs out of manifests, and on request wait for their ends. All are checked before any is made."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import click

from tjworker.cli.console import echo
from tjworker.cli.output import as_object, tell

if TYPE_CHECKING:
    from tjworker.cli.cluster import Cluster
    from tjworker.cli.jobs import FoundJob
    from tjworker.cli.manifests import Manifest


@click.command(short_help="Check manifests and make their jobs.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("-w", "--wait", is_flag=True, help="Wait for their ends; exit code 1 unless all succeed.")
@as_object
@click.option("-n", "--namespace", help="Namespace; default: the manifest's, else the context's.")
def submit(files: tuple[str, ...], wait: bool, output: str | None, namespace: str | None) -> int:
    """Make the jobs in FILE (`-`: stdin). Each is checked as `tj validate` does it before any is made.

    \b
    tj submit job.yaml --wait
    """
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.manifests import hints, read, refuse_the_wrong

    manifests = read(files)
    refuse_the_wrong(manifests)
    with user_cluster() as cluster:
        made = [create(cluster, manifest, namespace, output) for manifest in manifests]
        for job in made:
            _warn_of_lost_logs(job)
        for manifest in manifests:
            for hint in hints(manifest):
                echo(f"{manifest.name}: {hint}", err=True)
        _warn_of_no_room(cluster, made)
        return follow(cluster, made) if wait else 0


def create(cluster: Cluster, manifest: Manifest, namespace: str | None, output: str | None = None) -> FoundJob:
    """The job as the API server has made it. Raises UserError when the name is taken, or the namespaces disagree."""
    from tjworker.base import Conflict
    from tjworker.cli.errors import UserError
    from tjworker.cli.jobs import FoundJob

    kind = manifest.kind
    assert kind is not None  # noqa: S101  refuse_the_wrong has refused it
    written = str((manifest.raw.get("metadata") or {}).get("namespace") or "")
    if namespace and written and namespace != written:
        raise UserError(
            f"{manifest.source} has the namespace {written}, and -n says {namespace}; leave one of them out"
        )
    where = namespace or written or cluster.namespace
    body = manifest.raw | {"metadata": manifest.raw["metadata"] | {"namespace": where}}
    try:
        raw = cluster.api.create(kind.resource, where, body)
    except Conflict as error:
        if error.reason != "AlreadyExists":
            raise
        raise UserError(
            f"namespace {where} has a job {manifest.name} already; `tj delete {manifest.name}` first, give this one"
            " another name, or change the one that is there with `kubectl apply`"
        ) from None
    made = FoundJob(kind.resource, raw)
    tell(f"{manifest.name}: made in namespace {where}; `tj describe {manifest.name}` says how it stands", made, output)
    return made


def _warn_of_lost_logs(job: FoundJob) -> None:
    """Whoever submits a first job looks for its output after its end."""
    from tjworker.cli.jobs import parsed

    if parsed(job).clean_pod_policy == "All":
        name = job.raw["metadata"]["name"]
        echo(
            f"{name}: its pods go at its end, and their logs with them; spec.cleanPodPolicy Running keeps those that "
            f"have ended, and `tj logs {name} -f` follows them meanwhile",
            err=True,
        )


def _warn_of_no_room(cluster: Cluster, made: list[FoundJob]) -> None:
    """A pod that fits no node, however empty, waits for ever, and elastic jobs give up their replicas for it meanwhile.
    Silent where the user may not look at nodes."""
    from tjworker.api.resources import NODES
    from tjworker.base import OperatorError
    from tjworker.cli.jobs import list_all, parsed
    from tjworker.cli.room import too_large

    try:
        nodes = list(list_all(cluster.api, NODES, ""))
    except OperatorError:
        return
    for job in made:
        for said in too_large(parsed(job), nodes):
            echo(f"{job.raw['metadata']['name']}: {said}", err=True)


def follow(cluster: Cluster, jobs: list[FoundJob]) -> int:
    """Prints each change of phase until all have ended. 0 when every one has succeeded."""
    from contextlib import ExitStack

    from tjworker.api.kinds.base import seen_status
    from tjworker.api.status import END_PHASES
    from tjworker.cli import rows
    from tjworker.cli.errors import EXIT_FAILED, tell_outage
    from tjworker.cli.informer import Informer

    changes: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
    phases = {str(job.raw["metadata"]["uid"]): "" for job in jobs}
    places = {(job.resource, str(job.raw["metadata"]["namespace"])) for job in jobs}
    with ExitStack() as stack:
        for number, (resource, namespace) in enumerate(sorted(places)):
            on_outage = tell_outage if number == 0 else None
            stack.enter_context(
                Informer(cluster.api, resource, namespace, on_change=lambda *c: changes.put(c), on_outage=on_outage)
            )
        while not all(phase in END_PHASES or phase == _GONE for phase in phases.values()):
            kind, raw = changes.get()
            uid = str(raw["metadata"]["uid"])
            phase = _GONE if kind == "DELETED" else str(seen_status(raw).get("phase") or "")
            if uid in phases and phase not in ("", phases[uid]) and phases[uid] not in END_PHASES:
                phases[uid] = phase
                message = "" if phase == _GONE else rows.job_message(raw)
                echo(f"{raw['metadata']['name']}: {phase}{f': {message}' if message else ''}")
    return 0 if set(phases.values()) == {"Succeed"} else EXIT_FAILED


_GONE = "deleted"
