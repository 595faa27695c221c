"""`tj scale`: set the number of replicas of one role. One write; running it twice changes nothing more.

The API server checks the bounds; its refusal is what the user reads. The elastic role goes through the scale subresource, as
`kubectl scale` does; a role that the CRD's one scale path does not name is patched in the spec.
"""

from __future__ import annotations

import click


@click.command("scale", short_help="Set the number of replicas of a role.")
@click.argument("job")
@click.option("--replicas", type=click.IntRange(min=0), required=True, help="How many.")
@click.option("--role", help="Which role; default: the one that `kubectl scale` moves (trainer).")
@click.option("-n", "--namespace", help="Namespace; default: the context's.")
def command(job: str, replicas: int, role: str | None, namespace: str | None) -> int:
    """Set the number of replicas of a role of JOB. Replicas that run are not restarted.

    \b
    tj scale digits --replicas 5
    """
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import UserError
    from tjworker.cli.jobs import find_job, parsed

    with user_cluster() as cluster:
        where = namespace or cluster.namespace
        found = find_job(cluster.api, where, job)
        model = parsed(found)
        if model.status.ended:
            raise UserError(f"{job} has ended ({model.status.phase}): an end is final, nothing is scaled any more")
        wanted = role or model.scale_role
        names = [r.name for r in model.roles]
        if wanted is None:
            raise UserError(f"{job} has no role that scales by default; name one with --role, it has: {', '.join(names)}")
        if wanted not in names:
            raise UserError(f"{job} has no role {wanted}; it has: {', '.join(names)}")
        before = model.role(wanted).replicas
        if wanted == model.scale_role:
            cluster.api.merge_patch(found.plural, where, job, {"spec": {"replicas": replicas}}, subresource="scale")
        else:
            cluster.api.merge_patch(found.plural, where, job, {"spec": {"replicaSpecs": {wanted: {"replicas": replicas}}}})
        click.echo(f"{job}: {wanted} " + (f"{before} -> {replicas}" if before != replicas else f"is {replicas} already"))
        return 0
