"""Where this process stands in the job, read from the environment that the operator writes.

The only module that knows variable names: another operator, or another kind of job, changes this file and no other.
Never opens a socket, never resolves a name. Pure: the same environment gives the same Place.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass


class BadEnvironment(Exception):
    """A variable that the job cannot run with: names the variable, its value, the rule and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Place:
    job: str
    name: str
    """Of this replica, for people: `trainer-3`. Two live replicas never share it."""
    restarts: int
    """How often the operator has restarted this replica before."""
    service: str
    """The host name that others know this replica by; empty when it has none."""
    pod_ip: str
    port: int | None
    """The first of the replica's own ports; None when it has none."""
    masters: tuple[Address, ...]
    pservers: tuple[Address, ...]
    """In the order of their index: parameters are spread over them by position."""


def read_place(role: str, environ: Mapping[str, str] | None = None) -> Place:
    """The Place of a replica of `role`, which is used when the environment does not name one."""
    env = os.environ if environ is None else environ
    index = env.get("TRAININGJOB_REPLICA_INDEX", "").strip()
    role = env.get("TRAININGJOB_REPLICA_NAME", "").strip() or role
    ports = _items(env, "TRAININGJOB_PORTS")
    return Place(
        job=env.get("TRAININGJOB_NAME", "") or "digits",
        # Without an index the host name has to tell replicas apart, and the pid those on one host.
        name=f"{role}-{index}" if index else env.get("POD_NAME", "") or f"{role}-{socket.gethostname()}-{os.getpid()}",
        restarts=_number("TRAININGJOB_REPLICA_RESTARTCOUNT", env.get("TRAININGJOB_REPLICA_RESTARTCOUNT", "") or "0"),
        service=env.get("TRAININGJOB_SERVICE", "").strip(),
        pod_ip=env.get("POD_IP", "").strip(),
        port=_port("TRAININGJOB_PORTS", ports[0]) if ports else None,
        masters=_hosts(env, "MASTER"),
        pservers=_hosts(env, "PSERVER"),
    )


def need(addresses: tuple[Address, ...], variable: str) -> tuple[Address, ...]:
    """`addresses`, or BadEnvironment when there are none."""
    if not addresses:
        raise BadEnvironment(
            f"{variable} is empty or not set: it must hold host:port, separated by commas. The operator writes it for "
            f"each role that has a port named aitj-*; in a TrainingJob, set DIGITS_{variable}; without an operator use "
            "`python -m examples.digits.local`."
        )
    return addresses


def _items(env: Mapping[str, str], variable: str) -> list[str]:
    return [item.strip() for item in env.get(variable, "").split(",") if item.strip()]


def _hosts(env: Mapping[str, str], role: str) -> tuple[Address, ...]:
    """The first port of each replica: `<role>_HOSTS` has one item for each replica and port, replica by replica."""
    variable, count_variable = f"{role}_HOSTS", f"{role}_INSTANCES_NUM"
    items = _items(env, variable)
    if not items:
        # A TrainingJob's pods have no names before they are there: its manifest has services, and says their names.
        return tuple(_address(f"DIGITS_{variable}", item) for item in _items(env, f"DIGITS_{variable}"))
    replicas = _number(count_variable, env.get(count_variable, "") or str(len(items)))
    if not replicas or len(items) % replicas:
        raise BadEnvironment(
            f"{variable} has {len(items)} items and {count_variable} is {replicas}: "
            "each replica must be listed once for each of its ports, and all must have as many."
        )
    return tuple(_address(variable, item) for item in items[:: len(items) // replicas])


def _address(variable: str, item: str) -> Address:
    host, colon, port = item.rpartition(":")
    if not colon or not host:
        raise BadEnvironment(f"{variable} holds {item!r}: each item must be host:port.")
    return Address(host.strip("[]"), _port(variable, port))


def _number(variable: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise BadEnvironment(f"{variable} is {value!r}: it must be a whole number, 0 or more.")
    return int(value)


def _port(variable: str, value: str) -> int:
    if not value.strip().isdecimal() or not 0 < int(value) < 65536:
        raise BadEnvironment(f"{variable} holds the port {value!r}: it must be a number from 1 to 65535.")
    return int(value)
