"""Reads jobs from CSV files of three formats. Reads files, and has no other side effect.

- The project's own format: name, time, replicas, duration; optional min, max, cpu, memory, gpus, rescale. The job takes
  `duration` seconds on `replicas` replicas, and its speed is proportional to its replicas.
- The workloads of Pollux: name, time, application, num_replicas, batch_size. The speed comes from the measurements of
  the application. The job may have from one GPU to all. Rigid schedulers use the numbers that its user tuned.
- The trace of Philly: timestamp, duration, num_gpus, gpu_time. The job takes `duration` seconds on `num_gpus` GPUs, and
  its speed is proportional to its GPUs. It may have from one GPU to twice `num_gpus`.

A row that cannot be used is left out, and a line in `Trace.complaints` names it.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tjworker.api.quantity import milli, whole
from tjworker.simulate.cluster import room_for
from tjworker.simulate.pollux import Application, PolluxSpeed
from tjworker.simulate.scenario import Amounts, Rigid, ScenarioError, SimulatedJob, SimulatedNode
from tjworker.simulate.speed import LINEAR

Row = Mapping[str, str]
RESCALE_SECONDS = 30.0
"""Default for how long a job pauses after replicas have come or gone; the value of Pollux' simulation."""
NO_HEADER = "is empty; its first line has to name columns"
LONGEST_LINE = 65_536
"""Bytes of a row. Rows of all formats are hundreds of times shorter."""
ONE_GPU = Amounts(cpu_milli=1000, gpus=1)


@dataclass(frozen=True, slots=True)
class Trace:
    jobs: tuple[SimulatedJob, ...]
    complaints: tuple[str, ...]
    """One line for each row that is left out, or whose order changes."""


class _RefusedRow(ValueError):
    """A row is left out; the message says why."""


def read_trace(path: Path, nodes: list[SimulatedNode], models: Path | None) -> Trace:
    """The jobs of a CSV file, by time. `models`: the folder of Pollux' applications. Raises ScenarioError if the file
    is no trace, or has no job."""
    complaints: list[str] = []
    columns, rows = _read_rows(path, complaints)
    build = _builder(path, columns, nodes, models)
    jobs: dict[str, SimulatedJob] = {}
    latest, latest_line = float("-inf"), 0
    for line, row in rows:
        try:
            # DictReader gives None to columns without a value, and puts surplus values under `restkey`.
            if None in row.values() or "" in row:
                raise _RefusedRow(f"it has not {len(columns)} values, as the header has columns")
            job = build(row, line)
            if job.name in jobs:
                raise _RefusedRow(f"the name {job.name} is there already")
            # A job that can never run would keep the simulation from ending.
            largest = room_for(nodes, job.asks)
            smallest = min(job.replicas, job.least) if job.rigid is None else job.rigid.replicas
            if smallest > largest:
                raise _RefusedRow(f"job {job.name} needs {smallest} replicas at once, and the cluster holds {largest}")
        except _RefusedRow as error:
            complaints.append(f"{path.name} line {line}: {error}; the row is left out")
            continue
        if job.submitted_at < latest:
            complaints.append(
                f"{path.name} line {line}: its time is before that of line {latest_line}; jobs are simulated by time"
            )
        else:
            latest, latest_line = job.submitted_at, line
        jobs[job.name] = job
    if not jobs:
        raise ScenarioError(f"{path}: no row is a job; {complaints[0] if complaints else 'there are no rows'}")
    ordered = sorted(jobs.values(), key=lambda job: job.submitted_at)
    # Philly's timestamps are dates: the first job defines second 0.
    first = ordered[0].submitted_at if "timestamp" in columns else 0.0
    return Trace(tuple(replace(job, submitted_at=job.submitted_at - first) for job in ordered), tuple(complaints))


def _read_rows(path: Path, complaints: list[str]) -> tuple[set[str], list[tuple[int, Row]]]:
    """(the columns, each row after the number of its line)."""
    try:
        with path.open("rb") as file:
            reader = csv.DictReader(_lines(path, file, complaints), restkey="")
            columns = set(reader.fieldnames or ())
            rows: list[tuple[int, Row]] = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ScenarioError(f"{path}: is no text; a trace is CSV in UTF-8") from None
    except csv.Error as error:
        raise ScenarioError(f"{path}: is no CSV: {error}") from None
    if not columns:
        raise ScenarioError(f"{path}: {complaints[0] if complaints else NO_HEADER}")
    return columns, rows


