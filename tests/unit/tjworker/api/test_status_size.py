"""The biggest job at its worst, with every pod restarted a thousand times, still fits into one object of etcd."""

from __future__ import annotations

import orjson

from tjworker.api.indices import format_indices
from tjworker.api.kinds.aitrainingjob.rules import MAX_REPLICAS
from tjworker.api.kinds.runpolicy import MAX_PODS
from tjworker.api.status import Attempts, JobStatus, RoleAttempts

ETCD_BYTES = 1_572_864
"""--max-request-bytes, its default."""
ROOM_FOR_THE_SPEC = 256 * 1024
"""kubectl's own limit: its copy of the manifest is an annotation."""


def test_the_status_of_the_biggest_job_fits() -> None:
    """Indices that alternate make the longest lists: no two are one range. An index has a result, or has run, or has
    been made. A new field belongs here, at its longest."""
    even, odd = format_indices(range(0, MAX_REPLICAS, 2)), format_indices(range(1, MAX_REPLICAS, 2))
    restarts = {str(i): 1000 for i in range(MAX_REPLICAS)}
    role = RoleAttempts(all=1000, pods=restarts, completed=even, made=odd, vanished={"9": odd})
    roles = {f"role-{n}": role for n in range(MAX_PODS // MAX_REPLICAS)}
    status = JobStatus(attempts=Attempts(job=1000, roles=roles))
    size, budget = len(orjson.dumps(status.to_json())), ETCD_BYTES - 2 * ROOM_FOR_THE_SPEC
    assert size < budget, (
        f"the biggest status has {size} bytes, {size - budget} over the budget of {budget} (ETCD_BYTES less twice"
        " ROOM_FOR_THE_SPEC). etcd's limit is no choice of ours: bound what grew in tjworker/api/status.py, write it as"
        " ranges (tjworker/api/indices.py), or lower MAX_PODS in tjworker/api/kinds/aitrainingjob/rules.py"
    )
