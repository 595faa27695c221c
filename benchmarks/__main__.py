"""`python -m benchmarks`: the operator and the bare client, on a real kube-apiserver, in one run and one table.

Starts everything it needs (etcd, kube-apiserver, Redis, watcher, workers, a player of pods) in a folder of its own and
leaves nothing behind. Ratios count, absolute times do not: what else the machine does is in all of them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Sizes, measure
from benchmarks.table import render

CRDS = Path(__file__).resolve().parent.parent / "k8s" / "crds" / "aitrainingjobs.elasticdeeplearning.ai.yaml"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="The operator compared with a bare client."
    )
    parser.add_argument(
        "--jobs",
        type=_positive,
        default=1000,
        metavar="N",
        help="jobs of one pod; the other loads are N/4 of four pods, and 3N/10 for whole lives (default 1000)",
    )
    parser.add_argument(
        "--rounds", type=_positive, default=3, metavar="N", help="how often; medians are shown (default 3)"
    )
    parser.add_argument(
        "--samples", type=int, default=50, metavar="N", help="latencies to take, 0 for none (default 50)"
    )
    parser.add_argument(
        "--workers",
        type=_sizes,
        default=(1, 1),
        metavar="SIZES",
        help="sizes of the worker processes, for example 1,1 (default) or 2",
    )
    parser.add_argument(
        "--peer",
        type=Path,
        metavar="PATH",
        help="compare with the tuned training-operator, whose program `make peer` builds, instead of the bare client",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and the audit log in this folder")
    parser.add_argument("--crds", type=Path, default=CRDS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that everything is stopped in order
    sizes = Sizes(
        jobs=options.jobs, rounds=options.rounds, samples=options.samples, workers=options.workers, peer=options.peer
    )
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
        result = measure(sizes, options.keep or Path(folder), options.crds, say=_say)
    print("\n".join(render(result)))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
