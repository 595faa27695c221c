"""`tj submit`: make jobs out of manifests, and on request follow them to their ends. All are checked before anything is
made. Other objects in the files are applied as they are, each in its turn.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tjworker.cli.console import complain, echo
from tjworker.cli.options import without_logs
from tjworker.cli.output import as_object, print_result

if TYPE_CHECKING:
    from tjworker.cli.cluster import Cluster
    from tjworker.cli.jobs import FoundJob
    from tjworker.cli.manifests import Manifest


@click.command(short_help="Check manifests and create their jobs.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("-w", "--wait", is_flag=True, help="Show their output until all end; exit code 1 unless all succeed.")
@without_logs
@as_object
@click.option("-n", "--namespace", help="Namespace; default: the manifest's, else the context's.")
def submit(files: tuple[str, ...], wait: bool, no_logs: bool, output: str | None, namespace: str | None) -> int:
    """Create the jobs in FILE (`-`: stdin). Each is checked as `tj validate` does it before anything is created. Other
    objects in FILE, such as a PersistentVolumeClaim or a ConfigMap, are applied as they are, in their order.

    \b
    tj submit job.yaml --wait
    """
    from tjworker.cli import others
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import UserError
    from tjworker.cli.jobs import with_named
    from tjworker.cli.manifests import hints, read, refuse_the_wrong

    manifests = read(files)
    jobs = [manifest for manifest in manifests if not manifest.is_other]
    refuse_the_wrong([manifest for manifest in manifests if manifest in jobs or manifest.companion] or manifests)
    if not jobs:
        raise UserError(f"{manifests[0].source} has no job; `kubectl apply -f` applies its other objects")
    with user_cluster() as cluster:
        refuse_kinds_that_are_off(cluster, jobs)
        # All kinds and namespaces are checked before the first create: half of a file in the cluster would have to be
        # found and deleted by hand.
        places = [_namespace(cluster, manifest, namespace) for manifest in manifests]
        other_objects = {
            number: others.located(cluster, manifest, where)
            for number, (manifest, where) in enumerate(zip(manifests, places, strict=True))
            if manifest not in jobs
        }
        made = []
        for number, manifest in enumerate(manifests):
            if (other := other_objects.get(number)) is None:
                made.append(create(cluster, manifest, places[number], output))
            else:
                _print_other(other.what, others.apply(cluster, other), output)
        found = [with_named(cluster.api, job) for job in made]
        for job in found:
            _warn_of_spec(job)
            _warn_of_lost_logs(job)
        for manifest in jobs:
            for hint in hints(manifest):
                complain(f"{manifest.name}: {hint}")
        _warn_of_no_room(cluster, found)
        return follow(cluster, found, logs=not (no_logs or output)) if wait else 0


def _print_other(what: str, done: str, output: str | None) -> None:
    """Print what was done to another object, as kubectl does. With JSON or YAML, stdout has only the jobs."""
    if output == "name":
        echo(what)
    else:
        echo(f"{what} {done}", err=output is not None)


def refuse_kinds_that_are_off(cluster: Cluster, jobs: Iterable[Manifest]) -> None:
    """Raises UserError for a kind that the cluster lacks, or whose jobs would wait for ever."""
    from tjworker.cli.errors import UserError
    from tjworker.cli.kinds import installed_kinds, is_off, operator_kinds, switched_off

    kinds = {manifest.kind.resource: manifest.kind for manifest in jobs if manifest.kind and manifest.kind.guest}
    if not kinds:
        return
    installed, of_operator = installed_kinds(cluster.api), operator_kinds(cluster.operator)
    off = [kind for kind in kinds.values() if is_off(kind, installed, of_operator)]
    if off:
        raise UserError(switched_off(off, of_operator))


def _namespace(cluster: Cluster, manifest: Manifest, asked: str | None) -> str:
    """The namespace of an object. Raises UserError if the manifest and the option disagree."""
    from tjworker.cli.errors import UserError

    written = str((manifest.raw.get("metadata") or {}).get("namespace") or "")
    if asked and written and asked != written:
        raise UserError(f"{manifest.source} has the namespace {written}, and -n says {asked}; leave one of them out")
    return asked or written or cluster.namespace


def create(cluster: Cluster, manifest: Manifest, namespace: str, output: str | None = None) -> FoundJob:
    """The job as the API server has created it. Raises UserError when the name is taken."""
    from tjworker.base import Conflict
    from tjworker.cli.errors import UserError
    from tjworker.cli.jobs import FoundJob

    kind = manifest.kind
    assert kind is not None  # noqa: S101  refuse_the_wrong has refused it
    body = manifest.raw | {"metadata": manifest.raw["metadata"] | {"namespace": namespace}}
    try:
        # A create, not an apply: a second `tj submit` of the file must not edit the job that runs.
        raw = cluster.api.create(kind.resource, namespace, body)
    except Conflict as error:
        if error.reason != "AlreadyExists":
            raise
        raise UserError(
            f"namespace {namespace} has a job {manifest.name} already; `tj delete {manifest.name}` first, give this one"
            " another name, or change the one that is there with `kubectl apply`"
        ) from None
    made = FoundJob(kind.resource, raw)
    print_result(f"{manifest.name}: created in namespace {namespace}; see `tj describe {manifest.name}`", made, output)
    return made


def _warn_of_spec(job: FoundJob) -> None:
    """What its runtime makes of a job is known only in the cluster: that it is not there yet, or does not suit it."""
    from tjworker.api.kinds import parse
    from tjworker.api.model import InvalidJob

    model = parse(job.resource, job.raw)
    if isinstance(model, InvalidJob):
        why = "it waits" if model.missing is not None else "its spec cannot be used"
        complain(f"{job.name}: {why}: {'; '.join(map(str, model.errors))}")


def _warn_of_lost_logs(job: FoundJob) -> None:
    """Warn that the logs go with the pods: a user may look for the output of a first job after its end."""
    from tjworker.cli.jobs import readable

    model, _ = readable(job)
    if model.roles and model.clean_pod_policy == "All":
        name = job.raw["metadata"]["name"]
        complain(
            f"{name}: its pods go at its end, and their logs with them; spec.cleanPodPolicy Running keeps those that "
            f"have ended, and `tj logs {name} -f` follows them meanwhile"
        )


def _warn_of_no_room(cluster: Cluster, made: list[FoundJob]) -> None:
    """A pod that fits no node, however empty, waits for ever, and elastic jobs give up their replicas for it meanwhile.
    Silent where the user may not look at nodes."""
    from tjworker.api.resources import NODES
    from tjworker.base import OperatorError
    from tjworker.cli.jobs import readable
    from tjworker.cli.room import too_large

    try:
        nodes = list(cluster.api.list_all(NODES))
    except OperatorError:
        return
    for job in made:
        for said in too_large(readable(job)[0], nodes):
            complain(f"{job.raw['metadata']['name']}: {said}")


def follow(cluster: Cluster, jobs: list[FoundJob], *, logs: bool = False) -> int:
    """Prints each change of phase until all have ended, and with `logs` every line that their programs write. 0 when
    every one has succeeded. Ctrl-C ends the command alone: the jobs go on."""
    from tjworker.cli.errors import EXIT_INTERRUPTED

    names = " ".join(job.name for job in jobs)
    try:
        return _follow(cluster, jobs, logs=logs)
    except KeyboardInterrupt:
        goes, it = ("goes", "it") if len(jobs) == 1 else ("go", "them")
        again = f"`tj logs {names} -f` shows its output again" if len(jobs) == 1 else "`tj get` shows how far they are"
        complain(f"\n{names} {goes} on in the cluster; {again}, `tj delete {names}` ends {it}")
        return EXIT_INTERRUPTED


def _follow(cluster: Cluster, jobs: list[FoundJob], *, logs: bool) -> int:
    from contextlib import ExitStack

    from tjworker.api.kinds.base import seen_status
    from tjworker.api.status import END_PHASES
    from tjworker.cli import rows
    from tjworker.cli.errors import EXIT_FAILED, report_outage
    from tjworker.cli.informer import Informer

    # Informers call back on their own threads. This thread alone prints phases, so that they come in order.
    changes: queue.SimpleQueue[tuple[str, dict[str, Any]] | BaseException] = queue.SimpleQueue()
    phases = {str(job.raw["metadata"]["uid"]): "" for job in jobs}
    places = {(job.resource, job.namespace) for job in jobs}
    with ExitStack() as stack:
        output = stack.enter_context(_output_of(cluster, jobs, changes.put)) if logs else {}
        for number, (resource, namespace) in enumerate(sorted(places)):
            on_outage = report_outage if number == 0 else None
            stack.enter_context(
                Informer(cluster.api, resource, namespace, on_change=lambda *c: changes.put(c), on_outage=on_outage)
            )
        while not all(phase in END_PHASES or phase == _GONE for phase in phases.values()):
            change = changes.get()
            if isinstance(change, BaseException):
                raise change
            kind, raw = change
            # By UID: an informer shows all jobs of the namespace, also a later job of the same name.
            uid = str(raw["metadata"]["uid"])
            phase = _GONE if kind == "DELETED" else rows.job_phase(seen_status(raw))
            # An ended job may still be deleted: its end was reported already.
            if uid in phases and phase not in ("", phases[uid]) and phases[uid] not in END_PHASES:
                phases[uid] = phase
                if (reader := output.get(uid)) is not None and (phase in END_PHASES or phase == _GONE):
                    _join(reader)  # the end comes after the last line
                message = "" if phase == _GONE else rows.job_message(raw)
                echo(f"{raw['metadata']['name']}: {phase}{f': {message}' if message else ''}")
    return 0 if set(phases.values()) == {"Succeed"} else EXIT_FAILED


_GONE = "deleted"


@contextmanager
def _output_of(
    cluster: Cluster, jobs: list[FoundJob], failed: Callable[[BaseException], None]
) -> Iterator[dict[str, threading.Thread]]:
    """Prints what the replicas of each job write, until the block is left; yields job UID -> the thread that does so,
    which ends after the job's last line. `failed` gets the error when the reader of stdout has gone."""
    from tjworker.cli.logs import printer
    from tjworker.cli.logstream import WHOLE, Follower, Wanted

    stop, one_at_a_time = threading.Event(), threading.Lock()
    with printer(fold=True) as emit:

        def emit_of(job: FoundJob) -> Callable[[str, str], None]:
            def emit_line(label: str, line: str) -> None:
                with one_at_a_time:  # each follower has a lock of its own
                    emit(label if len(jobs) == 1 else f"{job.name}/{label}", line)

            return emit_line

        def read(follower: Follower) -> None:
            try:
                follower.run(stop)
            except BrokenPipeError as error:
                failed(error)

        threads = {}
        for job in jobs:
            where = job.namespace
            follower = Follower(cluster, where, job, Wanted(), WHOLE, emit_of(job), tells_outage=False)
            thread = threading.Thread(target=read, args=(follower,), name=f"output-{job.name}", daemon=True)
            threads[str(job.raw["metadata"]["uid"])] = thread
            thread.start()
        try:
            yield threads
        finally:
            stop.set()
            for thread in threads.values():
                _join(thread)


def _join(thread: threading.Thread) -> None:
    """In steps, so that Ctrl-C is heard meanwhile."""
    while thread.is_alive():
        thread.join(timeout=0.2)
