"""`tj describe`: explains the state of a job in sentences. Reads only. `tj get -o yaml` prints the raw fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tjworker.cli.console import echo, wrapped
from tjworker.cli.options import in_namespace, which_job

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from tjworker.api.model import TrainingJob
    from tjworker.autoscale.rules import AutoscaleRules
    from tjworker.cli.cluster import Cluster
    from tjworker.cli.narrative import Around, Section


@click.command(short_help="Explain the state of a job.")
@which_job
@in_namespace
def describe(job: str, namespace: str | None) -> int:
    """Explain the state of JOB: why it is waiting or failed, what restarted it and when it retries, what the autoscaler
    did, how much of its time limits is left, and how old this information is. A deleted job is shown from the
    history (`tj history`).

    \b
    tj describe digits
    """
    from tjworker.cli import narrative, rows
    from tjworker.cli.cluster import user_cluster
    from tjworker.cli.errors import NoSuchJob
    from tjworker.cli.jobs import find_job, job_events, job_pods, readable, untaken, with_named
    from tjworker.cli.past import past_instead

    with user_cluster() as cluster:
        where = namespace or cluster.namespace
        try:
            found = find_job(cluster.api, where, job)
        except NoSuchJob as error:
            _print(past_instead(where, job, error).sections())
            return 0
        pods = job_pods(cluster.api, found)
        seen = job_events(cluster.api, found)
        (model, errors), now = readable(with_named(cluster.api, found)), rows.utc_now()
        around = _around(cluster, model, now)
        sections = narrative.describe(found.raw, model, pods, seen, now, around=around, errors=errors)
        if (waits := untaken(found, cluster.operator)) not in ("", narrative.UNTAKEN):
            sections.append(narrative.Section("Switched off", (waits,)))
    _print(sections)
    return 0


def _print(sections: Iterable[Section]) -> None:
    echo("\n\n".join("\n".join(_shown(section)) for section in sections))


def _around(cluster: Cluster, job: TrainingJob, now: datetime) -> Around:
    """The job's surroundings in the cluster; empty if the user may not read nodes and pods of all namespaces."""
    from tjworker.api.kinds import parse
    from tjworker.api.model import TrainingJob
    from tjworker.api.resources import NODES, PODS
    from tjworker.base import OperatorError
    from tjworker.cli.jobs import list_jobs
    from tjworker.cli.narrative import Around
    from tjworker.cli.room import ill_nodes, obstacles, room, too_large

    # Nothing in the cluster changes an ended job, so its nodes and pods need not be listed.
    if job.status.ended:
        return Around()
    try:
        nodes = list(cluster.api.list_all(NODES))
        ill, large = ill_nodes(nodes), list(too_large(job, nodes))
        # Only an elastic role that could grow needs the lists of all pods and jobs, which are megabytes in a large
        # cluster.
        if not any(role.autoscaled and role.replicas < (role.max_replicas or 0) for role in job.roles):
            return Around(ill, too_large=large)
        models = [parse(one.resource, one.raw) for one in list_jobs(cluster.api, "")]
        found = room(nodes, cluster.api.list_all(PODS))
        jobs = [model for model in models if isinstance(model, TrainingJob)]
        return Around(ill, obstacles(job, jobs, found, now, environment_rules()), large)
    except OperatorError:
        return Around()


def environment_rules() -> AutoscaleRules:
    """The autoscaler's rules by this environment, which with a local stack is the operator's; else the defaults."""
    from pydantic import ValidationError

    from tjworker.autoscale.rules import AutoscaleRules
    from tjworker.settings import Settings

    try:
        settings = Settings()
    except ValidationError:
        return AutoscaleRules()
    cooldown = settings.autoscale_cooldown_seconds
    return AutoscaleRules(settings.autoscale_policy, settings.max_load_desired, cooldown, settings.gpu_resource_list)


def _shown(section: Section) -> list[str]:
    """The section's lines, wrapped for a terminal."""
    indent = "  " if section.title else ""
    body = []
    for line in section.lines:
        if line.startswith(" "):  # a line of a log is not wrapped
            body.append(indent + line)
        else:
            body.extend(wrapped(line, indent=indent, after="  "))
    return [section.title, *body] if section.title else body
