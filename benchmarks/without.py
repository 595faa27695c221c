"""`python -m benchmarks.without`: what each speed-up of the operator brings, on a real kube-apiserver.

In each round the operator runs as it is and without one speed-up after another (`benchmarks.speedups`), each time from
nothing and with the same loads; who is first changes. CPU a job holds on a busy machine, jobs/s only on a quiet one. A
speed-up is compared with the operator as it is in the same round, and the median of these ratios counts.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import loads
from benchmarks.__main__ import CRDS
from benchmarks.apiserver import ApiServer
from benchmarks.measure import Measured, Sizes, make_loads, measure_load, start_operator, stop_operator
from benchmarks.operator import Operator
from benchmarks.processes import Processes
from benchmarks.speedups import SPEED_UPS, WITHOUT

AS_IT_IS = ""
OPERATOR = ("watcher", "worker", "worker children", "redis")
API_SERVER = ("kube-apiserver", "etcd")
Row = Mapping[str, float]
"""Column -> value, of one run."""


def measure(names: Sequence[str], sizes: Sizes, folder: Path) -> dict[str, list[Row]]:
    """Name of what was taken out -> its row in each round."""
    processes = Processes(folder)
    found: dict[str, list[Row]] = defaultdict(list)
    every = [AS_IT_IS, *names]
    try:
        api = ApiServer(folder, processes, CRDS)
        api.start()
        for number in range(sizes.rounds):
            turn = number * len(every) // sizes.rounds
            for name in every[turn:] + every[:turn]:
                row = _run(name, sizes, api, processes, folder)
                found[name].append(row)
                cells = ", ".join(f"{column} {value:.2f}" for column, value in row.items())
                when = time.strftime("%H:%M:%S", time.gmtime())
                print(f"{when} load {os.getloadavg()[0]:.1f} without {name or 'nothing'}: {cells}", file=sys.stderr)
    finally:
        processes.stop()
    return found


def _run(name: str, sizes: Sizes, api: ApiServer, processes: Processes, folder: Path) -> Row:
    settings = {WITHOUT: name}
    operator = Operator(folder, processes, api, workers=sizes.workers, module="benchmarks.speedups", settings=settings)
    start_operator(api, operator, processes)
    row: dict[str, float] = {}
    for measured in make_loads(sizes):
        measure_load(measured, api, operator, processes)
        load = measured.load
        short = f"{load.replicas}{'' if load.until == 'Running' else ' life'}"
        row |= {
            f"x {short}: operator": _cpu_ms(measured, OPERATOR),
            f"x {short}: API server": _cpu_ms(measured, API_SERVER),
            f"x {short}: requests": measured.requests[-1].total() / load.jobs,
            f"x {short}: jobs/s": load.jobs / measured.seconds[-1],
        }
    if sizes.samples:
        row["idle, ms to Running"] = statistics.median(loads.one_at_a_time(api, sizes.samples)) * 1000
        loads.clean(api)
        operator.until_idle(jobs=0)
    row["RSS, MiB"] = sum(sum(mib) for of, mib in processes.rss_mib().items() if of in OPERATOR)
    stop_operator(operator, processes)
    return row


def _cpu_ms(measured: Measured, names: Sequence[str]) -> float:
    return sum(measured.cpu_seconds[-1].get(name, 0.0) for name in names) / measured.load.jobs * 1000


def render(found: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """Medians as the operator is, then by how much each is more without a speed-up, and the range of the rounds."""
    whole = found[AS_IT_IS]
    columns = list(whole[0])
    yield f"| without | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    medians = (f"{statistics.median(row[column] for row in whole):.2f}" for column in columns)
    yield f"| nothing | {' | '.join(medians)} |"
    for name, rows in found.items():
        if name == AS_IT_IS:
            continue
        cells = []
        for column in columns:
            more = sorted(row[column] / base[column] - 1 for row, base in zip(rows, whole, strict=True))
            cells.append(f"{statistics.median(more):+.0%} ({more[0]:+.0%} to {more[-1]:+.0%})")
        yield f"| {name}: {SPEED_UPS[name][1]} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.without", description="What each speed-up brings.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SPEED_UPS)} (default all)")
    parser.add_argument("--jobs", type=int, default=300, metavar="N", help="as of `python -m benchmarks` (default 300)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default 3)")
    parser.add_argument("--samples", type=int, default=20, metavar="N", help="jobs on an idle system (default 20)")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - SPEED_UPS.keys():
        parser.error(f"no such speed-up: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that everything is stopped in order
    sizes = Sizes(jobs=options.jobs, rounds=options.rounds, samples=options.samples)
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
        found = measure(options.names or list(SPEED_UPS), sizes, Path(folder))
    print("\n".join(render(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
