"""`tj validate`: what is wrong with manifests, before anything is made of them. Needs no cluster; changes nothing."""

from __future__ import annotations

import click

from tjworker.cli.console import complain, echo


@click.command(short_help="Check manifests, without a cluster.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
def validate(files: tuple[str, ...]) -> int:
    """Check each job in FILE (`-`: stdin) without a cluster: its fields, the rules of its kind, and Kubernetes' rules
    for the pod templates. What only a cluster knows is not checked: quotas, admission policies, whether the image
    exists, whether there is room.

    \b
    tj validate job.yaml
    """
    from tjworker.cli.manifests import hints, read, refuse_the_wrong

    manifests = read(files)
    jobs = [m for m in manifests if not m.is_other] or manifests
    refuse_the_wrong(jobs)
    for manifest in manifests:
        if manifest in jobs:
            echo(f"{manifest.source}: {manifest.given.split()[0]} {manifest.name} is valid")
            for hint in hints(manifest):
                complain(f"{manifest.source}: note: {hint}")
        else:
            complain(f"{manifest.source}: {manifest.given} is not a job: not checked")
    return 0