def _lines(path: Path, file: BinaryIO, complaints: list[str]) -> Iterator[str]:
    """The lines of the file. A line that is too long is replaced by an empty one, which is no row."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            # Skip the rest in pieces: the whole line could fill the memory.
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            complaints.append(
                f"{path.name} line {number}: it has more than {LONGEST_LINE:,} bytes; the row is left out"
            )
            yield "\n"
            continue
        # A byte order mark may come first.
        yield line.decode("utf-8-sig" if number == 1 else "utf-8")


def _builder(
    path: Path, columns: set[str], nodes: list[SimulatedNode], models: Path | None
) -> Callable[[Row, int], SimulatedJob]:
    if {"name", "time", "application", "num_replicas", "batch_size"} <= columns:
        if models is None:
            raise ScenarioError(
                f"{path}: its jobs are applications of Pollux' artifact; name the folder that has a folder for each:"
                " --models DIR"
            )
        known: dict[str, Application] = {}
        if not models.is_dir():
            raise ScenarioError(f"{path}: --models {models}: there is no such folder")
        return lambda row, _: _pollux(row, models, known, room_for(nodes, ONE_GPU))
    if {"timestamp", "duration", "num_gpus"} <= columns:
        return lambda row, line: _philly(row, line, room_for(nodes, ONE_GPU))
    if {"name", "time", "replicas", "duration"} <= columns:
        return lambda row, _: _own(row)
    raise ScenarioError(
        f"{path}: its header is of no known format; there are name,time,replicas,duration (docs/elasticity.md),"
        " name,time,application,num_replicas,batch_size (Pollux) and timestamp,duration,num_gpus,gpu_time (Philly)"
    )


def _pollux(row: Row, models: Path, known: dict[str, Application], gpus: int) -> SimulatedJob:
    name = row["application"]
    # The name becomes part of a path, and may not lead out of the folder.
    if not name or "/" in name or name.startswith("."):
        raise _RefusedRow(f"application is {name!r}, which is no name of a folder")
    try:
        application = known.get(name) or known.setdefault(name, Application(models / name))
    except ScenarioError as error:
        raise _RefusedRow(str(error)) from None
    replicas, batch = _count(row, "num_replicas"), _count(row, "batch_size")
    return SimulatedJob(
        row["name"],
        _number(row, "time"),
        ONE_GPU,
        1,
        # More replicas than smallest parts of the largest batch would have nothing to compute.
        max(1, min(gpus, application.largest // max(1, int(application.least_local)))),
        1,
        application.work,
        PolluxSpeed(application),
        rescale_seconds=RESCALE_SECONDS,
        gang=True,
        rigid=Rigid(replicas, PolluxSpeed(application, batch)),
        batch_size=application.batch_size,
    )


def _philly(row: Row, line: int, gpus: int) -> SimulatedJob:
    try:
        # The trace names no time zone, and only differences of times count.
        at = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _RefusedRow(f"timestamp is {row['timestamp']!r}, and not such as 2017-10-09 07:01:55") from None
    replicas = _count(row, "num_gpus")
    return SimulatedJob(
        f"row-{line}",
        at,
        ONE_GPU,
        1,
        max(1, min(2 * replicas, gpus)),
        replicas,
        _duration(row) * replicas,
        rescale_seconds=RESCALE_SECONDS,
        gang=True,
        rigid=Rigid(replicas, LINEAR),
    )


def _own(row: Row) -> SimulatedJob:
    replicas = _count(row, "replicas")
    least = _count(row, "min") if row.get("min") else replicas
    most = _count(row, "max") if row.get("max") else replicas
    if not least <= replicas <= most:
        raise _RefusedRow(f"min {least}, replicas {replicas} and max {most} are not in this order")
    asks = Amounts(
        _quantity(row, "cpu", milli) if row.get("cpu") else 1000,
        _quantity(row, "memory", whole) if row.get("memory") else 0,
        _count(row, "gpus") if row.get("gpus") and row["gpus"] != "0" else 0,
    )
    return SimulatedJob(
        row["name"],
        _number(row, "time"),
        asks,
        least,
        most,
        replicas,
        _duration(row) * replicas,
        rescale_seconds=_number(row, "rescale") if row.get("rescale") else RESCALE_SECONDS,
        gang=True,
        rigid=Rigid(replicas, LINEAR),
    )


# -- values --------------------------------------------------------------------------------------------
def _number(row: Row, column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise _RefusedRow(f"{column} is {row[column]!r}, and not a number of seconds from 0 on")
    return value


def _duration(row: Row) -> float:
    value = _number(row, "duration")
    if value <= 0:
        raise _RefusedRow(f"duration is {row['duration']!r}, and has to be above 0")
    return value


def _count(row: Row, column: str) -> int:
    text = row[column]
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1_000_000):
        raise _RefusedRow(f"{column} is {text!r}, and not a whole number from 1 on")
    return int(text)


def _quantity(row: Row, column: str, read: Callable[[object], int]) -> int:
    try:
        return read(row[column])
    except ValueError as error:
        raise _RefusedRow(f"{column}: {error}") from None
