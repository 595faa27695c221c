"""The result as Markdown tables. Pure but for asking what machine this is."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import Measured, Result

_CPU_COLUMNS = ("watcher", "worker", "worker children", "redis", "kube-apiserver", "etcd", "player", "client")
_OPERATOR = ("watcher", "worker", "worker children", "redis")


def render(result: Result) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.started))
    load = ", ".join(f"{one:.1f}" for one in result.load_average)
    yield (
        f"{when}; {_cpu()}, {os.cpu_count()} cores for everything; Python {platform.python_version()}; workers prefork"
        f" {' + '.join(str(size) for size in result.sizes.workers)}; {result.sizes.rounds} rounds, medians; load"
        f" average before each: {load}"
    )
    yield ""
    yield from _beside_peer(result) if result.peer else _beside_bare_client(result)
    yield ""
    yield "| CPU, ms a job | " + " | ".join(_CPU_COLUMNS) + " |"
    yield "|---|" + "---|" * len(_CPU_COLUMNS)
    for one in result.loads:
        yield f"| {one.load.name} | " + " | ".join(f"{_cpu_ms(one, name):.1f}" for name in _CPU_COLUMNS) + " |"
    yield ""
    yield "| requests a job | " + " | ".join(one.load.name for one in result.loads) + " |"
    yield "|---|" + "---|" * len(result.loads)
    kinds = sorted({key[1:] for one in result.loads for counted in one.requests for key in counted})
    for verb, resource in kinds:
        cells = [f"{_per_job(one, verb, resource):.2f}" for one in result.loads]
        yield f"| {verb} {resource} | " + " | ".join(cells) + " |"
    yield ""
    yield from _latency(result)
    yield from _memory(result)


def _beside_bare_client(result: Result) -> Iterator[str]:
    yield (
        "| load | jobs/s | bare client, jobs/s | share | ceiling | share by CPU | ceiling by CPU | "
        "requests a job | floor + 3 | tasks a job | operator CPU, ms a job |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for one in result.loads:
        bare = one.load.jobs / statistics.median(one.bare_seconds)
        yield (
            f"| {one.load.name} | {one.rate:.1f} | {bare:.0f} | **{one.share:.2f}** | {one.ceiling_share:.2f} | "
            f"{one.cpu_share:.2f} | {one.ceiling_cpu_share:.2f} | "
            f"{_total(one):.2f} | {_most(one)} | "
            f"{statistics.mean(one.tasks) / one.load.jobs:.2f} | "
            f"{sum(_cpu_ms(one, name) for name in _OPERATOR):.1f} |"
        )


def _beside_peer(result: Result) -> Iterator[str]:
    yield (
        "| load | jobs/s: theirs | ours | ratio (of each round) | kube-apiserver: theirs | ours | etcd: theirs | ours "
        "| operator, ms a job: theirs | ours | ratio | requests a job: theirs | ours | tasks a job |"
    )
    yield "|---|" + "---|" * 13
    for one, other in zip(result.loads, result.peer, strict=True):
        ratios = [theirs / ours for theirs, ours in zip(other.seconds, one.seconds, strict=True)]
        mine, its = sum(_cpu_ms(one, name) for name in _OPERATOR), _cpu_ms(other, "peer")
        cells = [
            f"{other.rate:.1f}",
            f"{one.rate:.1f}",
            f"**{statistics.median(ratios):.2f}** ({', '.join(f'{r:.2f}' for r in ratios)})",
            *(f"{_cpu_ms(who, name):.1f}" for name in ("kube-apiserver", "etcd") for who in (other, one)),
            f"{its:.1f}",
            f"{mine:.1f}",
            f"{mine / its if its else 0:.2f}",
            f"{_total(other):.2f}",
            f"{_total(one):.2f}",
            f"{statistics.mean(one.tasks) / one.load.jobs:.2f}",
        ]
        yield f"| {one.load.name} | {' | '.join(cells)} |"


def _latency(result: Result) -> Iterator[str]:
    if result.pod_to_status:
        yield "| latency, idle system | p50, ms | p99, ms |"
        yield "|---|---|---|"
        for name, took in (
            ("pod change -> status change", result.pod_to_status),
            ("creation -> Running, one job of one pod", result.creation_to_running),
            ("the same, the peer", result.peer_creation_to_running),
        ):
            if not took:
                continue
            yield f"| {name} | {percentile_ms(took, 50):.0f} | {percentile_ms(took, 99):.0f} |"
        yield ""


def _memory(result: Result) -> Iterator[str]:
    yield "| memory | " + " | ".join(name for name in _CPU_COLUMNS if name in result.rss_mib) + " |"
    yield "|---|" + "---|" * sum(name in result.rss_mib for name in _CPU_COLUMNS)
    yield (
        "| RSS, MiB | "
        + " | ".join(
            " + ".join(f"{m:.0f}" for m in result.rss_mib[name]) for name in _CPU_COLUMNS if name in result.rss_mib
        )
        + " |"
    )


def _cpu_ms(one: Measured, name: str) -> float:
    return statistics.median(cpu.get(name, 0.0) for cpu in one.cpu_seconds) / one.load.jobs * 1000


def _sum(one: Measured) -> Counter[tuple[str, str, str]]:
    return sum(one.requests, Counter[tuple[str, str, str]]())


def _total(one: Measured) -> float:
    return _sum(one).total() / one.load.jobs / len(one.requests)


def _per_job(one: Measured, verb: str, resource: str) -> float:
    found = sum(n for (_, v, r), n in _sum(one).items() if (v, r) == (verb, resource))
    return found / one.load.jobs / len(one.requests)


def _most(one: Measured) -> int:
    """One create for each pod and service, one delete for each that goes, and three status writes, are the floor; three
    more are allowed."""
    creates = 2 * one.load.replicas
    deletes = creates if one.load.until == "Succeed" else 0
    return creates + deletes + 3 + 3


def percentile_ms(values: Sequence[float], percent: int) -> float:
    """Nearest rank, in milliseconds, of seconds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * percent // 100) - 1))] * 1000


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
