"""Makes a scenario from a YAML document, and checks each field. Pure: the caller reads the file.

`docs/elasticity.md` describes the fields. An unknown field is an error that names it, because a misspelt field would
silently simulate something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from tjworker.api.quantity import milli, whole
from tjworker.simulate.cluster import room_for
from tjworker.simulate.scenario import (
    LONGEST_SECONDS,
    Amounts,
    NodeEvent,
    Rigid,
    Scenario,
    ScenarioError,
    SimulatedJob,
    SimulatedNode,
    SimulatedService,
)
from tjworker.simulate.speed import LINEAR, Speed, Table

MOST_PODS = 100_000
"""The most pods of one role or service: each is an object in memory."""
MOST_NODES = 10_000
MOST_JOBS = 10_000


class _Model(BaseModel):
    # YAML has .inf and .nan, and a simulation would never reach such a time.
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, allow_inf_nan=False
    )


class _WrittenAmounts(_Model):
    cpu: float | str = 0
    memory: float | str = 0
    gpus: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _readable(self) -> _WrittenAmounts:
        self.amounts()
        return self

    def amounts(self) -> Amounts:
        return Amounts(milli(str(self.cpu)), whole(str(self.memory)), self.gpus)


class _WrittenNodes(_WrittenAmounts):
    count: int = Field(1, ge=1, le=MOST_NODES)
    name: str = Field("node", min_length=1)
    pods: int = Field(110, ge=1)
    used: _WrittenAmounts = _WrittenAmounts()


class _WrittenNodeEvent(_Model):
    at: float = Field(ge=0)
    node: str
    up: bool = False


class _FixedRole(_WrittenAmounts):
    count: int = Field(1, ge=1, le=MOST_PODS)


class _WrittenJob(_Model):
    name: str = Field(min_length=1)
    submit: float = Field(0, ge=0)
    count: int = Field(1, ge=1, le=MOST_JOBS)
    every: float = Field(0, ge=0)
    requests: _WrittenAmounts
    min: int | None = Field(None, ge=1)
    max: int | None = Field(None, ge=1, le=MOST_PODS)
    replicas: int = Field(1, ge=1, le=MOST_PODS)
    needs: int | None = Field(None, ge=1)
    work: float | None = Field(None, gt=0)
    speed: dict[int, float] | Literal["linear"] = "linear"
    fixed_roles: dict[str, _FixedRole] = Field(default_factory=dict, alias="beside")
    rescale_seconds: float = Field(30, ge=0)
    priority: int = 0
    gang: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> _WrittenJob:
        least, most = self.bounds()
        if not least <= self.replicas <= most:
            raise ValueError(f"min {least}, replicas {self.replicas} and max {most} are not in this order")
        if self.speed != "linear" and (not self.speed or min(self.speed) < 1 or min(self.speed.values()) <= 0):
            raise ValueError("speed must map numbers of replicas, 1 or more, to speeds above 0")
        return self

    def bounds(self) -> tuple[int, int]:
        return (self.min or self.replicas, self.max or self.replicas)


class _WrittenService(_Model):
    name: str = Field(min_length=1)
    requests: _WrittenAmounts
    # Above that of jobs (0): a service preempts trainers, as in a shared cluster.
    priority: int = 1000
    replicas: dict[float, Annotated[int, Field(ge=0, le=MOST_PODS)]]


class _Document(_Model):
    nodes: list[_WrittenNodes] = Field(min_length=1)
    jobs: list[_WrittenJob] = Field(default_factory=list)
    services: list[_WrittenService] = Field(default_factory=list)
    node_events: list[_WrittenNodeEvent] = Field(default_factory=list)
    until: float | None = Field(None, gt=0, le=LONGEST_SECONDS)
    autoscale_seconds: float = Field(5, ge=0.1)
    cooldown_seconds: float = Field(30, ge=0)
    max_load_desired: float = Field(0.97, gt=0, le=1)
    start_seconds: float = Field(1, ge=0)
    stop_seconds: float = Field(1, ge=0)
    placement: Literal["spread", "pack"] = "spread"
    preemption: bool = True


def read_scenario(document: object) -> tuple[Scenario, tuple[str, ...]]:
    """(the scenario, one line for each job that is left out). Raises ScenarioError if the document is wrong."""
    if not isinstance(document, Mapping):
        raise ScenarioError("it is not a mapping with nodes and jobs")
    try:
        read = _Document.model_validate(document)
    except ValidationError as error:
        # Of a union pydantic reports each alternative as an error: the first says enough.
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"])) or "the scenario"
        raise ScenarioError(f"{path}: {first['msg'].removeprefix('Value error, ')}") from None
    nodes = _nodes(read)
    names = {node.name for node in nodes}
    for i, event in enumerate(read.node_events):
        if event.node not in names:
            raise ScenarioError(f"nodeEvents.{i}.node: {event.node} does not exist; the first node is {nodes[0].name}")
    if (count := sum(entry.count for entry in read.jobs)) > MOST_JOBS:
        raise ScenarioError(f"jobs: there are {count}, and at most {MOST_JOBS} are simulated")
    jobs: list[SimulatedJob] = []
    complaints: list[str] = []
    job_names: set[str] = set()
    for i, entry in enumerate(read.jobs):
        for job in _jobs(entry):
            if job.name in job_names:
                raise ScenarioError(f"jobs.{i}.name: another job is called {job.name}")
            job_names.add(job.name)
            # A job that can never run would keep the simulation from ending.
            least, room = min(job.least, job.replicas), room_for(nodes, job.asks)
            if least > room:
                complaints.append(
                    f"jobs.{i}: job {job.name} needs {least} replicas at once, and the cluster holds {room};"
                    " the job is left out"
                )
                continue
            jobs.append(job)
    if read.until is None and any(job.work is None for job in jobs):
        raise ScenarioError("until: a job without work trains for ever; set the second at which the simulation ends")
    return _scenario(read, nodes, jobs), tuple(complaints)


def _scenario(read: _Document, nodes: list[SimulatedNode], jobs: list[SimulatedJob]) -> Scenario:
    services = [
        SimulatedService(s.name, s.requests.amounts(), tuple(sorted(s.replicas.items())), s.priority)
        for s in read.services
    ]
    return Scenario(
        nodes,
        jobs,
        services,
        [NodeEvent(e.at, e.node, e.up) for e in read.node_events],
        read.until,
        read.autoscale_seconds,
        read.cooldown_seconds,
        read.max_load_desired,
        read.start_seconds,
        read.stop_seconds,
        read.placement,
        read.preemption,
    )


def _nodes(read: _Document) -> list[SimulatedNode]:
    if (count := sum(entry.count for entry in read.nodes)) > MOST_NODES:
        raise ScenarioError(f"nodes: there are {count}, and at most {MOST_NODES} are simulated")
    found: dict[str, SimulatedNode] = {}
    for i, entry in enumerate(read.nodes):
        for n in range(entry.count):
            name = f"{entry.name}-{n}" if entry.count > 1 else entry.name
            if name in found:
                raise ScenarioError(f"nodes.{i}.name: another node is called {name}")
            found[name] = SimulatedNode(name, entry.amounts(), entry.pods, entry.used.amounts())
    return list(found.values())


def _jobs(entry: _WrittenJob) -> list[SimulatedJob]:
    least, most = entry.bounds()
    speed: Speed = LINEAR if entry.speed == "linear" else Table(tuple(sorted(entry.speed.items())))
    return [
        SimulatedJob(
            f"{entry.name}-{n}" if entry.count > 1 else entry.name,
            entry.submit + n * entry.every,
            entry.requests.amounts(),
            least,
            most,
            entry.replicas,
            entry.work,
            speed,
            entry.needs,
            {role: (part.count, part.amounts()) for role, part in entry.fixed_roles.items()},
            entry.rescale_seconds,
            entry.priority,
            entry.gang,
            Rigid(entry.replicas, speed),
        )
        for n in range(entry.count)
    ]
