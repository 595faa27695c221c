"""The Place of a replica, read from what the operator writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.digits.env import Address, BadEnvironment, need, read_place

OPERATOR = {
    "TRAININGJOB_NAME": "digits",
    "TRAININGJOB_REPLICA_NAME": "pserver",
    "TRAININGJOB_REPLICA_INDEX": "1",
    "TRAININGJOB_REPLICA_RESTARTCOUNT": "2",
    "TRAININGJOB_SERVICE": "digits-pserver-1",
    "TRAININGJOB_PORTS": "7001",
    "MASTER_INSTANCES_NUM": "1",
    "MASTER_HOSTS": "digits-master-0:7000",
    "PSERVER_INSTANCES_NUM": "2",
    "PSERVER_HOSTS": "digits-pserver-0:7001,digits-pserver-1:7001",
}


@dataclass(frozen=True)
class Case:
    changes: dict[str, str]
    want: dict[str, Any] = field(default_factory=dict)
    want_error: str = ""


CASES: dict[str, Case] = {
    "what the operator writes": Case(
        {},
        {
            "name": "pserver-1",
            "restarts": 2,
            "service": "digits-pserver-1",
            "port": 7001,
            "masters": (Address("digits-master-0", 7000),),
            "pservers": (Address("digits-pserver-0", 7001), Address("digits-pserver-1", 7001)),
        },
    ),
    "of several ports of a replica the first counts": Case(
        {"PSERVER_HOSTS": "a:1, a:2, b:3, b:4", "TRAININGJOB_PORTS": "1,2"},
        {"pservers": (Address("a", 1), Address("b", 3)), "port": 1},
    ),
    "without a count each item is a replica": Case(
        {"PSERVER_INSTANCES_NUM": "", "PSERVER_HOSTS": "127.0.0.1:1,127.0.0.1:2"},
        {"pservers": (Address("127.0.0.1", 1), Address("127.0.0.1", 2))},
    ),
    "an IPv6 address stands in brackets": Case({"MASTER_HOSTS": "[::1]:7000"}, {"masters": (Address("::1", 7000),)}),
    "a replica without ports": Case({"TRAININGJOB_PORTS": ""}, {"port": None}),
    "without an index the pod's name tells": Case(
        {"TRAININGJOB_REPLICA_INDEX": "", "POD_NAME": "digits-trainer-x7k2p"}, {"name": "digits-trainer-x7k2p"}
    ),
    "hosts that the manifest of a TrainingJob names": Case(
        {"PSERVER_HOSTS": "", "DIGITS_PSERVER_HOSTS": "a:1,b:2", "PSERVER_INSTANCES_NUM": "2"},
        {"pservers": (Address("a", 1), Address("b", 2))},
    ),
    "those that the operator writes win": Case(
        {"DIGITS_MASTER_HOSTS": "a:1"}, {"masters": (Address("digits-master-0", 7000),)}
    ),
    "an item of theirs without a port": Case(
        {"MASTER_HOSTS": "", "DIGITS_MASTER_HOSTS": "a"}, want_error="DIGITS_MASTER_HOSTS holds 'a':"
    ),
    "an item without a port": Case({"MASTER_HOSTS": "digits"}, want_error="MASTER_HOSTS holds 'digits':"),
    "a port that is none": Case({"MASTER_HOSTS": "a:70000"}, want_error="MASTER_HOSTS holds the port '70000'"),
    "an own port that is none": Case({"TRAININGJOB_PORTS": "http"}, want_error="TRAININGJOB_PORTS holds the port 'h"),
    "a count that does not fit": Case(
        {"PSERVER_INSTANCES_NUM": "3"}, want_error="PSERVER_HOSTS has 2 items and PSERVER_INSTANCES_NUM is 3"
    ),
    "a restart count that is no number": Case(
        {"TRAININGJOB_REPLICA_RESTARTCOUNT": "-1"}, want_error="TRAININGJOB_REPLICA_RESTARTCOUNT is '-1'"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_read_place(name: str) -> None:
    case = CASES[name]
    environment = {**OPERATOR, **case.changes}
    if case.want_error:
        with pytest.raises(BadEnvironment, match=case.want_error):
            read_place("trainer", environment)
    else:
        place = read_place("trainer", environment)
        assert {key: getattr(place, key) for key in case.want} == case.want


def test_a_missing_variable_is_named_with_what_to_do() -> None:
    with pytest.raises(BadEnvironment, match=r"MASTER_HOSTS is empty or not set.*examples\.digits\.local"):
        need(read_place("trainer", {}).masters, "MASTER_HOSTS")


def test_the_manifest_runs_modules_that_exist_with_ports_that_the_operator_counts() -> None:
    root = Path(__file__).parents[4]
    job = yaml.safe_load((root / "examples/digits/job.yaml").read_text())
    for role, spec in job["spec"]["replicaSpecs"].items():
        container = spec["template"]["spec"]["containers"][0]
        assert container["name"].startswith("aitj-")
        assert container["command"][:2] == ["python", "-m"]
        assert (root / (container["command"][2].replace(".", "/") + ".py")).is_file()
        assert all(port["name"].startswith("aitj-") for port in container.get("ports", []))
        assert bool(container.get("ports")) == (role != "trainer")
