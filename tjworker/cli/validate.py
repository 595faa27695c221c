"""`tj validate`: checks manifests before they are applied. Needs no cluster; changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tjworker.cli.console import complain, echo

if TYPE_CHECKING:
    from tjworker.cli.manifests import Manifest


@click.command(short_help="Check manifests, without a cluster.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
def validate(files: tuple[str, ...]) -> int:
    """Check each job, and each runtime of TrainJobs, in FILE (`-`: stdin) without a cluster: its fields, the rules of
    its kind, and Kubernetes' rules for the pod templates. What only a cluster knows is not checked: quotas, admission
    policies, whether the image exists, whether there is room.

    \b
    tj validate job.yaml
    """
    from tjworker.cli.manifests import hints, read, refuse_the_wrong

    manifests = read(files)
    # A file without any job is the wrong file; next to a job, other objects are not checked.
    jobs = [m for m in manifests if m.kind or m.companion or m.is_misspelt] or manifests
    refuse_the_wrong(jobs)
    for manifest in manifests:
        if manifest in jobs:
            echo(f"{manifest.source}: {manifest.given.split()[0]} {manifest.name} is valid")
            for hint in hints(manifest):
                complain(f"{manifest.source}: note: {hint}")
        elif manifest.is_other:
            complain(f"{manifest.source}: {manifest.given} is not a job: not checked")
        else:
            complain(f"{manifest.source}: not checked: {manifest.why_no_job}")
    _note_kinds_that_are_off(jobs)
    return 0


def _note_kinds_that_are_off(manifests: list[Manifest]) -> None:
    """Go by the settings of the local stack or of this environment, if there are any: no cluster is asked."""
    from tjworker.cli.cluster import choose_kubeconfig, operator_settings
    from tjworker.cli.kinds import how_to_switch_on, operator_kinds, switched_off

    of_operator = operator_kinds(operator_settings(choose_kubeconfig(quiet=True)))
    guests = {manifest.kind.resource: manifest.kind for manifest in manifests if manifest.kind and manifest.kind.guest}
    for kind in guests.values():
        if of_operator is None:
            complain(f"note: {kind.kind} ({kind.group}) is served where it is on: {how_to_switch_on([kind])}")
        elif kind.resource not in of_operator:
            complain(f"note: {switched_off([kind], of_operator)}")
