"""Gang schedulers, which start the pods of a job all together or not at all. Each is a file, a row of `GANGS` and a
value of the setting `gang_scheduler`. `reconcile.pod_group` decides how a job uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tjworker.api.ignored import Ignored
from tjworker.api.kinds.quantity import is_amount
from tjworker.api.model import FieldError, TrainingJob
from tjworker.api.podgroups import QUEUE_ANNOTATION
from tjworker.api.podtemplate import DNS_SUBDOMAIN
from tjworker.reconcile.gangs.gang import Gang, asked, queue_of
from tjworker.reconcile.gangs.kubernetes import KUBERNETES
from tjworker.reconcile.gangs.scheduler_plugins import SCHEDULER_PLUGINS
from tjworker.reconcile.gangs.volcano import VOLCANO
from tjworker.reconcile.rules import Rules

GANGS: Mapping[str, Gang] = {"kubernetes": KUBERNETES, "volcano": VOLCANO, "scheduler-plugins": SCHEDULER_PLUGINS}


def find_gang(rules: Rules) -> Gang | None:
    """The gang scheduler of the settings; None if each pod is scheduled alone."""
    return GANGS.get(rules.gang)


def ignored_fields(job: TrainingJob, rules: Rules) -> Iterator[Ignored]:
    """The fields of the job's scheduling policy that have no effect."""
    gang = find_gang(rules)
    if gang is None:
        fields = [*(["minAvailable"] if job.min_available is not None else []), *asked(job)]
        why = f"pods are scheduled one by one, as TJ_GANG_SCHEDULER is {rules.gang}"
    else:
        fields, why = [name for name in asked(job) if name not in gang.acts_on], f"{rules.gang} has none"
    for name in fields:
        written = job.gang.priority_class_field if name == "priorityClass" else name
        yield Ignored(f"{job.gang.path}.{written}", why)


def gang_errors(job: TrainingJob, rules: Rules) -> Iterator[FieldError]:
    """Errors in the fields that the gang scheduler uses."""
    # No schema has checked annotations, nor all fields of other operators' kinds.
    gang = find_gang(rules)
    acts_on = gang.acts_on if gang else frozenset()
    policy = job.gang
    names = {
        "queue": (
            f"{policy.path}.queue" if policy.queue else f"metadata.annotations[{QUEUE_ANNOTATION}]",
            queue_of(job),
        ),
        "priorityClass": (f"{policy.path}.{policy.priority_class_field}", policy.priority_class),
    }
    for field, (path, name) in names.items():
        if field in acts_on and name and not re.fullmatch(DNS_SUBDOMAIN, name):
            yield FieldError(path, f"{name[:80]!r}: must be a name in lower case, such as research or team-a.research")
    for resource, amount in policy.min_resources.items() if "minResources" in acts_on else ():
        if not is_amount(amount):
            path = f"{policy.path}.minResources[{resource}]"
            yield FieldError(path, f"{str(amount)[:80]!r}: must be a quantity, such as 1, 500m or 1Gi")


def describe_missing_scheduler(rules: Rules) -> str:
    """Advice that follows the API server's message that it does not know the kind of an object; '' without a gang
    scheduler."""
    gang = find_gang(rules)
    return f"; TJ_GANG_SCHEDULER={rules.gang} needs {gang.needs}: install that, or choose another" if gang else ""
