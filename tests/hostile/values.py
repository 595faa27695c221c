"""For each type of `schema.py` what is ordinary, and what is as far out as an API server lets it be. PURE."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

INT32, INT64 = 2**31 - 1, 2**63 - 1
QUANTITIES = (
    "0",
    "1m",
    "1n",
    "0.000000001",
    "1.5Gi",
    "1e3",
    "9223372036854775807",
    "9223372036854775807k",
    "8Ei",
    "100E",
    "1e400",
    "1e-400",
    "1E10",
    "99999999999999999999999999999999999999",
)
TIMES = (
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:01Z",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999999Z",
    "1969-12-31T23:59:59Z",
    "2026-01-01T00:00:00+23:59",
    "2026-01-01T00:00:00.123456789-12:00",
    "0001-01-01T00:00:00+23:59",
)
TEXTS = (
    "",
    " ",
    "x",
    "\n",
    "\x00\x01\x1b[31m",
    "\u202e\ufeff",
    "\ufffd\uffff",
    "🚀" * 1000,
    "ß" * 5000,
    "[{" * 3000,
    '"\\' * 2000,
    "9" * 5000,
    "1e400",
    "null",
    "NaN",
    "2026-13-45T99:99:99Z",
    "Traceback (most recent call last):",
)
BIG = "x" * 200_000


def _text(rng: random.Random) -> str:
    return BIG if rng.random() < 0.01 else rng.choice(TEXTS)


def _of(*values: Any) -> Callable[[random.Random], Any]:
    return lambda rng: rng.choice(values)


def nested(depth: int) -> Any:
    value: Any = 1
    for n in range(depth):
        value = [value] if n % 2 else {"a": value}
    return value


ODD = ("", "🚀", "Unknown", "NoSuchThing", "x" * 300)
"""Of an enum: what most statuses take, as nobody validates them."""
HOSTILE: Mapping[str, Callable[[random.Random], Any]] = {
    "text": _text,
    "label": _of("", "a", "x" * 63, "A.b_c-9"),
    "name": _of("a", "aitj-main", "x" * 63),
    "variable": _of("A", "TRAININGJOB_NAME", "a.b-c", "X" * 1000),
    "image": _of("x", "registry.example.com/" + "a" * 200 + ":" + "t" * 127),
    "domain": _of("a", "example.com/a", "node.kubernetes.io/unreachable", "nvidia.com/gpu"),
    "node": _of("nowhere", "n" * 63),
    "quantity": _of(*QUANTITIES),
    "pieces": _of("0", "1", "1k", "1e3", "9223372036854775807", "100E", "1e400"),
    "int32": _of(0, 1, -1, INT32, -INT32 - 1),
    "int64": _of(0, 1, -1, INT64, -INT64 - 1),
    "count": _of(0, 1, 2, INT32),
    "few": _of(0, 1, 2, 3),
    "some": _of(1, 2, 3),
    "command": _of("train", "🚀" * 200, "x" * 1000),
    "port": _of(1, 80, 65535),
    "port-name": _of("a", "aitj-7164", "x" * 15),
    "protocol": _of("TCP", "UDP", "SCTP"),
    "seconds": _of(0, 1, 10**9, 10**11, INT64),
    "deadline": _of(1, 3600, INT32),
    "zero-or-so": _of(0, 1, INT32),
    "indexes": _of("", "0", "0-3,7"),
    "time": _of(*TIMES),
    "now": _of("2026-01-01T00:00:00Z"),
    "bool": _of(True, False),
    "yes": _of(True),
    "none": _of("None"),
    "ip": _of("", "10.0.0.1", "fe80::1"),
    "status": _of("True", "False", "Unknown", *ODD),
    "condition": _of(
        "Ready", "PodScheduled", "DisruptionTarget", "Complete", "Failed", "ReplicaFailure", "MemoryPressure", *ODD
    ),
    "health": _of("Healthy", "Unhealthy", *ODD),
    "pod-phase": _of("Pending", "Running", "Succeeded", "Failed", *ODD),
    "job-phase": _of("Pending", "Running", "Succeed", "Failed", "Terminating", "", "🚀"),
    "restart": _of("Always", "OnFailure", "Never"),
    "always": _of("Always"),
    "operator": _of("Exists", "Equal"),
    "no-execute": _of("NoExecute"),
    "effect": _of("NoSchedule", "NoExecute", "PreferNoSchedule"),
    "qos": _of("Guaranteed", "Burstable", "BestEffort"),
    "edl": _of("Auto", "Manual", "Never"),
    "anything": lambda rng: nested(rng.choice((1, 100, 250, 255, 600))),
}
PLAIN: Mapping[str, Any] = {
    "quantity": "1",
    "pieces": "1",
    "time": TIMES[0],
    "text": "x",
    "status": "True",
    "pod-phase": "Running",
    "few": 1,
}


def value(kind: str, rng: random.Random, *, hostile: bool) -> Any:
    return HOSTILE[kind](rng) if hostile or kind not in PLAIN else PLAIN[kind]


def many_labels(rng: random.Random, how_many: int) -> dict[str, str]:
    """As many bytes as an object of 1.5 MiB has room for, at most 10,000 of them."""
    return {f"l{n}-{rng.randrange(10**6)}/{'k' * 30}": "v" * 63 for n in range(how_many)}


def pick(rng: random.Random, choices: Sequence[Any]) -> Any:
    return rng.choice(choices)
