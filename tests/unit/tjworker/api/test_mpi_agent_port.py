"""The port of the agent on a worker that has its node's network: declared, so that the scheduler keeps workers apart
that would want it on one node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.guests import parsed
from tests.unit.tjworker.api.guest_cases import manifest, role
from tjworker.api.kinds.guests import mpipods
from tjworker.base import GroupResource

KINDS: dict[str, dict[str, Any]] = {"mpijobs.training.kubedl.io": {}, "mpijobs.kubeflow.org": {"manifestVersion": "v1"}}
AGENT = {"name": "mpi-agent", "containerPort": 2200, "hostPort": 2200}
OWN = {"name": "own", "containerPort": 2200}
PORTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = {
    "a network of its own": ({}, {}, None),
    "that of its node": ({"hostNetwork": True}, {}, AGENT),
    "that of its node, with the port declared by the user": ({"hostNetwork": True}, {"ports": [OWN]}, OWN),
    "another port, by the agent's variable": (
        {"hostNetwork": True},
        {"env": [{"name": "MPI_AGENT_PORT", "value": "2300"}]},
        AGENT | {"containerPort": 2300, "hostPort": 2300},
    ),
    "a variable that is no port": (
        {"hostNetwork": True},
        {"env": [{"name": "MPI_AGENT_PORT", "value": "$(PORT)"}]},
        AGENT,
    ),
}


@pytest.mark.parametrize("case", PORTS.values(), ids=PORTS.keys())
@pytest.mark.parametrize("kind", KINDS)
def test_the_port_of_a_worker_with(kind: str, case: tuple[dict[str, Any], dict[str, Any], Any]) -> None:
    pod, container, want = case
    roles = {"Launcher": role(), "Worker": role(2, container)}
    for spec in roles.values():
        spec["template"]["spec"] |= pod
    resource = GroupResource(kind)
    job = parsed(resource, manifest(resource, roles, **KINDS[kind]))
    every = {one.name: one.template["spec"]["containers"][0].get("ports") or [] for one in job.roles}
    number = want["containerPort"] if want else 2200
    assert [port for port in every["Worker"] if port["containerPort"] == number] == ([want] if want else [])
    assert not [port for port in every["Launcher"] if port["containerPort"] == number], "it listens to nobody"
    assert mpipods.AGENT in job.role("Worker").template["spec"]["containers"][0]["command"]
