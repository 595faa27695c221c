"""The script by which the fake kubelet plays a pod, as its annotations describe it. Pure.

All annotations start with `fake.localcluster/`:

| annotation | meaning |
|---|---|
| start-seconds | from being bound to running (default 0) |
| run-seconds | how long it runs (absent: for ever) |
| exit-code | how it ends (default 0) |
| ready-seconds | from running to ready (default 0; `never`) |
| failing-attempts | the first n runs exit with `failing-exit-code`; later ones as above (counted as values below) |
| failing-exit-code | default 1 |
| failing-run-seconds | how long a failing run lasts (default: as run-seconds, else 0) |
| waiting-reason | it does not start: its containers wait with this reason (ImagePullBackOff, CreateContainerConfigError
...) |
| waiting-message | the message of that reason |
| waiting-seconds | for how long (absent: for ever) |
| terminate-seconds | how long it takes to go when deleted (default 0; `never`: until its grace period is over) |
| terminate-exit-code | with which code (default 143, and 137 when the grace period was over) |
| reason | the terminated container's reason, for example OOMKilled |
| log | what `kubectl logs` shows |
| exit | put on a pod that runs: it ends now, with this code; a container that is then restarted runs on |

A pod with `localcluster/evict` (`limit` or `pressure`, see `troubles`) is evicted where its run would end, or at once
when that is never.

`<container>.fake.localcluster/...` holds for pods whose first container has that name, and goes before the others:
where the annotations of several kinds of pods can only be set together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localcluster.wire import Json

PREFIX = "fake.localcluster/"
FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Play:
    """How one run of a pod goes. Times in seconds; `FOREVER` for never."""

    start_seconds: float = 0.0
    run_seconds: float = FOREVER
    exit_code: int = 0
    ready_seconds: float = 0.0
    waiting_reason: str = ""
    waiting_message: str = ""
    waiting_seconds: float = FOREVER
    terminate_seconds: float = 0.0
    terminate_exit_code: int | None = None
    reason: str = ""
    log: str = ""


Script = Callable[[Json, int], Play | None]
"""(pod, attempt from 1 on) -> its Play, None for what the annotations say."""


def play_of(pod: Json, attempt: int) -> Play:
    """What the annotations say. Raises ValueError naming the annotation that is no number."""
    found = pod["metadata"].get("annotations") or {}
    own = f"{pod['spec']['containers'][0]['name']}.{PREFIX}"
    values = {k.removeprefix(PREFIX): v for k, v in found.items() if k.startswith(PREFIX)}
    values |= {k.removeprefix(own): v for k, v in found.items() if k.startswith(own)}

    def seconds(name: str, default: float) -> float:
        text = values.get(name)
        if text is None:
            return default
        try:
            return FOREVER if text == "never" else float(text)
        except ValueError as error:
            raise ValueError(
                f"annotation {PREFIX}{name}={text!r} of pod {pod['metadata']['name']} is no number of seconds"
            ) from error

    run_seconds, code = seconds("run-seconds", FOREVER), int(values.get("exit-code", "0"))
    if attempt <= int(values.get("failing-attempts", "0")):
        run_seconds = seconds("failing-run-seconds", 0.0 if run_seconds == FOREVER else run_seconds)
        code = int(values.get("failing-exit-code", "1"))
    return Play(
        start_seconds=seconds("start-seconds", 0.0),
        run_seconds=run_seconds,
        exit_code=code,
        ready_seconds=seconds("ready-seconds", 0.0),
        waiting_reason=values.get("waiting-reason", ""),
        waiting_message=values.get("waiting-message", ""),
        waiting_seconds=seconds("waiting-seconds", FOREVER),
        terminate_seconds=seconds("terminate-seconds", 0.0),
        reason=values.get("reason", ""),
        log=values.get("log", ""),
        terminate_exit_code=int(values["terminate-exit-code"]) if "terminate-exit-code" in values else None,
    )
